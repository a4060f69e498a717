"""Typed access to a Hugging Face `config.json`: alternative key names, class defaults of absent keys, errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from cann_plan.spec.model import MAX_LAYERS

PerLayerNumber = int | list[int]
Fields = dict[str, Any]
"""Keys of a `ModelSpec`."""

ACTIVATIONS: Final = {
    "silu": "silu", "swish": "silu", "swiglu": "silu", "gelu": "gelu", "gelu_python": "gelu", "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh", "gelu_fast": "gelu_tanh", "gelu_python_tanh": "gelu_tanh",
    "quick_gelu": "gelu_quick", "relu": "relu", "relu2": "relu2", "squared_relu": "relu2", "xielu": "xielu",
}  # fmt: skip

LAYERS: Final = ("num_hidden_layers", "n_layer", "n_layers", "num_layers")
HIDDEN: Final = ("hidden_size", "n_embd", "n_embed", "d_model")
HEADS: Final = ("num_attention_heads", "n_head", "n_heads", "num_heads", "attention_heads")
KV_HEADS: Final = ("num_key_value_heads", "num_kv_heads", "n_head_kv")
FFN: Final = ("intermediate_size", "ffn_hidden_size", "n_inner", "ffn_dim")
VOCABULARY: Final = ("vocab_size", "padded_vocab_size")
ACTIVATION: Final = ("hidden_act", "hidden_activation", "activation_function", "activation", "afn")
EXPERTS: Final = ("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts")
TOP_K: Final = ("num_experts_per_tok", "moe_topk", "moe_k", "num_experts_per_token", "experts_per_token")


MAX_WIDTH: Final = 2**24
"""Hidden width or heads; no published model comes near it."""


class HfConfigError(ValueError):
    """A config.json that cannot be read: `path` is the key at fault."""

    def __init__(self, message: str, path: str = "") -> None:
        super().__init__(f"{path}: {message}" if path else message)
        self.path = path


class UnsupportedModelError(HfConfigError):
    """A config.json of an architecture whose structure is not known; it is named, never guessed."""


class HfConfig:
    """Keys of a config.json over the class defaults of its model type.

    Every reader takes alternative names. A key that is present wins over the default of any alternative; a key that is
    present as null means "derived" to the published classes and hides the default.
    """

    def __init__(self, data: Mapping[str, Any], defaults: Mapping[str, Any], model_type: str) -> None:
        self.data = data
        self.defaults = defaults
        self.model_type = model_type

    def raw(self, *names: str) -> Any:
        """The value of the first present name, else the first default, else None."""
        for source in (self.data, self.defaults):
            for name in names:
                if name in source:
                    return source[name]
        return None

    def has(self, *names: str) -> bool:
        """Whether the file itself states one of the names (and not as null)."""
        return any(self.data.get(name) is not None for name in names)

    def optional_integer(self, *names: str) -> int | None:
        """A whole number, or None where absent or null."""
        value = self.raw(*names)
        return None if value is None else _integer(value, names[0])

    def integer(self, *names: str, default: int | None = None) -> int:
        """A whole number; raises `HfConfigError` where there is none."""
        value = self.optional_integer(*names)
        if value is None:
            if default is None:
                raise HfConfigError(f"missing, and model_type {self.model_type} has no default for it", names[0])
            return default
        return value

    def numbers(self, *names: str, default: int | None = None) -> PerLayerNumber:
        """A whole number, or a list with one per layer."""
        value = self.raw(*names)
        if isinstance(value, list | tuple):
            return [_integer(item, names[0]) for item in value]
        return self.integer(*names, default=default)

    def flag(self, *names: str, default: bool = False) -> bool:
        """A boolean."""
        value = self.raw(*names)
        if value is None:
            return default
        if not isinstance(value, bool | int) or value not in (0, 1):
            raise HfConfigError(f"{value!r} is not true or false", names[0])
        return bool(value)

    def names(self, *names: str) -> list[str] | None:
        """A list of texts, or None."""
        value = self.raw(*names)
        if value is None:
            return None
        if not isinstance(value, Sequence) or isinstance(value, str) or not all(isinstance(v, str) for v in value):
            raise HfConfigError("expected a list of names", names[0])
        return list(value)

    def integers(self, *names: str) -> list[int] | None:
        """A list of whole numbers (or flags), or None."""
        value = self.raw(*names)
        if value is None:
            return None
        if not isinstance(value, list | tuple):
            raise HfConfigError("expected a list", names[0])
        return [_integer(int(item) if isinstance(item, bool) else item, names[0]) for item in value]

    def architecture(self) -> str | None:
        """The first entry of `architectures`."""
        names = self.names("architectures")
        return names[0] if names else None

    def section(self, name: str) -> HfConfig:
        """A nested mapping (`attn_config`), empty where absent."""
        value, default = self.data.get(name), self.defaults.get(name)
        if value is not None and not isinstance(value, Mapping):
            raise HfConfigError("expected a mapping", name)
        return HfConfig(value or {}, default or {}, self.model_type)

    def activation(self, default: str = "silu") -> str:
        """The activation function under the name a `ModelSpec` gives it."""
        value = self.raw(*ACTIVATION)
        if isinstance(value, Mapping):
            value = value.get("name")
        value = default if value is None else value
        if value not in ACTIVATIONS:
            raise HfConfigError(f"unknown activation {value!r}", ACTIVATION[0])
        return ACTIVATIONS[value]

    @property
    def layers(self) -> int:
        """Number of layers."""
        return self._bounded(LAYERS, MAX_LAYERS)

    @property
    def hidden(self) -> int:
        """Width of the residual stream."""
        return self._bounded(HIDDEN, MAX_WIDTH)

    @property
    def heads(self) -> int:
        """Query heads."""
        return self._bounded(HEADS, MAX_WIDTH)

    def _bounded(self, names: tuple[str, ...], maximum: int) -> int:
        value = self.integer(*names)
        if not 0 < value <= maximum:
            raise HfConfigError(f"{value}; allowed: 1 to {maximum}", names[0])
        return value

    @property
    def tied(self) -> bool:
        """Whether the head uses the token embedding's weights."""
        return self.flag("tie_word_embeddings")

    def unsupported(self, why: str) -> UnsupportedModelError:
        """The error to raise for a variant of a known family whose structure is not known."""
        return UnsupportedModelError(f"unsupported: model_type {self.model_type} {why}")


