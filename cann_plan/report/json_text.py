"""A contract document as JSON text: two-space indent, floats unrounded, never NaN or infinity."""

import json
import math
from collections.abc import Mapping
from typing import Any


def write(document: Mapping[str, Any], *, escape: bool = False) -> str:
    """The document as JSON, ending in one newline. NumPy scalars become numbers, NaN and infinities null.

    `escape` writes everything outside ASCII as \\u sequences, for streams that cannot carry UTF-8.
    """
    return json.dumps(clean(document), ensure_ascii=escape, indent=2, allow_nan=False) + "\n"


def clean(value: Any) -> Any:
    """`value` made of plain dicts, lists, strings, numbers, booleans and None."""
    if isinstance(value, Mapping):
        return {str(key): clean(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [clean(item) for item in value]
    if value is None or isinstance(value, str | bool):
        return str(value) if isinstance(value, str) else value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if hasattr(value, "tolist"):  # NumPy scalars and arrays
        return clean(value.tolist())
    return str(value)
