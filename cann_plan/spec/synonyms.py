"""What other tools call our keys and values, so that a plan written from habit gets the right suggestion."""

from __future__ import annotations

from typing import Final

# Folded spelling (lower case, "_" for "-") -> key. Sources: Megatron-LM and MindSpeed launch arguments, DeepSpeed and
# MindFormers configurations, Hugging Face config.json.
KEYS: Final[dict[str, str]] = {
    "tp": "tensor", "tensor_parallel": "tensor", "tensor_model_parallel_size": "tensor", "model_parallel": "tensor",
    "tp_size": "tensor", "mp": "tensor",
    "pp": "pipeline", "pipeline_parallel": "pipeline", "pipeline_model_parallel_size": "pipeline",
    "pipeline_stage": "pipeline", "pipeline_stages": "pipeline", "stages": "pipeline",
    "dp": "data", "data_parallel": "data",
    "cp": "context", "context_parallel": "context", "context_parallel_size": "context",
    "cp_algo": "context_kind", "context_parallel_algo": "context_kind",
    "ulysses_degree_in_cp": "ulysses_degree",
    "ep": "expert", "expert_parallel": "expert", "expert_model_parallel_size": "expert",
    "etp": "expert_tensor", "expert_tensor_parallel": "expert_tensor", "expert_tensor_parallel_size": "expert_tensor",
    "vpp": "virtual_pipeline", "virtual_pipeline_parallel": "virtual_pipeline", "interleave": "virtual_pipeline",
    "mbs": "micro_batch_size", "micro_batch": "micro_batch_size", "per_device_train_batch_size": "micro_batch_size",
    "gbs": "global_batch_size", "global_batch": "global_batch_size", "batch_size": "global_batch_size",
    "seq_len": "sequence_length", "seq_length": "sequence_length", "seqlen": "sequence_length",
    "max_seq_len": "sequence_length", "context_length": "sequence_length",
    "sp": "sequence_parallel", "use_seq_parallel": "sequence_parallel",
    "zero": "zero_stage", "distributed_optimizer": "zero_stage", "use_distributed_optimizer": "zero_stage",
    "recomputation": "recompute", "activation_checkpointing": "recompute", "gradient_checkpointing": "recompute",
    "checkpointing": "recompute", "recompute_granularity": "recompute",
    "num_layer_list": "layer_split", "offset": "layer_split", "schedules_method": "schedule",
    "train_tokens": "tokens", "num_tokens": "tokens", "train_samples": "samples", "train_iters": "steps",
    "max_steps": "steps", "num_train_epochs": "epochs", "dtype": "precision", "compute_dtype": "precision",
    "grad_dtype": "gradient_dtype", "mask": "attention_mask", "lora_r": "rank", "r": "rank", "lora_rank": "rank",
    "kernel": "attention", "use_flash_attn": "attention", "fusions": "fused", "fused_operators": "fused",
    "hccl_buffsize": "communicator_buffer_mib", "max_device_memory": "pool_gib", "mtbf": "mtbf_h",
    "price": "price_per_device_hour", "mfu": "min_mfu", "budget": "cost", "deadline_days": "days",
    "num_layers": "layers", "num_hidden_layers": "layers", "n_layer": "layers", "hidden": "hidden_size",
    "n_embd": "hidden_size", "num_attention_heads": "heads", "num_heads": "heads", "n_head": "heads",
    "num_key_value_heads": "kv_heads", "num_query_groups": "kv_heads", "n_kv_heads": "kv_heads",
    "intermediate_size": "ffn_hidden_size", "ffn_hidden": "ffn_hidden_size", "vocab_size": "vocabulary_size",
    "vocab": "vocabulary_size", "gpus": "devices", "npus": "devices", "num_nodes": "nodes", "nnodes": "nodes",
    "num_experts": "experts", "moe_router_topk": "top_k", "topk": "top_k",
}  # fmt: skip

VALUES: Final[dict[str, str]] = {
    "eager": "unfused", "naive": "unfused", "flash_attention": "flash", "flash_attn": "flash", "fa2": "flash-v2",
    "fa3": "flash-v3", "flash2": "flash-v2", "flash3": "flash-v3", "fusion": "ascend-fusion",
    "bfloat16": "bf16", "float16": "fp16", "half": "fp16", "float32": "fp32", "float": "fp32", "mixed": "bf16",
    "f1b1": "1f1b", "one_f_one_b": "1f1b", "zero_bubble": "zb-h1", "zb": "zb-h1", "zbv": "zb-v", "zbh1": "zb-h1",
    "dualpipev": "dualpipe-v", "vpp": "interleaved", "interleave": "interleaved",
    "megatron_cp_algo": "ring", "ulysses_cp_algo": "ulysses", "hybrid_cp_algo": "hybrid",
    "kvallgather_cp_algo": "all_gather", "allgather": "all_gather",
    "all": "full", "yes": "true", "on": "true", "y": "true", "no": "false", "off": "false", "n": "false",
    "core_attn": "core_attention", "layernorm": "norm", "rmsnorm": "norm", "moe_act": "moe_activation",
    "cpu": "host", "disk": "nvme", "ssd": "nvme", "roce": "rdma", "infiniband": "rdma", "ib": "rdma",
    "ethernet": "tcp", "h_d_r": "halving_doubling", "flash_ce": "cross_entropy", "step_time": "time",
    "pretraining": "pretrain", "finetune": "sft", "full_ft": "sft", "fine_tune": "sft",
    "tp": "tensor", "pp": "pipeline", "dp": "data", "cp": "context", "ep": "expert", "all_to_all": "alltoall",
}  # fmt: skip
