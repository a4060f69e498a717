"""`claims`: every figure of the source document that the planner can answer, computed again from shipped plans."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from difflib import get_close_matches
from typing import Final

from cann_plan.planner import claims_case, claims_memory, claims_network, claims_outlook, claims_scale, claims_software
from cann_plan.planner.assumptions import PlanError
from cann_plan.planner.claim import Claim
from cann_plan.planner.contract_claims import ClaimsDocument

CLAIMS: Final[dict[str, Callable[[], Claim]]] = {
    "scale-need": claims_scale.scale_need,
    "comm-growth": claims_scale.comm_growth,
    "model-memory": claims_scale.model_memory,
    "kernel-library": claims_software.kernel_library,
    "comm-share": claims_scale.comm_share,
    "collectives": claims_network.collectives,
    "rdma": claims_network.rdma,
    "fusion-recompute": claims_memory.fusion_recompute,
    "checkpointing": claims_memory.checkpointing,
    "case-130b": claims_case.case_130b,
    "trillion": claims_scale.trillion,
    "auto-tuning": claims_software.auto_tuning,
    "energy": claims_outlook.energy,
    "super-hetero": claims_outlook.super_hetero,
}
"""Claim -> how it is computed, in the order of the document."""


def claims(wanted: Sequence[str] = (), on_progress: Callable[[int, int | None], None] | None = None) -> ClaimsDocument:
    """The claims named in `wanted` (none: all).

    Raises:
        PlanError: there is no claim of that name.
    """
    for name in wanted:
        if name not in CLAIMS:
            near = get_close_matches(name, CLAIMS, n=1)
            raise PlanError("ID", f"no claim {name!r}", ", ".join(CLAIMS), near[0] if near else None)
    chosen = [name for name in CLAIMS if not wanted or name in wanted]
    entries = []
    for done, name in enumerate(chosen):
        if on_progress is not None:
            on_progress(done, len(chosen))
        entries.append(CLAIMS[name]().entry())
    return {"schema": "cann-plan/claims/1", "claims": entries}
