"""What a measured run says about recomputation to a `recompute:` section, or to a search for what fits."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

from cann_plan.importers.rows import Fields, Remark

MODULES: Final = {
    "core_attn": "core_attention", "core_attention": "core_attention", "attn": "attention", "attention": "attention",
    "layernorm": "norm", "norm": "norm", "rmsnorm": "norm", "mla_up_proj": "mla_up_proj", "mlp": "mlp", "moe": "moe",
    "moe_act": "moe_activation", "moe_activation": "moe_activation", "activation": "activation",
    "shared_experts": "shared_experts",
}  # fmt: skip
_BLOCK = re.compile(r"full for (\d+) layers")
_ADAPTIVE = re.compile(r"to fit (\d+) MB")
MIB: Final = 2**20

# What a stack does where a run does not say: (words of stack or framework, note of a stated policy, policy, source).
DEFAULTS: Final = (
    (("maxtext",), "", "full", "MaxText's base.yml has remat_policy: full"),
    (("paxml",), "", "full", "Paxml's SPMD configurations have CHECKPOINT_POLICY = SAVE_NOTHING"),
    (("megatron-lm 2019", "megatron-lm 2020"), "", "full", "arXiv 1909.08053: activations recomputed in every layer"),
    (("torchtitan",), "(op)", "selective", "torchtitan's llama3 configurations recompute selectively by operator"),
    (("torchtune",), "", "full", "torchtune's full fine-tuning recipes enable activation checkpointing"),
)


@dataclass(frozen=True, slots=True)
class Recompute:
    """`section` of the plan; `search`: none | unstated (none if it fits, else full) | layers (fewest that fit).

    `limit`: bytes of device memory a search must fit into, None for the device's own.
    """

    section: dict[str, Any]
    search: str = "none"
    limit: float | None = None


def recompute_section(parallel: Fields, layers: int, stack: str, words: str = "") -> tuple[Recompute, list[Remark]]:
    """The policy stated; a per-stage list overrides the word `full`. `words`: stack and framework."""
    policy = parallel.text("recompute")
    note = parallel.text("recompute_note") or ""
    method, count = parallel.text("recompute_method"), parallel.whole("recompute_num_layers", 0)
    modules = parallel.texts("recompute_modules")
    full_list = parallel.wholes("recompute_layers_per_stage")
    select_list = parallel.wholes("recompute_select_layers_per_stage")
    activation = parallel.flag("recompute_activation_function")
    remarks: list[Remark] = []
    if activation and policy != "full":
        modules = [*(modules or []), "activation"]
    elif activation:
        text = "the activation function is recomputed in the other layers as well: not modelled beside full layers"
        remarks.append(Remark("parallel.recompute.modules", "activation", text))
    if full_list is not None:
        return Recompute({"policy": "full", "per_stage": full_list}), remarks
    if select_list is not None:
        text = "operators of MindFormers' select_recompute default: the feed-forward activation and product"
        remarks.append(Remark("parallel.recompute.modules", ["activation"], text))
        return Recompute({"policy": "selective", "modules": ["activation"], "per_stage": select_list}), remarks
    if policy is None or policy == "unknown":
        usual = next((item[1:] for item in DEFAULTS if any(word in words.lower() for word in item[0])), None)
        if usual is None:
            return Recompute({"policy": "none"}, "unstated"), remarks
        note, policy, source = usual
        remarks.append(Remark("parallel.recompute.policy", policy, f"not stated: {source}"))
    if policy == "selective":
        return _selective(note, modules, layers, stack, remarks), remarks
    section: dict[str, Any] = {"policy": policy}
    block = _BLOCK.search(note)
    if policy == "full" and block:
        section |= {"method": "block", "layers": int(block[1]), "scope": "stage"}
    elif policy == "full" and method is not None:
        section["method"] = method
        if method == "block" and count is not None:
            section |= {"layers": count, "scope": "chunk"}
    if "both recompute" in note:
        remarks.append(Remark("parallel.recompute", policy, f"{note}: taken as the row says"))
    return Recompute(section), remarks


def _selective(note: str, modules: list[str] | None, layers: int, stack: str, remarks: list[Remark]) -> Recompute:
    adaptive = _ADAPTIVE.search(note)
    if adaptive:
        text = f"fewest layers that fit {adaptive[1]} MB"
        remarks.append(Remark("parallel.recompute.layers", None, f"{note}: {text}"))
        return Recompute({"policy": "full"}, "layers", float(adaptive[1]) * MIB)
    if modules:
        known = [MODULES[name] for name in modules if name in MODULES]
        remarks.extend(
            Remark("parallel.recompute.modules", name, "not used: unknown module") for name in modules
            if name not in MODULES
        )  # fmt: skip
        return Recompute({"policy": "selective", "modules": list(dict.fromkeys(known))})
    if "(layer)" in note:
        section = {"policy": "full", "method": "block", "layers": layers // 2, "scope": "stage"}
        remarks.append(Remark("parallel.recompute", section, "selective by layer: torchtitan recomputes every second"))
        return Recompute(section)
    if "(op)" in note or stack == "torchtitan":
        # of a LLaMA layer's seven products (q, k, v, o, gate, up, down) k, o and up are replayed: 36% of their FLOPs
        text = "torchtitan's selective policy: every second product's output and attention's are kept"
        remarks.append(Remark("parallel.recompute.modules", ["alternate_linear"], text))
        return Recompute({"policy": "selective", "modules": ["alternate_linear"]})
    if stack in ("fsdp", "torchtitan", "llm-foundry"):
        section = {"policy": "full", "method": "block", "layers": layers // 2, "scope": "stage"}
        remarks.append(Remark("parallel.recompute", section, "selective without a share: every second layer"))
        return Recompute(section)
    if stack.startswith("mindformers"):
        remarks.append(Remark("parallel.recompute.modules", ["activation"], "MindFormers' select_recompute default"))
        return Recompute({"policy": "selective", "modules": ["activation"]})
    if "core" not in note:
        remarks.append(Remark("parallel.recompute.modules", ["core_attention"], "Megatron's selective recompute"))
    return Recompute({"policy": "selective", "modules": ["core_attention"]})
