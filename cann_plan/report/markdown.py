"""Blocks as GitHub-flavoured Markdown, made to be pasted into a pull request or a wiki."""

from collections.abc import Sequence

from cann_plan.report.blocks import Bars, Block, Notes, Source, Table, Verdict, View
from cann_plan.report.numbers import FORMATS, percent


def write(view: View) -> str:
    """The view as Markdown, ending in one newline."""
    return "\n\n".join(_block(block) for block in view.blocks).rstrip("\n") + "\n"


def _block(block: Block) -> str:
    match block:
        case Verdict():
            lines = [f"## {_escape(block.title)}", "", f"**{_escape(block.headline)}**"]
            if block.lines:
                lines += ["", *(f"- {_escape(line)}" for line in block.lines)]
            return "\n".join(lines)
        case Bars():
            noted = any(item.note for item in block.bars)
            header = ["Part", "Amount", f"Share of {block.whole}", *(["Note"] if noted else [])]
            rows = [
                [item.label, item.value, percent(item.share), *([item.note] if noted else [])] for item in block.bars
            ]
            return _section(block.title, _table(header, [False, True, True, False], rows), block.footnotes)
        case Table():
            header = [column.header for column in block.columns]
            rows = [
                [
                    "" if value is None and column.kind == "text" else FORMATS[column.kind](value)
                    for column, value in zip(block.columns, row, strict=True)
                ]
                for row in block.rows
            ]
            body = _table(header, [column.is_number for column in block.columns], rows)
            return _section(block.title, body, block.footnotes)
        case Notes():
            return _section(block.title, "\n".join(f"- {_escape(item)}" for item in block.items), ())
        case Source():
            return f"```{block.language}\n{block.text.rstrip()}\n```"


def _section(title: str, body: str, footnotes: Sequence[str]) -> str:
    parts = [f"### {_escape(title)}"] if title else []
    parts.append(body)
    if footnotes:
        parts.append("  \n".join(_escape(line) for line in footnotes))
    return "\n\n".join(parts)


def _table(header: Sequence[str], right: Sequence[bool], rows: Sequence[Sequence[str]]) -> str:
    rule = ["---:" if right[index] else "---" for index in range(len(header))]
    lines = [_row(header), "| " + " | ".join(rule) + " |", *(_row(row) for row in rows)]
    return "\n".join(lines)


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(_escape(cell).replace("|", "\\|") for cell in cells) + " |"


def _escape(text: str) -> str:
    # Angle brackets would start HTML, stars and underscores emphasis; names such as `micro_batch_size` are common.
    for sign in ("\\", "*", "_", "<", "`"):
        text = text.replace(sign, "\\" + sign)
    return " ".join(text.split())