def _integer(value: Any, name: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int | float) or not float(value).is_integer():
        raise HfConfigError(f"{value!r} is not a whole number", name)
    return int(value)


def decoder(c: HfConfig, **fields: Any) -> Fields:
    """The keys nearly every decoder has, overridden by `fields`."""
    base: Fields = {
        "layers": c.layers,
        "hidden_size": c.hidden,
        "heads": c.heads,
        "vocabulary_size": c.integer(*VOCABULARY),
        "tied_embeddings": c.tied,
    }
    kv_heads = c.optional_integer(*KV_HEADS)
    if kv_heads is not None:
        base["kv_heads"] = kv_heads
    head_dim = c.optional_integer("head_dim")
    if head_dim is not None:
        base["head_dim"] = head_dim
    return base | fields


def gated(c: HfConfig, **fields: Any) -> Fields:
    """A decoder with RMSNorm and a gated dense block (the Llama family)."""
    base: Fields = {"ffn_hidden_size": c.integer(*FFN), "activation": c.activation()}
    return decoder(c, **(base | fields))


def shortest(pattern: Sequence[str]) -> list[str]:
    """The shortest list that repeated gives `pattern`."""
    size = len(pattern)
    for period in range(1, size + 1):
        if all(pattern[i] == pattern[i % period] for i in range(period, size)):
            return list(pattern[:period])
    return list(pattern)


def windowed(layer_types: Sequence[str], window: int | None) -> Fields:
    """`mixers` and `window` from the published names of layer types."""
    names = {"full_attention": "full", "sliding_attention": "sliding", "attention": "full"}
    unknown = sorted(set(layer_types) - set(names))
    if unknown:
        raise HfConfigError(f"unknown layer type {unknown[0]!r}", "layer_types")
    if window is None or "sliding_attention" not in layer_types:
        return {}
    mixers = shortest([names[name] for name in layer_types])
    return {"window": window, "mixers": mixers}


def every(count: int, period: int, *, ordinary: str, special: str) -> list[str]:
    """`count` names, each `period`-th of them `special`; no special one where the period is 0."""
    return [special if period and not (i + 1) % period else ordinary for i in range(count)]
