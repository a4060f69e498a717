"""Launch arguments that do not go into a plan: those that cannot matter, and those that could and no model covers.

Names as in Megatron-LM (megatron/training/arguments.py), MindSpeed and MindSpeed-LLM (features_manager).
"""

from __future__ import annotations

import re
from typing import Final

# Prefixes and names of arguments without an effect on time, memory or cost of a training step, by reason.
_IGNORED: Final = {
    "logging": r"log-.*|logging-.*|tensorboard-.*|wandb-.*|timing-.*|swanlab-.*|mlflow-.*|one-logger-.*|no-log-.*"
               r"|.*-log-interval|enable-one-logger|barrier-with-L1-time|moe-per-layer-logging|profile(-.*)?"
               r"|use-pytorch-profiler|nvtx-ranges|record-memory-history|memory-snapshot-path|debug.*"
               r"|straggler-.*|disable-straggler-.*|log-straggler|report-.*",
    "data": r"data-.*|split|.*-data-path|tokenizer-.*|vocab-.*|merge-file|.*-cache-path|mock-data|num-workers"
            r"|eod-mask-loss|no-mmap-bin-files|dataloader-.*|no-create-attention-mask-in-dataloader|train-data-.*"
            r"|valid-data-.*|test-data-.*|num-dataset-.*|reset-position-ids|no-shuffle|handler-name|prompt-type.*"
            r"|fim-.*|no-pad-to-seq-lengths|pad-to-multiple-of|pack|padded-samples|overwrite-cache|history-turns"
            r"|tiktoken-.*|no-shared-storage|enable-share-memory|no-use-tokenizer-model-from-checkpoint-args"
            r"|per-split-data-args-path|output-prefix|input|workers|append-eod|short-seq-prob|mask-prob|cut-max-seqlen",
    "checkpoints": r"save(-.*)?|load(-.*)?|no-save-.*|no-load-.*|ckpt-.*|use-checkpoint-.*|use-dist-ckpt|dist-ckpt-.*"
                   r"|async-save|async-strategy|async-ckpt-.*|auto-detect-ckpt-format|exit-.*|finetune|use-mp-args.*"
                   r"|override-opt.param-scheduler|verify-integrity|enable-hf2mg-convert|model-type-hf|hf-cfg-dir"
                   r"|pretrained-checkpoint|no-dist-ckpt|use-persistent-ckpt-worker|non-persistent-.*|replication.*"
                   r"|export-.*|mg-save-dir|save-interval|retro-.*|convert-.*|target-.*-parallel-size",
    "optimisation schedule": r"lr|lr-.*|min-lr|decoupled-.*|weight-decay.*|start-weight-decay|end-weight-decay"
                             r"|adam-.*|sgd-.*|clip-grad|muon-.*|warmup|.*-warmup-.*|override-.*|use-checkpoint-opt.*"
                             r"|initial-loss-scale|min-loss-scale|loss-scale.*|hysteresis|init-method-.*|no-load-.*"
                             r"|embedding-init-.*|no-weight-decay.*|apply-wd-.*|calculate-per-token-loss"
                             r"|exit-on-missing-checkpoint|skip-train|train-sync-interval|eval-.*|skip-iterations.*"
                             r"|iterations-to-skip|scale-lr-cond|head-lr-mult|optimizer-selection|use-mup.*|ema-.*",
    "seeds and checks": r"seed|.*-rng-tracker|te-rng-tracker|inference-rng-tracker|data-parallel-random-init|rerun-.*"
                        r"|check-.*|no-check-for-nan.*|check-for-.*|error-injection-.*|test-mode|npu-anomaly-detection"
                        r"|weight-hash-.*|result-rejected-.*|enable-experimental|run-workload-inspector-server",
    "launch": r"master-.*|node-rank|rdzv-.*|local-rank|local_rank|distributed-backend|distributed-timeout.*"
              r"|max-restarts|use-cpu-initialization|no-initialization|lazy-mpu-init|ddp-timeout|role|tee|redirects|log-dir|standalone"
              r"|hostfile|include|launcher|ssh.*|deepspeed_config|world-size|rank|enable-high-availability|disable-gloo-.*"
              r"|disable-mpi.*|high-priority-stream-groups|nccl-.*|use-sharp|enable-gloo.*|auto-settings.*"
              r"|use-ring-exchange-p2p|monitor-.*",
    "numerics of a few values": r"norm-epsilon|layernorm-epsilon|attention-softmax-in-fp32"
                                r"|apply-query-key-layer-scaling|softmax-.*|fp32-residual-connection|fp16-lm-cross-entropy|attention-dropout"
                                r"|hidden-dropout|rotary-.*|rope-.*|no-rope-.*|mscale.*|beta-fast|beta-slow|partial-rotary-factor"
                                r"|position-embedding-.*|original-max-position-embeddings|yarn-.*|longrope-.*|long-.*"
                                r"|short-.*|dynamic-factor|high-freq-factor|low-freq-factor|use-glm-rope|apply-rope-.*"
                                r"|use-rope-scaling|init-norm-weight-in-fp32|rmsnorm-weight-in-fp32|.*-multiplier-scale"
                                r"|embed.*-multiplier|enable-mla-scale-.*|post-norm|skip-bias-add|transformer-impl"
                                r"|no-persist-layer-norm|no-query-key-layer-scaling|query-key-layer-scaling|fp8-margin"
                                r"|fp8-interval|fp8-amax-.*|fp8-wgrad|no-fp8-wgrad|scale-.*|input-jitter|topk-softmax-in-fp32"
                                r"|attn-logit-softcapping|output-logit-softcapping|query-pre-attn-scalar|logit-.*|gelu-tanh"
                                r"|input-embeds-norm|geglu|interleave.*|sandwich-norm|openai-gelu|onnx-safe|torch-.*-tol",
    "router's choice": r"moe-router-(load-balancing-type|dtype|score-function|bias-update-rate|pre-softmax"
                       r"|topk-scaling-factor|num-groups|group-topk|topk-limited-devices|padding-for-fp8|padding-for-quantization)"
                       r"|moe-aux-loss-coeff|moe-z-loss-coeff|moe-.*aux-loss-coeff|moe-input-jitter-eps|seq-aux"
                       r"|norm-topk-prob|router-gating-in-fp32|moe-token-drop-policy|moe-without-activation|aux-loss-.*"
                       r"|moe-revert-type-after-topk|mtp-loss-scaling-factor|indexer-loss-coeff|dsa-indexer-loss-coeff"
                       r"|mtp-loss-.*|moe-aux-.*|topk-group|n-group|moe-hybridep-num-sms|moe-deepep-num-sms",
    "housekeeping": r"manual-gc.*|empty-unused-memory-level|use-mcore-models|use-legacy-models|spec|transformer-impl"
                    r"|ddp-num-buckets|ddp-bucket-size|ddp-average-in-collective|ddp-pad-buckets.*|param-and-grad-buffer-pad"
                    r"|reset-bucket-group-order|async-log-allreduce|disable-gloo-group|align-.*|no-align-.*|mla-.*-without-pad"
                    r"|is-hybrid-model|shape-order|foreach-.*|inference-.*|use-.*-inference.*|kv-head-repeat.*|dist-train"
                    r"|cuda-graph-(warmup-steps|modules|scope)|use-te-rng-tracker|group-query-attention"
                    r"|distribute-saved-activations|batch-p2p-communication|microbatch-group-size-per-virtual-pipeline-stage",
}  # fmt: skip
IGNORED: Final = {reason: re.compile(pattern, re.I) for reason, pattern in _IGNORED.items()}

