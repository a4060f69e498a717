"""Blocks as a terminal screen (rich), in colour or plain, Unicode or ASCII."""

import io
from collections.abc import Sequence

from rich import box
from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.panel import Panel
from rich.table import Table as RichTable
from rich.text import Text

from cann_plan.report import glyphs
from cann_plan.report.blocks import Bars, Block, Notes, Source, Table, Tone, Verdict, View
from cann_plan.report.numbers import FORMATS, percent
from cann_plan.report.screen import Screen

_STYLES: dict[Tone, str] = {
    "good": "bold green",
    "bad": "bold red",
    "warn": "bold yellow",
    "plain": "",
    "compute": "blue",
    "communication": "yellow",
    "idle": "red",
    "memory": "cyan",
    "dim": "dim",
}
_MAX_WIDTH = 120  # wider lines are hard to follow from label to value
_MAX_BAR = 36


def write(view: View, screen: Screen) -> str:
    """The view as text for `screen`, without trailing blanks, ending in one newline."""
    buffer = io.StringIO()
    console = Console(
        file=buffer,
        width=max(40, min(screen.width, _MAX_WIDTH)),
        force_terminal=screen.colour,
        no_color=not screen.colour,
        color_system="standard" if screen.colour else None,
        highlight=False,
        markup=False,
        emoji=False,
        legacy_windows=False,
    )
    for index, block in enumerate(view.blocks):
        if index:
            console.print()
        for part in _parts(block, console.width, screen):
            console.print(part, soft_wrap=isinstance(block, Source))
    text = "\n".join(line.rstrip() for line in buffer.getvalue().splitlines()) + "\n"
    return text if screen.unicode else glyphs.to_ascii(text)


def _parts(block: Block, width: int, screen: Screen) -> list[RenderableType]:
    match block:
        case Verdict():
            return [_verdict(block)]
        case Bars():
            return [_heading(block.title), _bars(block, width, screen), *_footnotes(block.footnotes)]
        case Table():
            title = [_heading(block.title)] if block.title else []
            return [*title, _table(block, width), *_footnotes(block.footnotes)]
        case Notes():
            return [_heading(block.title, block.tone), *(_item(item) for item in block.items)]
        case Source():
            if screen.colour:
                from rich.syntax import Syntax  # brings pygments

                return [Syntax(block.text, block.language, background_color="default", theme="ansi_dark")]
            return [Text(block.text.rstrip("\n"))]


def _heading(title: str, tone: Tone = "plain") -> Text:
    return Text(title, style=_STYLES[tone] or "bold")


def _verdict(block: Verdict) -> Panel:
    style = _STYLES[block.tone]
    body = Text(block.headline, style=style)
    for line in block.lines:
        body.append("\n")
        body.append(Text(line))
    return Panel(body, title=Text(block.title), title_align="left", border_style=style, box=box.ROUNDED, expand=True)


def _bars(block: Bars, width: int, screen: Screen) -> RichTable:
    noted = any(item.note for item in block.bars)
    taken = 2 + sum(
        2 + max((len(text) for text in column), default=0)
        for column in (
            [item.label for item in block.bars],
            [item.value for item in block.bars],
            ["100.0 %"],
            [item.note for item in block.bars],
        )
    )
    cells = max(8, min(_MAX_BAR, width - taken))
    grid = RichTable.grid(padding=(0, 2, 0, 0))
    grid.add_column(no_wrap=True)
    grid.add_column(width=cells, no_wrap=True)
    grid.add_column(justify="right", no_wrap=True)
    grid.add_column(justify="right", no_wrap=True)
    if noted:
        grid.add_column()
    for item in block.bars:
        row = [
            Text("  " + item.label),
            Text(
                glyphs.bar(item.share / block.full if block.full > 0 else 0.0, cells, unicode=screen.unicode),
                style=_STYLES[item.tone],
            ),
            Text(item.value),
            Text(percent(item.share)),
        ]
        grid.add_row(*row, *([Text(item.note, style="dim")] if noted else []))
    return grid


def _table(block: Table, width: int) -> RichTable:
    rows = [
        [
            "" if value is None and column.kind == "text" else FORMATS[column.kind](value)
            for column, value in zip(block.columns, row, strict=True)
        ]
        for row in block.rows
    ]
    table = RichTable(
        box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, header_style="bold", padding=_padding(block, rows, width)
    )
    for column in block.columns:
        table.add_column(Text(column.header), justify="right" if column.is_number else "left", overflow="fold")
    for index, row in enumerate(rows):
        tone = block.tones[index] if index < len(block.tones) else "plain"
        table.add_row(*map(Text, row), style=_STYLES[tone])
    return table


def _padding(block: Table, rows: Sequence[Sequence[str]], width: int) -> tuple[int, int, int, int]:
    """Columns stand three apart; two or one where a word would break otherwise."""
    words = sum(
        max(
            len(word)
            for text in (column.header, *cells)
            for word in ([text] if column.is_number and text is not column.header else text.split() or [""])
        )
        for column, *cells in zip(block.columns, *rows, strict=True)
    )
    gaps = len(block.columns) - 1
    return (0, 1, 0, 1) if words + 3 * gaps <= width else (0, 1, 0, 0) if words + 2 * gaps <= width else (0, 0, 0, 0)


def _item(text: str) -> RichTable:
    grid = RichTable.grid()
    grid.add_column(width=4)
    grid.add_column()
    grid.add_row(Text("  • "), Text(text))
    return grid


def _footnotes(lines: Sequence[str]) -> list[RenderableType]:
    return [Padding(Text(line, style="dim"), (0, 0, 0, 2)) for line in lines]
