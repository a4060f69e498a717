"""Recompute policies: which modules of a layer are run again in backward instead of keeping their tensors."""

from __future__ import annotations

from cann_plan.records import dataclass
from cann_plan.workload.operators.operator import Operator, Saved

MODULES = (
    "core_attention", "attention", "qkv", "projection", "mla_up_proj", "norm", "mlp", "mlp_up", "activation",
    "moe", "moe_activation", "router", "experts", "permute", "dispatch", "layer", "alternate_linear",
)  # fmt: skip
"""Names of recompute modules an operator may carry; `layer` is the whole layer (full recompute)."""


@dataclass(frozen=True, slots=True)
class Policy:
    """A set of recomputed modules; the empty set keeps everything."""

    name: str
    modules: frozenset[str] = frozenset()

    @property
    def full(self) -> bool:
        """Whether the whole layer is replayed from its input."""
        return "layer" in self.modules

    def replays(self, operator: Operator) -> bool:
        """Whether the operator runs a second time in backward."""
        return self.full or any(module in self.modules for module in operator.modules)

    def saved(self, operator: Operator) -> tuple[Saved, ...]:
        """The tensors of an operator that are kept or rebuilt under this policy."""
        return tuple(saved for saved in operator.saved if self._exists(saved))

    def _exists(self, saved: Saved) -> bool:
        return not saved.only_by or any(module in self.modules for module in saved.only_by)

    def drops(self, saved: Saved) -> bool:
        """Whether a saved tensor is not kept."""
        return not self._exists(saved) or any(module in self.modules for module in saved.rebuilt_by)


NONE = Policy("none")
SELECTIVE = Policy("selective", frozenset({"core_attention"}))
FULL = Policy("full", frozenset({"layer"}))