# Known to change time or memory; no model covers them.
UNMODELLED: Final = {
    "use-nanopipe": "bubble-filling schedule", "use-nanopipe-swap": "bubble-filling schedule",
    "swap-layer-input": "inputs of recomputed layers kept in host memory",
    "smart-swap": "tensors swapped at run time", "swap-modules": "needs --swap-attention",
    "adaptive-recompute-device-swap": "swap chosen at run time",
    "compress-activation": "compressed activations", "compress-optimizer": "compressed optimizer states",
    "compress-dense": "compressed dense activations",
    "mla-swap-core-attn-out": "attention output swapped to host memory",
    "hccl-group-buffer": "communicator buffers by group", "hccl-group-buffer-adaptive": "communicator buffers by group",
    "hccl-ep-group-buffer-adaptive-factor": "communicator buffers by group",
    "moe-permutation-async-comm": "asynchronous permutation of tokens",
    "moe-shared-expert-overlap": "shared experts behind the all-to-all",
    "moe-unperm2-mem-optim": "memory of the second permutation",
    "moe-unperm2-mem-optim-swap": "memory of the permutation",
    "moe-hierarchical-alltoallv": "two-level all-to-all", "moe-alltoall-mc2": "all-to-all fused with products",
    "moe-bmm-mc2": "all-to-all fused with products", "moe-adaptive-recompute-activation": "chosen at run time",
    "balanced-moe-experts": "experts placed by load", "enable-expert-placement": "experts placed by load",
    "use-cp-send-recv-overlap": "context-parallel sends are always taken as overlapped",
    "use-fused-ring-attention-update": "fused update of ring attention",
    "megatron-cp-in-bnsd": "layout of ring attention",
    "context-parallel-kv-cache-policy": "remote keys and values kept for backward",
    "context-parallel-cache-interval": "remote keys and values kept for backward",
    "use-ulysses-allgather-kv": "handling of few key/value heads in Ulysses",
    "enable-overlap-ag-with-matmul": "overlap of two-dimensional tensor parallelism",
    "enable-overlap-matmul-with-rs": "overlap of two-dimensional tensor parallelism",
    "enable-backward-overlap-ag-with-matmul": "overlap of two-dimensional tensor parallelism",
    "mtp-mem-efficient-logits": "logits of multi-token prediction freed early",
    "output-layer-slice-num": "sliced logits",
    "mla-mm-split": "split products of latent attention", "mla-up-proj-tp-overlap": "overlap inside latent attention",
    "enable-mla-absorb": "absorbed products of latent attention", "num-zero-experts": "experts that return their input",
    "defer-embedding-wgrad-compute": "embedding gradient moved into the pipeline's tail",
    "wgrad-deferral-limit": "embedding gradient moved into the pipeline's tail",
    "delay-wgrad-compute": "weight gradients delayed for overlap",
    "overlap-p2p-communication-warmup-flush": "sends overlapped in warm-up and flush",
    "fp8-param-gather": "weights gathered in fp8", "fp8-reuse-quantized-weight": "quantised weights kept",
    "reuse-grad-buf-for-mxfp8-param-ag": "buffer shared between gradients and gathered weights",
    "optimization-level": "bundle of MindSpeed features", "layerzero-config": "configuration file not read",
    "qat-scheme": "quantisation-aware training", "use-fused-mlp": "fused feed-forward block",
    "overlap-param-gather-with-optimizer-step": "parameter gather behind the optimizer",
    "outer-dp-sharding-strategy": "sharding over the outer data-parallel group",
    "mtp-use-repeated-layer": "shared multi-token-prediction layer",
    "perform-rl-step": "reinforcement learning: generation is not part of a step here",
    "index-share-for-mtp-iteration": "indexer shared between layers",
    "index-topk-freq": "indexer shared between layers",
    "index-skip-topk-offset": "indexer shared between layers",
    "use-sparse-flash-attn": "kernel of sparse attention", "use-triton-gdn": "kernel of linear attention",
    "use-fused-lightning-indexer": "kernel of sparse attention",
    "use-fused-lightning-indexer-loss": "kernel of sparse attention",
    "distribute-saved-activations": "saved inputs spread over tensor ranks",
    "fp32-residual-connection": "residual stream in fp32", "fp16-lm-cross-entropy": "loss in half precision",
    "ddp-bucket-size": "size of gradient buckets", "ddp-num-buckets": "size of gradient buckets",
    "empty-unused-memory-level": "cached memory returned every step",
    "moe-pad-expert-input-to-capacity": "experts compute up to their capacity",
    "cuda-graph-modules": "graphs of some modules only", "cuda-graph-scope": "graphs of some modules only",
    "kv-head-repeat-before-uly-alltoall": "key and value heads repeated before the all-to-all",
    "microbatch-group-size-per-virtual-pipeline-stage": "order of interleaved micro-batches",
    "use-sharp": "reductions in the network", "mla-fa-without-pad": "attention kernel without padded heads",
    "no-pad-to-seq-lengths": "sequences of their own length", "batch-p2p-communication": "sends in batches",
    "align-param-gather": "parameter gathers aligned between stages",
    "mamba-chunk-size": "chunk of the state-space scan",
    "no-use-sparse-c8-indexer": "kernel of sparse attention", "enable-fa-var-len": "variable-length attention kernel",
}  # fmt: skip


