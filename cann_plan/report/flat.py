"""Documents as flat records: one row per scalar leaf, its dotted path, value and unit."""

from collections.abc import Iterator, Mapping
from typing import Any

from cann_plan.report.blocks import Column, Table
from cann_plan.report.key_units import unit_of

COLUMNS = (Column("path", "Path"), Column("value", "Value", "number"), Column("unit", "Unit"))


def leaves(value: Any, path: str = "", unit: str | None = None) -> Iterator[tuple[str, object, str | None]]:
    """(dotted path, scalar, unit) for every scalar in `value`; list items are numbered from 0.

    A mapping whose own key names a unit (`breakdown_s`) gives it to its values.
    """
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from leaves(item, f"{path}.{key}" if path else str(key), unit_of(str(key)) or unit)
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from leaves(item, f"{path}.{index}" if path else str(index), unit)
    else:
        yield path, value, unit if isinstance(value, int | float) and not isinstance(value, bool) else None


def table(value: Any, title: str = "") -> Table:
    """The leaves of `value` as a table."""
    return Table(title, COLUMNS, [list(leaf) for leaf in leaves(value)])
