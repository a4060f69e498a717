"""The integer arithmetic of `$((...))`, evaluated without eval: bounded in length, depth and size of numbers."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from cann_plan.importers.script_errors import MAX_NESTING, ScriptError

MAX_LENGTH: Final = 4096
"""Characters of one expression."""
_TOKEN: Final = re.compile(r"\s*(0[xX][0-9a-fA-F]+|\d+|[A-Za-z_]\w*|\*\*|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%()<>&|^~!?:])")
_LEVELS: Final = (
    ("||",), ("&&",), ("|",), ("^",), ("&",), ("==", "!="), ("<", ">", "<=", ">="), ("<<", ">>"), ("+", "-"),
    ("*", "/", "%"),
)  # fmt: skip
_BITS: Final = 64


class UnknownValueError(Exception):
    """The expression needs a value that only running the script would give."""


def evaluate(expression: str, lookup: Callable[[str], int]) -> int:
    """The value of a shell arithmetic expression as a signed 64-bit integer.

    `lookup` gives the value of a variable (it may raise UnknownValueError). Raises ScriptError for anything that is
    not plain integer arithmetic, assignments among it.
    """
    if len(expression) > MAX_LENGTH:
        raise ScriptError("an arithmetic expression is too long")
    return _Parser(expression, lookup).value()


class _Parser:
    def __init__(self, expression: str, lookup: Callable[[str], int]) -> None:
        self.lookup = lookup
        self.items: list[str] = []
        position = 0
        text = expression.rstrip()
        while position < len(text):
            match = _TOKEN.match(text, position)
            if match is None:
                raise ScriptError(f"{text[position : position + 10]!r} is not arithmetic")
            self.items.append(match[1])
            position = match.end()
        self.at = 0
        self.depth = 0

    def value(self) -> int:
        result = self._choice() if self.items else 0
        if self.at < len(self.items):
            raise ScriptError(f"{self.items[self.at]!r} is not expected in arithmetic")
        return result

    def _peek(self) -> str:
        return self.items[self.at] if self.at < len(self.items) else ""

    def _enter(self) -> None:
        self.depth += 1
        if self.depth > MAX_NESTING:
            raise ScriptError("arithmetic is nested too deeply")

    def _choice(self) -> int:
        self._enter()
        condition = self._binary(0)
        if self._peek() == "?":
            self.at += 1
            yes = self._choice()
            if self._peek() != ":":
                raise ScriptError("`?` without `:` in arithmetic")
            self.at += 1
            no = self._choice()
            condition = yes if condition else no
        self.depth -= 1
        return condition

    def _binary(self, level: int) -> int:
        if level == len(_LEVELS):
            return self._power()
        left = self._binary(level + 1)
        while self._peek() in _LEVELS[level]:
            sign = self.items[self.at]
            self.at += 1
            left = _apply(sign, left, self._binary(level + 1))
        return left

    def _power(self) -> int:
        base = self._unary()
        if self._peek() != "**":
            return base
        self._enter()
        self.at += 1
        exponent = self._power()
        self.depth -= 1
        if not 0 <= exponent <= _BITS:
            raise ScriptError("an exponent is out of range")
        return _wrap(base**exponent)

    def _unary(self) -> int:
        sign = self._peek()
        if sign in ("-", "+", "!", "~"):
            self._enter()
            self.at += 1
            value = self._unary()
            self.depth -= 1
            return {"-": -value, "+": value, "!": int(not value), "~": ~value}[sign]
        self.at += 1
        if sign == "(":
            value = self._choice()
            if self._peek() != ")":
                raise ScriptError("a parenthesis in arithmetic is never closed")
            self.at += 1
            return value
        if sign[:1].isdigit():
            return number(sign)
        if sign[:1].isalpha() or sign[:1] == "_":
            return self.lookup(sign)
        raise ScriptError("arithmetic ends early" if not sign else f"{sign!r} is not expected in arithmetic")


def number(text: str) -> int:
    """A shell number: decimal, 0x hexadecimal, leading 0 octal. Raises ScriptError."""
    try:
        if text[:2].lower() == "0x":
            return _wrap(int(text, 16))
        return _wrap(int(text, 8 if len(text) > 1 and text[0] == "0" else 10))
    except ValueError:
        raise ScriptError(f"{text[:20]!r} is not a number") from None


def _apply(sign: str, left: int, right: int) -> int:
    if sign in ("/", "%"):
        if right == 0:
            raise ScriptError("division by zero")
        quotient = abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1)
        return _wrap(quotient if sign == "/" else left - quotient * right)
    if sign in ("<<", ">>"):
        shift = right % _BITS
        return _wrap(left << shift if sign == "<<" else left >> shift)
    results: dict[str, Callable[[], int]] = {
        "+": lambda: left + right, "-": lambda: left - right, "*": lambda: left * right,
        "&": lambda: left & right, "|": lambda: left | right, "^": lambda: left ^ right,
        "&&": lambda: int(bool(left) and bool(right)), "||": lambda: int(bool(left) or bool(right)),
        "==": lambda: int(left == right), "!=": lambda: int(left != right), "<": lambda: int(left < right),
        ">": lambda: int(left > right), "<=": lambda: int(left <= right), ">=": lambda: int(left >= right),
    }  # fmt: skip
    return _wrap(results[sign]())


def _wrap(value: int) -> int:
    """`value` as a signed 64-bit integer, as shells compute."""
    value &= (1 << _BITS) - 1
    return value - (1 << _BITS) if value >> (_BITS - 1) else value
