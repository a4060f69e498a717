"""The records of a view as CSV (RFC 4180 quoting, `\\n` line ends), unrounded."""

import csv
import io
import json

from cann_plan.report.blocks import View


def write(view: View) -> str:
    """Header row of column keys, then one line per record; unknown is empty, nested values are JSON."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow([column.key for column in view.records.columns])
    for row in view.records.rows:
        writer.writerow([_cell(value) for value in row])
    return buffer.getvalue()


def _cell(value: object) -> object:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, dict | list | tuple):
        return json.dumps(value, ensure_ascii=False)
    return value
