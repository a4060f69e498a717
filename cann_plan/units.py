"""Quantities as people write them ("64 GiB", "400 Gbit/s", "28 d", "80B", "95%") to SI floats, and back.

Prefixes are strict: kB, MB, GB are powers of 1000 and KiB, MiB, GiB powers of 1024 (IEC 80000-13); `b` or `bit` is a
bit and `B` a byte. A bare number is taken in the SI unit of the dimension. What could mean two things is refused.
"""

from __future__ import annotations

import math
import re
from dataclasses import field
from enum import Enum
from typing import Final

from cann_plan.records import dataclass

MAX_TEXT: Final = 80  # characters; no quantity a person writes is longer
_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:_[0-9]+)*\.?(?:[0-9]+(?:_[0-9]+)*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,4})?")
_SEXAGESIMAL = re.compile(r"[0-9]+(?::[0-9]+)+")
_COMMA = re.compile(r"[+-]?[0-9]+(?:,[0-9]+)+")
_LEADING_ZERO = re.compile(r"[+-]?0[0-9_]")

_DECIMAL: Final = {"": 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18, "Z": 1e21}
_BINARY: Final = {"Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40, "Pi": 2.0**50, "Ei": 2.0**60}


class UnitError(ValueError):
    """A text that is not a quantity of the wanted dimension; `allowed` says what is accepted, `suggestion` a fix."""

    def __init__(self, message: str, allowed: str | None = None, suggestion: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.allowed = allowed
        self.suggestion = suggestion


class Dimension(Enum):
    """What a quantity measures; the value is its name in messages."""

    NUMBER = "number"
    COUNT = "count"
    BYTES = "amount of memory"
    BANDWIDTH = "bandwidth"
    TIME = "time"
    FLOPS = "number of floating-point operations"
    FLOP_RATE = "computing rate"
    POWER = "power"
    ENERGY = "energy"
    FRACTION = "fraction"
    FREQUENCY = "frequency"
    RATE = "rate"
    CARBON = "carbon intensity"


@dataclass(frozen=True, slots=True)
class _Units:
    si: str  # the SI unit a bare number is in
    table: dict[str, float]  # unit -> factor to SI
    example: str
    ambiguous: dict[str, str] = field(default_factory=dict)  # unit -> what to write instead


def _prefixed(names: tuple[str, ...], prefixes: dict[str, float], factor: float = 1.0) -> dict[str, float]:
    return {p + n: f * factor for n in names for p, f in prefixes.items()}


def _words(factor: float, *names: str) -> dict[str, float]:
    return dict.fromkeys(names, factor)


_BYTE: Final = {**_prefixed(("B",), _DECIMAL | _BINARY), **_words(1.0, "byte", "bytes")}
_BIT: Final = {**_prefixed(("bit", "b"), _DECIMAL | _BINARY, 1 / 8), "bits": 1 / 8}
_PER_SECOND: Final = ("/s", "/sec")
_AMBIGUOUS_BYTES: Final = {
    unit: f"{p}B (10^{e}) or {p}iB (2^{b})"
    for p, e, b in (("k", 3, 10), ("M", 6, 20), ("G", 9, 30), ("T", 12, 40))
    for unit in {p.lower() + "b", p.upper() + "b", p.upper()}  # neither prefix nor bit or byte is certain
}
_RATE_THINGS: Final = ("", "1", "image", "images", "sample", "samples", "token", "tokens", "request", "requests")

_UNITS: Final[dict[Dimension, _Units]] = {
    Dimension.NUMBER: _Units("", {}, "80e9 or 80_000_000_000"),
    Dimension.COUNT: _Units(
        "",
        {
            **{p: f for p, f in _DECIMAL.items() if p},
            "B": 1e9,
            **_words(1e3, "thousand"),
            **_words(1e6, "million"),
            **_words(1e9, "billion"),
            **_words(1e12, "trillion"),
        },
        "80B, 80e9 or 80_000_000_000",
    ),
    Dimension.BYTES: _Units("B", _BYTE, "64 GiB (2^30) or 64 GB (10^9)", _AMBIGUOUS_BYTES),
    Dimension.BANDWIDTH: _Units(
        "B/s",
        {
            **{u + s: f for u, f in (_BYTE | _BIT).items() for s in _PER_SECOND},
            **_prefixed(("Bps",), _DECIMAL),
            **_prefixed(("bps", "bitps"), _DECIMAL, 1 / 8),
        },
        "400 Gbit/s or 25 GB/s",
        {
            **{p.lower() + "b" + s: f"{p}B/s (bytes) or {p}bit/s (bits)" for p in "MGT" for s in ("/s", "ps")},
            **{p + u: f"{p}B/s (bytes) or {p}bit/s (bits)" for p in "KMGT" for u in ("", "b", "B", "bit", "/s")},
            **{p + "T/s": f"GB/s: transfers are not bytes ({p}T/s x bus width)" for p in "MG"},
        },
    ),
    Dimension.TIME: _Units(
        "s",
        {
            **_words(1e-9, "ns"),
            **_words(1e-6, "us", "µs", "μs", "microseconds"),
            **_words(1e-3, "ms", "milliseconds"),
            **_words(1.0, "s", "sec", "second", "seconds"),
            **_words(60.0, "min", "mins", "minute", "minutes"),
            **_words(3600.0, "h", "hr", "hrs", "hour", "hours"),
            **_words(86400.0, "d", "day", "days"),
            **_words(604800.0, "w", "week", "weeks"),
            **_words(31536000.0, "y", "yr", "year", "years"),  # 365 d
        },
        "5 us, 30 min, 12 h or 28 d",
        {"m": "min (minutes) or ms (milliseconds)", "M": "min (minutes) or d (days)", "month": "d", "months": "d"},
    ),
    Dimension.FLOPS: _Units("FLOP", _prefixed(("FLOP", "FLOPs", "FLOPS", "flop", "flops"), _DECIMAL), "3.1e23 FLOP"),
    Dimension.FLOP_RATE: _Units(
        "FLOP/s",
        _prefixed(
            ("FLOP/s", "FLOPs/s", "FLOPS", "FLOPs", "flop/s", "flops", "flops/s", "Flops", "OPS", "OP/s", "OPs/s"),
            _DECIMAL,
        ),
        "313 TFLOP/s",
    ),
    Dimension.POWER: _Units("W", _prefixed(("W",), _DECIMAL) | {"mW": 1e-3}, "350 W or 5.6 kW"),
    Dimension.ENERGY: _Units(
        "J", _prefixed(("J",), _DECIMAL) | _prefixed(("Wh",), _DECIMAL, 3600.0), "120 MWh or 432 GJ"
    ),
    Dimension.FRACTION: _Units("", {"%": 0.01}, "0.95 or 95%"),
    Dimension.FREQUENCY: _Units("Hz", _prefixed(("Hz",), _DECIMAL), "1.85 GHz"),
    Dimension.RATE: _Units(
        "/s",
        {n + s: f for n in _RATE_THINGS for s, f in (("/s", 1.0), ("/min", 1 / 60), ("/h", 1 / 3600))}
        | {p + s: f for p, f in _DECIMAL.items() for s in ("/s", " samples/s", " tokens/s", " images/s")},
        "2500/s",
    ),
    Dimension.CARBON: _Units(
        "kg/J",
        {
            "g/kWh": 1e-3 / 3.6e6,
            "gCO2/kWh": 1e-3 / 3.6e6,
            "gCO2e/kWh": 1e-3 / 3.6e6,
            "kg/kWh": 1 / 3.6e6,
            "kgCO2e/kWh": 1 / 3.6e6,
            "t/MWh": 1 / 3.6e6,
            "kg/J": 1.0,
        },
        "540 g/kWh",
    ),
}


def _a(dimension: Dimension) -> str:
    return f"{'an' if dimension.value[0] in 'aeiou' else 'a'} {dimension.value}"


def accepted(dimension: Dimension) -> str:
    """What may be written for `dimension`, in words."""
    units = _UNITS[dimension]
    if not units.si:
        return f"a number, for example {units.example}"
    return f"a number with a unit, for example {units.example}; a bare number is in {units.si}"


def parse_number(value: object) -> float:
    """A plain number: int, float or text such as "80e9", "80_000_000_000", "-1.5".

    Raises UnitError for booleans, "1:30", "010", "80,000", infinities, not-a-number and everything else.
    """
    return parse(value, Dimension.NUMBER)


def parse(value: object, dimension: Dimension) -> float:
    """`value` in the SI unit of `dimension`: a number, or text "number[ ]unit". Raises UnitError."""
    if isinstance(value, bool):
        raise UnitError(f"{str(value).lower()} is not {_a(dimension)}", accepted(dimension))
    if isinstance(value, int | float):
        return _finite(value, str(value)[:MAX_TEXT])
    if not isinstance(value, str):
        kind = {type(None): "nothing", list: "a list", tuple: "a list", dict: "a mapping"}.get(type(value), "this")
        raise UnitError(f"expected {_a(dimension)}, found {kind}", accepted(dimension))
    text = value.strip()
    if not text or len(text) > MAX_TEXT:
        raise UnitError(f"{value[:MAX_TEXT]!r} is not {_a(dimension)}", accepted(dimension))
    match = _NUMBER.match(text)
    _refuse_lookalikes(text, dimension)
    if match is None:
        raise UnitError(f"{value!r} is not {_a(dimension)}", accepted(dimension))
    number = float(match.group().replace("_", ""))
    unit = text[match.end() :].strip()
    factor = _factor(text, match.group(), unit, dimension)
    # small units divide by a whole number, so that "5 us" is the double nearest to 5e-6 and "95%" that nearest to 0.95
    return _finite(number * factor if factor >= 1 else number / round(1 / factor), text)


def is_bare_number(text: str) -> bool:
    """Whether `text` is a number without a unit."""
    return _NUMBER.fullmatch(text.strip()) is not None


def parse_count(value: object) -> int:
    """A whole number of tokens, parameters, devices ...: 8, "80B", "2e12". Raises UnitError if it is not whole."""
    if isinstance(value, int) and not isinstance(value, bool):
        if abs(value) >= 2**63:
            raise UnitError(f"{str(value)[:MAX_TEXT]} is too large", accepted(Dimension.COUNT))
        return value
    number = parse(value, Dimension.COUNT)
    if number != round(number):
        raise UnitError(f"{value} is not a whole number", "a whole number", str(round(number)))
    if abs(number) >= 2.0**63:
        raise UnitError(f"{value} is too large", accepted(Dimension.COUNT))
    return int(number)


def _finite(number: float, text: str) -> float:
    try:
        result = float(number)
    except OverflowError:
        result = math.inf
    if not math.isfinite(result):
        raise UnitError(f"{text} is not a finite number", "a finite number")
    return result


def _refuse_lookalikes(text: str, dimension: Dimension) -> None:
    if _SEXAGESIMAL.match(text):
        allowed = "a time with a unit, for example 90 min or 1.5 h" if dimension is Dimension.TIME else None
        raise UnitError(f"{text!r} is ambiguous (YAML 1.1 reads it in base 60)", allowed or accepted(dimension))
    if _COMMA.match(text):
        raise UnitError(f"{text!r}: a comma is not accepted in a number", accepted(dimension), text.replace(",", "_"))
    if _LEADING_ZERO.match(text):
        raise UnitError(
            f"{text!r} is ambiguous: a leading zero means octal in YAML 1.1",
            accepted(dimension),
            text.lstrip("0_") or "0",
        )


def _factor(text: str, number: str, unit: str, dimension: Dimension) -> float:
    units = _UNITS[dimension]
    if not unit:
        return 1.0
    if unit in units.ambiguous:
        raise UnitError(f"{text!r} is ambiguous", units.ambiguous[unit])
    if unit in units.table:
        return units.table[unit]
    if dimension in (Dimension.NUMBER, Dimension.COUNT, Dimension.FRACTION) or not units.table:
        raise UnitError(f"{text!r} is not {_a(dimension)}", accepted(dimension))
    folded = [u for u in units.table if u.lower() == unit.lower()]
    raise UnitError(
        f"{text!r}: unknown unit {unit!r} for {_a(dimension)}",
        accepted(dimension),
        f"{number} {folded[0]}" if folded else None,
    )


# ---------------------------------------------------------------------------------------------------------------------
# SI to text. `digits` significant digits; 17 make the round trip exact up to the rounding of one product.


def _number_text(value: float, digits: int) -> str:
    text = f"{value:.{digits}g}"
    if "e" in text and 1 <= abs(value) < 1e15 and digits < 17:
        text = f"{value:.0f}"
    return text


def _scaled(value: float, unit: str, scale: dict[str, float], digits: int, gap: str = " ") -> str:
    size = abs(value)
    chosen, factor = next(iter(scale.items()))
    for prefix, f in scale.items():
        if size >= f * (1 - 0.5 * 10.0**-digits) or f <= factor:
            chosen, factor = prefix, f
    return f"{_number_text(value / factor, digits)}{gap}{chosen}{unit}".rstrip()


_UP: Final = {p: f for p, f in _DECIMAL.items() if p != "K"}
_UP_BINARY: Final = {"": 1.0, **_BINARY}
_TIMES: Final = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0}


def format_bytes(value: float, digits: int = 4) -> str:
    """Bytes with binary prefixes, as memory is shown on every tool's screen: "60.97 GiB"."""
    return _scaled(value, "B", _UP_BINARY, digits)


def format_bandwidth(value: float, digits: int = 4) -> str:
    """Bytes per second with decimal prefixes: "25 GB/s"."""
    return _scaled(value, "B/s", _UP, digits)


def format_time(value: float, digits: int = 4) -> str:
    """Seconds in the largest fitting unit: "5 us", "28 d"."""
    return "0 s" if value == 0 else _scaled(value, "", _TIMES, digits)


def format_count(value: float, digits: int = 4) -> str:
    """A count: "80B", "4096", "1.5T"."""
    if abs(value) < 1e6:
        return _number_text(value, max(digits, 6))
    return _scaled(value, "", {"": 1.0, "M": 1e6, "B": 1e9, "T": 1e12}, digits, gap="")


def format_flops(value: float, digits: int = 4) -> str:
    """Floating-point operations: "314 ZFLOP"."""
    return _scaled(value, "FLOP", _UP, digits)


def format_flop_rate(value: float, digits: int = 4) -> str:
    """FLOP per second: "313 TFLOP/s"."""
    return _scaled(value, "FLOP/s", _UP, digits)


def format_power(value: float, digits: int = 4) -> str:
    """Watts: "350 W", "5.6 kW"."""
    return _scaled(value, "W", _UP, digits)


def format_energy(value: float, digits: int = 4) -> str:
    """Joules, shown in watt-hours: "120 MWh"."""
    return _scaled(value / 3600.0, "Wh", _UP, digits)


def format_fraction(value: float, digits: int = 4) -> str:
    """A fraction as a percentage: "95%"."""
    return f"{_number_text(value * 100, digits)}%"


def format_number(value: float, digits: int = 6) -> str:
    """A plain number."""
    return _number_text(value, digits)
