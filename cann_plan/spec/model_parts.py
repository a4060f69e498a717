"""Parts of a model description: mixture of experts, latent attention, recurrent mixers."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema

from cann_plan.records import dataclass
from cann_plan.spec.base import Section
from cann_plan.spec.quantity import Count, Name, NonNegativeInt, PositiveInt, Quantity, refuse
from cann_plan.units import Dimension

Activation = Literal["silu", "gelu", "gelu_tanh", "gelu_quick", "relu", "relu2", "swiglu_clamped", "xielu"]
Mixer = Literal["full", "sliding", "chunked", "linear", "state_space", "none"]
FeedForward = Literal["dense", "moe", "none"]


@dataclass(frozen=True, slots=True)
class _PerLayer:
    """Annotation of a whole number that may also be a list with one entry per layer."""

    minimum: int = 0

    def convert(self, value: object) -> int | tuple[int, ...]:
        quantity = Quantity(Dimension.COUNT, whole=True, minimum=self.minimum)
        if isinstance(value, list | tuple):
            if not value:
                raise refuse("an empty list", "a whole number, or a list with one number per layer")
            return tuple(int(quantity.convert(item)) for item in value)
        return int(quantity.convert(value))

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(self.convert)

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        item: dict[str, Any] = {"type": "integer", "minimum": self.minimum}
        return {"anyOf": [item, {"type": "array", "items": item, "minItems": 1}]}


PerLayer = Annotated[int | tuple[int, ...], _PerLayer()]
PerLayerPositive = Annotated[int | tuple[int, ...], _PerLayer(1)]


class MoeSpec(Section):
    """Routed experts. A layer is a mixture layer if it is past `leading_dense_layers` and on the `layer_frequency`."""

    experts: PerLayerPositive = Field(description="routed experts of a layer")
    top_k: PerLayerPositive = Field(description="routed experts a token visits")
    hidden_size: PerLayerPositive = Field(description="intermediate width of one routed expert")
    shared_experts: PerLayer = Field(0, description="experts every token visits, each as wide as a routed one")
    shared_hidden_size: PerLayer | None = Field(None, description="total intermediate width of the shared experts")
    shared_gate: bool = Field(False, description="a scalar gate on the shared expert's output")
    router_bias: bool = Field(False, description="a learned bias of the router, one value per expert")
    bias: bool = Field(False, description="biases in the experts' projections")
    latent_size: NonNegativeInt = Field(0, description="width of the projected space experts work in; 0: hidden size")
    leading_dense_layers: NonNegativeInt = Field(0, description="first layers with a dense feed-forward block")
    layer_frequency: PositiveInt = Field(1, description="every n-th layer is a mixture layer")
    layer_offset: NonNegativeInt = Field(0, description="index, modulo the frequency, of the mixture layers")


class MlaSpec(Section):
    """Multi-head latent attention (DeepSeek-V2, arXiv 2405.04434), optionally with a sparse-attention indexer."""

    q_lora_rank: PositiveInt | None = Field(None, description="rank of the query projection; absent: full rank")
    kv_lora_rank: PositiveInt = Field(description="rank of the key/value projection")
    qk_nope_head_dim: PositiveInt = Field(description="width of a query/key head without rotary embedding")
    qk_rope_head_dim: PositiveInt = Field(description="width of the rotary part of a query/key head")
    v_head_dim: PositiveInt = Field(description="width of a value head")
    index_heads: NonNegativeInt = Field(0, description="heads of the sparse-attention indexer; 0: none")
    index_head_dim: NonNegativeInt = Field(0, description="width of an indexer head")
    index_top_k: NonNegativeInt = Field(0, description="keys the indexer selects for a query")


class LinearAttentionSpec(Section):
    """Linear attention: gated delta rule (Qwen3-Next, Kimi Linear) or lightning attention (MiniMax-Text-01)."""

    key_heads: PositiveInt
    value_heads: PositiveInt
    key_head_dim: PositiveInt
    value_head_dim: PositiveInt
    conv_kernel: NonNegativeInt = Field(4, description="taps of the causal convolution; 0: none")
    style: Literal["gated_delta", "kimi_delta", "lightning"] = "gated_delta"


class StateSpaceSpec(Section):
    """Mamba-2 mixer (arXiv 2405.21060), or Mamba-1 (arXiv 2312.00752) where `dt_rank` is given."""

    heads: PositiveInt
    head_dim: PositiveInt
    state_size: PositiveInt
    groups: PositiveInt = 1
    conv_kernel: PositiveInt = 4
    conv_bias: bool = True
    bias: bool = False
    dt_rank: NonNegativeInt = Field(0, description="Mamba-1: rank of the step-size projection; 0: Mamba-2")
    inner_norms: bool = Field(False, description="Jamba: norms of the step size and of the B and C projections")


class PublishedParameters(Section):
    """Parameter counts somebody published, to check the description against; no model reads them."""

    total: Count | None = None
    active: Count | None = None
    source: Name
