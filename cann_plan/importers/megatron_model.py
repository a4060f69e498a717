"""Shape arguments of Megatron-LM and MindSpeed to a model description."""

from __future__ import annotations

from typing import Any, Final

from cann_plan.importers.imported import Notes
from cann_plan.importers.megatron_arguments import Arguments
from cann_plan.importers.megatron_mixers import hybrid, latent_attention, linear_attention, state_space_stack
from cann_plan.importers.megatron_moe import experts

# Vocabularies that a tokenizer type fixes; the NullTokenizer adds an end token to --vocab-size (Megatron-LM
# megatron/training/tokenizer).
TOKENIZERS: Final = {
    "gpt2bpetokenizer": (50257, "GPT-2 byte-pair vocabulary"),
    "bertwordpiecelowercase": (30522, "uncased BERT vocabulary"),
    "bertwordpiececase": (28996, "cased BERT vocabulary"),
    "llama2tokenizer": (32000, "LLaMA 2 vocabulary"),
}
# Vocabularies of families that names and tokenizer paths tell, from the config.json of each; first match counts.
FAMILIES: Final = (
    (("llama-2", "llama2"), 32000, "meta-llama/Llama-2-7b-hf"),
    (("llama-3", "llama3"), 128256, "meta-llama/Meta-Llama-3-8B"),
    (("mixtral", "mistral-7b"), 32000, "mistralai/Mixtral-8x7B-v0.1"),
    (("baichuan2",), 125696, "baichuan-inc/Baichuan2-7B-Base"),
    (("chatglm3",), 65024, "THUDM/chatglm3-6b"),
    (("deepseek-v3", "deepseek3", "deepseekv3", "deepseek-r1"), 129280, "deepseek-ai/DeepSeek-V3"),
    (("deepseek-v2", "deepseek2", "deepseekv2"), 102400, "deepseek-ai/DeepSeek-V2"),
    (("internlm2",), 92544, "internlm/internlm2-7b"),
    (("bloom",), 250880, "bigscience/bloom"),
    (("mamba2", "mamba-2"), 50277, "state-spaces/mamba2-2.7b, unpadded"),
    (("gpt2", "gpt-2", "gpt3", "gpt-3"), 50257, "GPT-2 byte-pair vocabulary, which Megatron-LM's GPT scripts use"),
    (("bert",), 30522, "google-bert/bert-large-uncased"),
)
BERT_TOKEN_TYPES: Final = 2
MISSING_SIZES: Final = "sizes of the model are missing"
NO_VOCABULARY: Final = "the vocabulary is not stated"


def model_section(
    arguments: Arguments, notes: Notes, *, name: str | None, entry: str, ascend: bool, vocabulary: int | None
) -> dict[str, Any] | None:
    """The description, before layers that do nothing are taken out; None where sizes are missing.

    Sizes that Megatron derives follow its rules: a feed-forward width of 4 x hidden, or with SwiGLU two thirds of it
    rounded down to a multiple of 64.
    """
    _refuse_foreign(arguments, notes, entry)
    sizes = {key: arguments.whole(argument) for key, argument in
             (("layers", "num-layers"), ("hidden_size", "hidden-size"), ("heads", "num-attention-heads"))}  # fmt: skip
    pattern = arguments.text("hybrid-layer-pattern", "hybrid-override-pattern")
    layers = len([sign for sign in pattern.split("/")[0] if sign in "M*-EG"]) if pattern else sizes["layers"]
    hidden, heads = sizes["hidden_size"], sizes["heads"]
    missing = [key for key, value in (("num-layers", layers), ("hidden-size", hidden)) if value is None]
    if heads is None and not arguments.has("mamba-state-dim", "mamba-d-conv"):
        missing.append("num-attention-heads")
    words = _vocabulary(arguments, notes, vocabulary, name or "")
    if missing:
        notes.refuse(f"{MISSING_SIZES}: {', '.join('--' + item for item in missing)}")
    elif words is None:
        notes.refuse(f"{NO_VOCABULARY}: give --vocab-size, --padded-vocab-size or the option --vocabulary")
    if missing or layers is None or hidden is None:
        return None
    spec: dict[str, Any] = {"name": name or "imported", "layers": layers, "hidden_size": hidden,
                            "vocabulary_size": words, "heads": heads or 1}  # fmt: skip
    _heads(arguments, spec, notes)
    _feed_forward(arguments, spec, notes)
    _norms(arguments, spec, ascend=ascend)
    _biases(arguments, spec)
    _positions(arguments, spec, notes)
    spec["tied_embeddings"] = not arguments.has("untie-embeddings-and-output-weights")
    if not spec["tied_embeddings"]:
        spec.pop("tied_embeddings")
    dropout = [arguments.number(key) for key in ("attention-dropout", "hidden-dropout")]
    spec["dropout"] = True if any(value is None or value > 0 for value in dropout) else None
    latent_attention(arguments, spec)
    experts(arguments, spec, notes)
    linear_attention(arguments, spec, notes)
    if pattern:
        hybrid(arguments, spec, pattern, notes)
    else:
        state_space_stack(arguments, spec, notes)
    _window(arguments, spec)
    mtp = arguments.whole("mtp-num-layers", minimum=0)
    if mtp:
        spec["mtp_layers"] = mtp
    if "bert" in entry.lower():
        _bert(arguments, spec)
    return {key: value for key, value in spec.items() if value is not None}


