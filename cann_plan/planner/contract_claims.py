"""The JSON document of `claims`."""

from typing import Any, Literal, TypedDict

Json = Any  # a plan value


class ClaimFigure(TypedDict):
    """One computed number; `overrides` are the changes to the claim's plan that it belongs to."""

    name: str
    value: float | None
    unit: str
    overrides: dict[str, Json]


class ClaimEntry(TypedDict):
    """One claim. `claimed` is a number in `unit`, a text where the document gives none, or null.

    `assumptions`: what the verdict rests on. `plan`: shipped plan that every figure is computed from.
    """

    id: str
    claimed: float | str | None
    computed: float | None
    unit: str
    verdict: Literal["reached", "reached_if", "not_reachable"]
    why: str
    assumptions: list[str]
    plan: str
    figures: list[ClaimFigure]


class ClaimsDocument(TypedDict):
    """`cann-plan claims`: the figures of the source document, computed again from shipped plans."""

    schema: Literal["cann-plan/claims/1"]
    claims: list[ClaimEntry]
