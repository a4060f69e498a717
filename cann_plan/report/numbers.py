"""Numbers for people: three or four significant digits, a unit always, GiB (2^30) never mixed with GB (10^9)."""

import json
import math
import re
from collections.abc import Callable

UNKNOWN = "unknown"
_MINUS = "−"


def plain(value: float | int | None, digits: int = 3) -> str:
    """`value` with `digits` significant digits, thousands separated, no exponent between 1e-4 and 1e15."""
    if value is None:
        return UNKNOWN
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}".replace("-", _MINUS)
    if not math.isfinite(value):
        return "not finite"
    if value == 0:
        return "0"
    size = abs(value)
    if size >= 1e15 or size < 1e-4:
        return f"{value:.{digits - 1}e}".replace("-", _MINUS, 1) if value < 0 else f"{value:.{digits - 1}e}"
    # Rounding first: 9.996 with three digits is 10.0, not 10.00.
    rounded = float(f"{size:.{digits - 1}e}")
    decimals = max(0, digits - 1 - math.floor(math.log10(rounded)))
    return (_MINUS if value < 0 else "") + f"{size:,.{decimals}f}"


def seconds(value: float | None) -> str:
    """A duration in s, ms or us."""
    if value is None:
        return UNKNOWN
    size = abs(value)
    if size == 0 or size >= 0.9995:
        return f"{plain(float(value))} s"
    if size >= 0.9995e-3:
        return f"{plain(value * 1e3)} ms"
    return f"{plain(value * 1e6)} µs"


def signed(text: Callable[[float | None], str], value: float | None) -> str:
    """`text(value)` with an explicit plus sign for positive values."""
    return ("+" if value is not None and value > 0 else "") + text(value)


def gib(value: float | None) -> str:
    """Memory given in GiB, shown in MiB, GiB or TiB."""
    if value is None:
        return UNKNOWN
    size = abs(value)
    if size >= 1024:
        return f"{plain(value / 1024)} TiB"
    if size == 0 or size >= 0.1:
        return f"{gib_number(value)} GiB"
    return f"{plain(value * 1024, 2)} MiB"


def gib_number(value: float | None) -> str:
    """Memory in GiB without its unit, for a column or sentence that names the unit: two decimals below 10."""
    if value is None:
        return UNKNOWN
    return (_MINUS if value < 0 else "") + (f"{abs(value):,.2f}" if abs(value) < 9.995 else f"{abs(value):,.1f}")


def days(value: float | None) -> str:
    """A duration given in days, shown in days, hours, minutes or seconds."""
    if value is None:
        return UNKNOWN
    if abs(value) >= 0.9995 or value == 0:
        return f"{plain(float(value))} days"
    if abs(value) * 24 >= 0.9995:
        return f"{plain(value * 24)} hours"
    if abs(value) * 1440 >= 0.9995:
        return f"{plain(value * 1440)} minutes"
    return seconds(value * 86_400)


def percent(value: float | None) -> str:
    """A fraction as percent with one decimal (none from 1000 % up)."""
    if value is None:
        return UNKNOWN
    number = abs(value) * 100
    return (_MINUS if value < 0 else "") + (f"{number:.1f} %" if number < 999.95 else f"{number:,.0f} %")


def count(value: float | int | None) -> str:
    """A large count in K, M, B (10^9), T (10^12)."""
    if value is None:
        return UNKNOWN
    for limit, suffix in ((1e12, " T"), (1e9, " B"), (1e6, " M")):
        if abs(value) >= limit:
            return f"{plain(value / limit)}{suffix}"
    return f"{round(value):,}".replace("-", _MINUS)


def size_bytes(value: float | None) -> str:
    """Bytes in binary units."""
    if value is None:
        return UNKNOWN
    for limit, suffix in ((2**40, "TiB"), (2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB")):
        if abs(value) >= limit:
            return f"{plain(value / limit)} {suffix}"
    return f"{plain(round(value))} B"


def money(value: float | None, currency: str | None) -> str:
    """An amount with its currency, whole units from 100 up."""
    if value is None:
        return UNKNOWN
    amount = f"{value:,.0f}" if abs(value) >= 100 else f"{value:,.2f}"
    return f"{amount} {currency}" if currency else amount


def energy(kwh: float | None) -> str:
    """Energy given in kWh, shown in kWh, MWh or GWh."""
    if kwh is None:
        return UNKNOWN
    for limit, suffix in ((1e6, "GWh"), (1e3, "MWh")):
        if abs(kwh) >= limit:
            return f"{plain(kwh / limit)} {suffix}"
    return f"{plain(float(kwh))} kWh"


def carbon(kg: float | None) -> str:
    """Emissions given in kg CO2e, shown in kg or t."""
    if kg is None:
        return UNKNOWN
    return f"{plain(kg / 1e3)} t CO2e" if abs(kg) >= 1e3 else f"{plain(float(kg))} kg CO2e"


def value_text(value: object) -> str:
    """Any plan value as one short line: numbers plain, mappings and lists in flow style."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return f"{value:,}" if abs(value) >= 10_000 else str(value)
    if isinstance(value, float):
        if value.is_integer() and abs(value) < 1e15:
            return f"{int(value):,}"
        return f"{value:.6g}"
    if isinstance(value, dict):
        return ", ".join(f"{key}: {value_text(item)}" for key, item in value.items())
    if isinstance(value, list | tuple):
        return "[" + ", ".join(value_text(item) for item in value) + "]"
    return str(value)


def argument_text(value: object) -> str:
    """A plan value as a shell takes it after `--set path=`."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None or isinstance(value, int | float):
        return "null" if value is None else str(value)
    if isinstance(value, str) and re.fullmatch(r"[\w.-]+", value, re.ASCII):
        return value
    return "'" + json.dumps(value) + "'"


FORMATS: dict[str, Callable[[object], str]] = {
    "text": value_text,
    "number": lambda value: plain(value) if isinstance(value, int | float) else value_text(value),
    "seconds": lambda value: seconds(_number(value)),
    "gib": lambda value: gib_number(_number(value)) if value is not None else "",
    "percent": lambda value: percent(_number(value)),
    "signed_percent": lambda value: signed(percent, _number(value)),
    "days": lambda value: plain(_number(value)),
    "count": lambda value: count(_number(value)),
    "bytes": lambda value: size_bytes(_number(value)),
    "flag": lambda value: "yes" if value else "no",
}


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) else None
