"""Which reader understands which `model_type`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from cann_plan.importers import hf_classic, hf_dense, hf_encoder, hf_gemma, hf_hybrid, hf_latent, hf_moe
from cann_plan.importers.hf_config import Fields, HfConfig

Reader = Callable[[HfConfig], Fields]

FAMILIES: Final[dict[str, Reader]] = {
    "llama": hf_dense.llama, "Yi": hf_dense.llama, "yi": hf_dense.llama, "aquila": hf_dense.llama,
    "minicpm": hf_dense.llama, "exaone": hf_dense.llama, "code_llama": hf_dense.llama, "helium": hf_dense.llama,
    "mistral": hf_dense.mistral, "ministral": hf_dense.mistral, "ministral3": hf_dense.mistral,
    "qwen": hf_dense.qwen, "qwen2": hf_dense.qwen2, "qwen2_vl": hf_dense.qwen2, "qwen2_vl_text": hf_dense.qwen2,
    "qwen2_5_vl": hf_dense.qwen2, "qwen2_5_vl_text": hf_dense.qwen2, "qwen3": hf_dense.qwen3,
    "qwen3_vl_text": hf_dense.qwen3, "internlm": hf_dense.internlm, "internlm2": hf_dense.internlm,
    "internlm3": hf_dense.internlm3, "baichuan": hf_dense.baichuan, "phi3": hf_dense.phi3, "glm": hf_dense.glm,
    "glm4": hf_dense.glm4, "glm4v_text": hf_dense.glm4, "chatglm": hf_dense.chatglm, "granite": hf_dense.granite,
    "olmo": hf_dense.olmo, "olmo2": hf_dense.olmo2, "olmo3": hf_dense.olmo2, "cohere": hf_dense.cohere,
    "cohere2": hf_dense.cohere, "stablelm": hf_dense.stablelm, "starcoder2": hf_dense.starcoder2,
    "exaone4": hf_dense.exaone4, "exaone4_5_text": hf_dense.exaone4,
    "seed_oss": hf_dense.seed_oss, "hunyuan_v1_dense": hf_dense.hunyuan,
    "ernie4_5": hf_dense.ernie4_5, "arcee": hf_dense.plain, "apertus": hf_dense.plain, "nemotron": hf_dense.plain,
    "jais2": hf_dense.plain, "smollm3": hf_dense.smollm3, "bitnet": hf_dense.bitnet,
    "nanochat": hf_dense.nanochat, "cwm": hf_dense.cwm, "telechat": hf_dense.telechat,
    "nemotron-nas": hf_dense.nemotron_nas,
    "gpt2": hf_classic.gpt2, "openai-gpt": hf_classic.openai_gpt, "gpt_bigcode": hf_classic.gpt_bigcode,
    "gpt_neo": hf_classic.gpt_neo,
    "gpt_neox": hf_classic.gpt_neox, "gptj": hf_classic.gptj, "codegen": hf_classic.gptj, "phi": hf_classic.phi,
    "persimmon": hf_classic.persimmon, "opt": hf_classic.opt, "xglm": hf_classic.xglm, "biogpt": hf_classic.biogpt,
    "bloom": hf_classic.bloom, "mpt": hf_classic.mpt, "falcon": hf_classic.falcon, "RefinedWeb": hf_classic.falcon,
    "RefinedWebModel": hf_classic.falcon,
    "gemma": hf_gemma.gemma, "gemma2": hf_gemma.gemma2, "vaultgemma": hf_gemma.gemma2, "gemma3": hf_gemma.gemma3,
    "gemma3_text": hf_gemma.gemma3, "gemma4": hf_gemma.gemma4, "gemma4_text": hf_gemma.gemma4,
    "gemma3n": hf_gemma.gemma3n, "gemma3n_text": hf_gemma.gemma3n,
    "mixtral": hf_moe.mixtral, "qwen2_moe": hf_moe.qwen2_moe, "qwen3_moe": hf_moe.qwen3_moe,
    "qwen3_vl_moe_text": hf_moe.qwen3_moe, "deepseek": hf_moe.deepseek, "glm4_moe": hf_moe.glm4_moe,
    "glm4v_moe_text": hf_moe.glm4_moe, "dots1": hf_moe.dots1, "solar_open": hf_moe.solar_open,
    "exaone_moe": hf_moe.exaone_moe, "afmoe": hf_moe.afmoe, "phimoe": hf_moe.phimoe, "olmoe": hf_moe.olmoe,
    "flex_olmo": hf_moe.olmoe, "granitemoe": hf_moe.granitemoe, "granitemoeshared": hf_moe.granitemoe,
    "dbrx": hf_moe.dbrx, "arctic": hf_moe.arctic, "grok-1": hf_moe.grok_1, "grok": hf_moe.grok_1,
    "ernie4_5_moe": hf_moe.ernie4_5_moe, "hunyuan_v1_moe": hf_moe.hunyuan_moe, "llama4": hf_moe.llama4,
    "llama4_text": hf_moe.llama4, "gpt_oss": hf_moe.gpt_oss, "minimax_m2": hf_moe.minimax_m2, "hy_v3": hf_moe.hy_v3,
    "mimo_v2_flash": hf_moe.mimo_v2_flash,
    "minicpm3": hf_latent.minicpm3, "kimi_linear": hf_latent.kimi_linear, "deepseek_v2": hf_latent.deepseek,
    "deepseek_v3": hf_latent.deepseek, "kimi_k2": hf_latent.deepseek, "deepseek_v32": hf_latent.sparse,
    "glm_moe_dsa": hf_latent.sparse, "glm4_moe_lite": hf_latent.lite, "youtu": hf_latent.dense,
    "pangu_ultra_moe": hf_latent.pangu_ultra_moe,
    "qwen3_next": hf_hybrid.qwen3_5_moe, "qwen3_5": hf_hybrid.qwen3_5, "qwen3_5_text": hf_hybrid.qwen3_5,
    "qwen3_5_moe": hf_hybrid.qwen3_5_moe, "qwen3_5_moe_text": hf_hybrid.qwen3_5_moe, "minimax": hf_hybrid.minimax,
    "minimax_text_01": hf_hybrid.minimax, "nemotron_h": hf_hybrid.nemotron_h, "jamba": hf_hybrid.jamba,
    "bamba": hf_hybrid.bamba, "granitemoehybrid": hf_hybrid.granitemoehybrid, "mamba": hf_hybrid.mamba,
    "falcon_mamba": hf_hybrid.mamba, "mamba2": hf_hybrid.mamba2,
    "bert": hf_encoder.bert, "roberta": hf_encoder.bert, "xlm-roberta": hf_encoder.bert,
    "camembert": hf_encoder.bert, "megatron-bert": hf_encoder.bert, "distilbert": hf_encoder.distilbert,
}  # fmt: skip

DEFAULTS_OF: Final = {
    "Yi": "llama", "yi": "llama", "code_llama": "llama", "aquila": "llama", "qwen3_vl_moe_text": "qwen3_vl_moe_text",
    "kimi_k2": "deepseek_v3", "gemma3": "gemma3_text", "gemma3n": "gemma3n_text",
    "gemma4": "gemma4_text", "exaone4_5_text": "exaone4",
    "llama4": "llama4_text", "qwen3_5": "qwen3_5_text", "qwen3_5_moe": "qwen3_5_moe_text",
    "qwen2_vl": "qwen2_vl_text", "qwen2_5_vl": "qwen2_5_vl_text",
}  # fmt: skip
"""Model types whose absent keys take the defaults of another's class."""
