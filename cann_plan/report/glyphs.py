"""Bars and the few non-ASCII signs of our own texts, with their ASCII stand-ins."""

_EIGHTHS = " ▏▎▍▌▋▊▉"
_ASCII = str.maketrans(
    {
        "█": "#",
        "─": "-",
        "│": "|",
        "╭": "+",
        "╮": "+",
        "╰": "+",
        "╯": "+",
        "·": "|",
        "×": "x",
        "−": "-",
        "–": "-",
        "→": "->",
        "≤": "<=",
        "≥": ">=",
        "µ": "u",
        "±": "+/-",
        "…": "...",
        "•": "*",
        "✓": "ok",
        "✗": "!!",
    }
)


def bar(share: float, width: int, *, unicode: bool) -> str:
    """A horizontal bar of `share` (clipped to 0-1) of `width` cells; something above zero is always visible."""
    share = min(max(share, 0.0), 1.0)
    if not unicode:
        cells = round(share * width)
        return "#" * max(cells, 1 if share > 0 else 0)
    eighths = round(share * width * 8)
    if share > 0:
        eighths = max(eighths, 1)
    whole, rest = divmod(eighths, 8)
    return "█" * whole + (_EIGHTHS[rest] if rest else "")


def to_ascii(text: str) -> str:
    """`text` with our own signs replaced; anything else that is not ASCII becomes `?`."""
    return text.translate(_ASCII).encode("ascii", "replace").decode("ascii")
