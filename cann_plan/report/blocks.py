"""What a report is made of, before it is a screen, a Markdown page or a CSV file.

A view (one per command) turns a JSON document into blocks once; the writers turn blocks into text.
"""

from collections.abc import Sequence
from typing import Literal

from cann_plan.records import dataclass

Tone = Literal["good", "bad", "warn", "plain", "compute", "communication", "idle", "memory", "dim"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """The answer, in a box: one headline and the few figures that matter."""

    title: str
    tone: Tone
    headline: str
    lines: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Bar:
    """One labelled amount; `share` is its fraction of `Bars.whole`."""

    label: str
    value: str
    share: float
    note: str = ""
    tone: Tone = "plain"


@dataclass(frozen=True, slots=True)
class Bars:
    """Amounts of a whole, which `whole` names ("step", "usable memory"); share `full` fills the width of a bar."""

    title: str
    whole: str
    bars: Sequence[Bar]
    footnotes: Sequence[str] = ()
    full: float = 1.0


@dataclass(frozen=True, slots=True)
class Column:
    """A column: `key` heads the CSV, `header` the other formats; `kind` is a key of `numbers.FORMATS`."""

    key: str
    header: str
    kind: str = "text"

    @property
    def is_number(self) -> bool:
        """Whether the column is right-aligned."""
        return self.kind not in ("text", "flag")


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of raw (unrounded) values; `tones` colours whole rows, by index."""

    title: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[object]]
    tones: Sequence[Tone] = ()
    footnotes: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Notes:
    """A short list of sentences."""

    title: str
    items: Sequence[str]
    tone: Tone = "plain"


@dataclass(frozen=True, slots=True)
class Source:
    """Text to be shown as it is, such as a YAML file."""

    text: str
    language: str = "yaml"


Block = Verdict | Bars | Table | Notes | Source


@dataclass(frozen=True, slots=True)
class View:
    """A document ready to be written; `records` is the one table that the CSV format holds."""

    blocks: Sequence[Block]
    records: Table


@dataclass(frozen=True, slots=True)
class Detail:
    """How much of a document to show: `explain` adds formulas, `brief` leaves only the answer, `full` cuts no list."""

    explain: bool = False
    brief: bool = False
    full: bool = False