def _refuse_foreign(arguments: Arguments, notes: Notes, entry: str) -> None:
    """Models that a decoder description cannot express."""
    if arguments.has("decoder-num-layers", "decoder-seq-length", "vocab-extra-ids") or "t5" in entry.lower():
        notes.refuse("an encoder-decoder model (T5): no description of this tool covers it")
        arguments.ask(("encoder-num-layers", "encoder-seq-length"))
    vision = arguments.has("img-h", "patch-dim", "model-provider", "vision-model-type", "language-model-type")
    if vision or "vlm" in entry.lower():
        notes.refuse("a vision-language model: the vision tower is not described")
        arguments.ask(("img-w", "disable-vision-class-token", "total-seq-length", "packing-buffer-size"))


def _vocabulary(arguments: Arguments, notes: Notes, given: int | None, name: str) -> int | None:
    stated, padded = arguments.whole("vocab-size"), arguments.whole("padded-vocab-size")
    tokenizer = (arguments.text("tokenizer-type") or "").lower()
    files = ("tokenizer-name-or-path", "tokenizer-model", "vocab-file", "merge-file")
    arguments.ask(files)
    if given is not None:
        return given
    if stated is not None:
        return stated + 1 if tokenizer == "nulltokenizer" else stated
    if padded is not None:
        return padded
    if tokenizer in TOKENIZERS:
        value, source = TOKENIZERS[tokenizer]
        notes.assume("model.vocabulary_size", value, f"{source} (--tokenizer-type)")
        return value
    paths = [" ".join(arguments.data.get(file, ())) for file in files]
    words = " ".join([*paths, name, arguments.text("model-type-hf") or ""]).lower().replace("_", "-")
    for names, value, source in FAMILIES:
        if any(word in words for word in names):
            return int(notes.assume("model.vocabulary_size", value, f"not stated; {source}"))
    return None


def _heads(arguments: Arguments, spec: dict[str, Any], notes: Notes) -> None:
    """Grouped queries count only with the flag; without a number of groups there is one (Megatron default)."""
    groups = arguments.whole("num-query-groups")
    if arguments.has("group-query-attention"):
        spec["kv_heads"] = groups or notes.assume("model.kv_heads", 1, "Megatron default of --num-query-groups")
    elif groups is not None and groups != spec["heads"]:
        notes.warn("--num-query-groups counts only with --group-query-attention, which is not given")
    width = arguments.whole("kv-channels")
    if width is not None and width * spec["heads"] != spec["hidden_size"]:
        spec["head_dim"] = width
    if width is None and spec["hidden_size"] % spec["heads"]:
        spec["head_dim"] = spec["hidden_size"] // spec["heads"]


def _feed_forward(arguments: Arguments, spec: dict[str, Any], notes: Notes) -> None:
    gated = arguments.has("swiglu", "geglu", "quick-geglu")
    spec["gated"] = None if gated else False
    if arguments.has("squared-relu"):
        spec["activation"] = "relu2"
    elif arguments.has("quick-geglu"):
        spec["activation"] = "gelu_quick"
    elif not arguments.has("swiglu"):
        spec["activation"] = "gelu"  # Megatron default; --openai-gelu and bias fusion use the tanh form
    if arguments.has("openai-gelu"):
        spec["activation"] = "gelu_tanh"
    hidden = spec["hidden_size"]
    width = arguments.whole("ffn-hidden-size")
    if width is None:
        swiglu = arguments.has("swiglu")
        width = int((4 * hidden * 2 / 3) / 64) * 64 if swiglu else 4 * hidden
        rule = "two thirds of 4 x hidden in multiples of 64" if swiglu else "4 x hidden"
        notes.assume("model.ffn_hidden_size", width, f"Megatron default: {rule}")
    spec["ffn_hidden_size"] = width


