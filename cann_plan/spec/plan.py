"""The plan file: what to train, on which cluster, how."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from cann_plan.spec.base import Section, key, section
from cann_plan.spec.cluster import ClusterSpec
from cann_plan.spec.economics import EconomicsSpec
from cann_plan.spec.input_pipeline import InputPipelineSpec
from cann_plan.spec.limits import LimitsSpec
from cann_plan.spec.memory import MemorySpec
from cann_plan.spec.model import ModelSpec
from cann_plan.spec.network import NetworkSpec
from cann_plan.spec.parallel import ParallelSpec
from cann_plan.spec.quantity import Name
from cann_plan.spec.run import RunSpec
from cann_plan.spec.search import SearchSpec
from cann_plan.spec.serving import ServingSpec
from cann_plan.spec.software import SoftwareSpec
from cann_plan.spec.training import TrainingSpec


class PlanSpec(Section):
    """A plan file after presets, `extends` and overrides are resolved."""

    schema_id: Literal["cann-plan/plan/1"] | None = Field(None, alias="schema", description="document kind")
    name: Name | None = key("name shown in reports")
    description: Name | None = key("what the plan is for")
    model: ModelSpec | None = key("preset, path, Hugging Face config.json, or mapping with optional extends")
    cluster: ClusterSpec | None = key("preset, path, or mapping with optional extends, nodes or devices")
    training: TrainingSpec = section(TrainingSpec, "what is trained, on how much data")
    parallel: ParallelSpec = section(ParallelSpec, "layout over devices; auto: found by search")
    software: SoftwareSpec = section(SoftwareSpec, "training stack")
    memory: MemorySpec = section(MemorySpec, "device allocator")
    network: NetworkSpec = section(NetworkSpec, "collective library, algorithm, routing, transport")
    input_pipeline: InputPipelineSpec = section(InputPipelineSpec, "host-side loading and preprocessing")
    run: RunSpec = section(RunSpec, "warm-up, checkpoints, failures, evaluation")
    economics: EconomicsSpec = section(EconomicsSpec, "price, energy, carbon")
    limits: LimitsSpec = section(LimitsSpec, "what check and size hold the plan to")
    search: SearchSpec = section(SearchSpec, "axes of the layout search")
    serving: ServingSpec = section(ServingSpec, "inference deployment")