# Read by the importer; where a value decides that another argument has no say, that one is listed under this reason.
CONSULTED: Final = frozenset({
    "context-parallel-algo", "cp-comm-type", "ulysses-degree-in-cp", "cp-window-size", "is-instruction-dataset",
    "stage",
    "no-position-embedding", "position-embedding-type", "max-position-embeddings", "ffn-hidden-size",
    "use-rotary-position-embeddings", "num-layers-per-virtual-pipeline-stage", "moe-router-topk", "moe-ffn-hidden-size",
    "moe-token-dispatcher-type", "moe-expert-capacity-factor", "moe-layer-freq", "first-k-dense-replace",
    "moe-flex-dispatcher-backend", "num-query-groups", "kv-channels", "disable-bias-linear", "add-qkv-bias",
    "add-dense-bias", "swiglu", "geglu", "normalization", "untie-embeddings-and-output-weights", "q-lora-rank",
    "kv-lora-rank", "qk-head-dim", "qk-pos-emb-head-dim", "v-head-dim", "qk-layernorm", "num-layers", "hidden-size",
    "num-attention-heads", "expert-tensor-parallel-size", "bert-no-binary-head", "mamba-state-dim", "mamba-head-dim",
    "mamba-num-groups", "mamba-num-heads", "mamba-expand", "mamba-d-conv", "main-grads-dtype", "tokenizer-type",
    "recompute-modules", "optimizer-offload-fraction", "swap-modules", "no-overlap-p2p-communication", "mtp-num-layers",
    "moe-shared-expert-intermediate-size", "moe-router-enable-expert-bias", "moe-latent-size", "num-moe-experts",
    "data-parallel-sharding-strategy", "ep-fsdp-size", "attention-mask-type", "overlap-grad-reduce", "squared-relu",
    "hierarchical-context-parallel-sizes", "sequence-parallel", "moe-zero-memory", "loss-chunk-size",
    "num-virtual-stages-per-pipeline-rank", "pipeline-model-parallel-layout", "enable-recompute-layers-per-pp-rank",
})  # fmt: skip


def ignored_because(name: str) -> str | None:
    """Why an argument cannot matter, None if it might."""
    if name in UNMODELLED:
        return None
    if name in CONSULTED:
        return "has no say beside the other arguments"
    if name.startswith(("rl-", "grpo-")):
        return "reinforcement learning outside the training step"
    return next((reason for reason, pattern in IGNORED.items() if pattern.fullmatch(name)), None)