def _norms(arguments: Arguments, spec: dict[str, Any], *, ascend: bool) -> None:
    layer_norm = (arguments.text("normalization") or "LayerNorm").lower() != "rmsnorm"
    spec["norm"] = "layernorm" if layer_norm else None
    arguments.ask(("norm-epsilon", "layernorm-epsilon", "apply-layernorm-1p", "add-rmsnorm-offset"))
    if arguments.has("post-norm", "use-post-norm") and ascend:
        spec["block_norms"] = 2
    latent = arguments.has("multi-latent-attention")
    if arguments.has("qk-layernorm") and not latent:
        spec["qk_norm"] = "head"
        spec["qk_norm_bias"] = True if layer_norm else None
    if arguments.has("qk-l2-norm"):
        spec["qk_norm"] = "unit"


def _biases(arguments: Arguments, spec: dict[str, Any]) -> None:
    spec["bias"] = None if arguments.has("disable-bias-linear") else True
    spec["qkv_bias"] = True if arguments.has("add-qkv-bias") and not spec["bias"] else None
    spec["attention_output_bias"] = True if arguments.has("add-dense-bias") and not spec["bias"] else None
    spec["head_bias"] = True if arguments.has("add-output-layer-bias") else None


def _positions(arguments: Arguments, spec: dict[str, Any], notes: Notes) -> None:
    kind = (arguments.text("position-embedding-type") or "learned_absolute").lower()
    table = arguments.whole("max-position-embeddings")
    arguments.ask(("rotary-base", "rotary-percent", "rotary-interleaved", "rotary-scaling-factor", "rotary-seq-len"
                   "-interpolation-factor"))  # fmt: skip
    if arguments.has("use-rotary-position-embeddings", "use-rope-scaling") or kind in ("rope", "mrope", "yarn"):
        return
    if kind == "learned_absolute" and not arguments.has("no-position-embedding"):
        spec["position"] = "learned"
        spec["position_table"] = table or arguments.whole("seq-length")
        if spec["position_table"] is None:
            notes.refuse("--max-position-embeddings is missing: the learned position table has no size")
    elif kind in ("alibi", "sinusoidal"):
        spec["position"] = kind
    else:
        spec["position"] = "none"


def _window(arguments: Arguments, spec: dict[str, Any]) -> None:
    """A sliding window: its size, or MindSpeed's band mask (--sparse-mode 4 with --pre-tockens)."""
    sizes = arguments.texts("window-size")
    window = arguments.whole("sliding-window") or (int(sizes[0].strip("(")) + 1 if sizes and
                                                   sizes[0].strip("(").isdigit() else None)  # fmt: skip
    if window is None and arguments.whole("sparse-mode", minimum=0) == 4:
        window = arguments.whole("pre-tockens")
    arguments.ask(("sparse-mode", "pre-tockens", "next-tockens"))
    sequence = arguments.whole("seq-length")
    if window is not None and "mla" not in spec and "mixers" not in spec and (sequence is None or window < sequence):
        spec["window"] = window
        spec["mixers"] = ["sliding"]


def _bert(arguments: Arguments, spec: dict[str, Any]) -> None:
    """Megatron-LM's BERT: pre-norm, a masked-token transform, and with the binary head token types and a pooler."""
    hidden = spec["hidden_size"]
    spec["encoder"] = True
    spec["head_bias"] = True
    extra = hidden * hidden + 3 * hidden  # transform of masked tokens with its norm
    if not arguments.has("bert-no-binary-head"):
        spec["token_types"] = BERT_TOKEN_TYPES
        extra += hidden * hidden + hidden + 2 * hidden + 2  # pooler and sentence classifier
    spec["extra_parameters"] = extra
    spec["extra_note"] = "masked-token transform, pooler and sentence classifier of Megatron-LM's BERT"
