"""Measured operator points that were published as text, with their source. Rates in TFLOP/s, times in microseconds."""

from __future__ import annotations

FLASH3 = (
    "Shah et al. 2024 (FlashAttention-3, arXiv 2407.08608), figures 5 and 6: H100 80GB SXM5, 16k tokens, hidden 2048"
)
LENGTHS = (512, 1024, 2048, 4096, 8192, 16384)

# (kernel, phase, causal, head_dim): TFLOP/s at LENGTHS; heads = 2048 / head_dim, batch = 16384 / length.
H100_ATTENTION: dict[tuple[str, str, bool, int], tuple[float, ...]] = {
    ("flash-v2", "forward", False, 64): (282, 306, 318, 321, 322, 324),
    ("flash-v2", "forward", False, 128): (309, 350, 362, 368, 370, 370),
    ("flash-v2", "forward", True, 128): (191, 260, 298, 319, 333, 335),
    ("flash-v2", "forward", False, 256): (275, 313, 321, 323, 324, 326),
    ("flash-v2", "forward", True, 256): (208, 251, 278, 293, 297, 298),
    ("flash-v2", "backward", False, 64): (198, 238, 264, 279, 287, 291),
    ("flash-v2", "backward", False, 128): (214, 260, 291, 310, 318, 322),
    ("cudnn", "forward", False, 64): (335, 373, 395, 408, 412, 413),
    ("cudnn", "forward", False, 128): (497, 574, 617, 609, 600, 595),
    ("cudnn", "forward", True, 128): (315, 410, 484, 518, 529, 539),
    ("cudnn", "forward", False, 256): (470, 546, 580, 581, 580, 581),
    ("cudnn", "forward", True, 256): (308, 391, 450, 483, 497, 509),
    ("cudnn", "backward", False, 64): (266, 348, 395, 417, 432, 433),
    ("cudnn", "backward", False, 128): (305, 408, 465, 499, 518, 516),
    ("flash-v3", "forward", False, 64): (333, 392, 460, 476, 496, 497),
    ("flash-v3", "forward", False, 128): (467, 565, 625, 638, 646, 648),
    ("flash-v3", "forward", True, 128): (292, 423, 521, 579, 602, 616),
    ("flash-v3", "forward", False, 256): (482, 639, 707, 736, 746, 756),
    ("flash-v3", "forward", True, 256): (286, 427, 537, 612, 628, 642),
    ("flash-v3", "backward", False, 64): (272, 363, 422, 453, 472, 474),
    ("flash-v3", "backward", False, 128): (316, 424, 501, 542, 559, 561),
}

# Causal backward / forward at length 8192, head_dim 128 (flash-attention pull request 1791, H100).
H100_CAUSAL_BACKWARD = {"flash-v2": (284.1, 287.1), "flash-v3": (630.0, 531.6)}

FLASH4 = "flash-attention pull requests 2605 (forward) and 2280 (backward, 2-CTA): SM100, 32k tokens, hidden 2048"
LENGTHS_B200 = (1024, 2048, 4096, 8192, 16384)
B200_ATTENTION: dict[tuple[str, str, bool, int], tuple[float, ...]] = {
    ("flash-v4", "forward", False, 64): (776, 982, 1112, 1179, 1218),
    ("flash-v4", "forward", True, 64): (460, 699, 904, 1065, 1160),
    ("flash-v4", "forward", False, 128): (1145, 1382, 1559, 1646, 1745),
    ("flash-v4", "forward", True, 128): (785, 1132, 1381),
    ("cudnn", "forward", False, 64): (980, 1072, 1118, 1147, 1157),
    ("cudnn", "forward", True, 64): (627, 826, 977, 1071, 1115),
    ("cudnn", "forward", False, 128): (1428,),
}
# (forward, backward) at length 8192, batch 4, 16 heads, head_dim 128, causal (pull request 2280).
B200_CAUSAL_BACKWARD = {"flash-v4": (1418.1, 1208.6)}
FLASH2_B200 = "flash-attention issue 1589: flash_attn 2.7.4 on B200, 16k tokens, hidden 2048"
B200_FLASH2: dict[tuple[str, str, bool, int], tuple[float, ...]] = {
    ("flash-v2", "forward", False, 64): (308.4, 359.3, 381.0, 306.9, 343.1, 379.4),
    ("flash-v2", "backward", False, 64): (243.1, 280.6, 301.6, 314.7, 329.1, 334.0),
}

FLASH2 = (
    "Dao 2023 (FlashAttention-2, arXiv 2307.08691), sections 1 and 3: best fraction of A100 peak, forward and backward"
)
A100_BEST = {"flash-v1": (0.50, 0.35), "flash-v2": (0.73, 0.63)}

MOE = "aiconfigurator moe_perf, repository 095f58a51: gate + up + down products, balanced routing"
# hidden, expert width, local experts, routed rows per token on this device, {tokens: us}
GROUPED: dict[str, list[tuple[int, int, int, float, dict[int, float]]]] = {
    "h200": [  # trtllm 1.3rc20, bf16, 128 experts, top 8, EP 4
        (4096, 1536, 32, 2.0, {64: 302.0, 512: 340.0, 2048: 408.0, 16384: 1927.0}),
    ],
    "h200-triton": [  # vllm triton bf16
        (4096, 1536, 32, 2.0, {64: 324.0, 512: 376.0, 2048: 536.0, 16384: 3266.0}),
        (4096, 14336, 8, 2.0, {64: 673.0, 512: 798.0, 2048: 2101.0, 16384: 17373.0}),
    ],
    "ascend": [  # npu_grouped_matmul, bf16, one die of Atlas 800 A3
        (7168, 2048, 32, 1.0, {64: 1657.0, 256: 2076.0, 1024: 2180.0, 4096: 3650.0}),
        (2048, 768, 32, 2.0, {64: 307.0, 1024: 363.0, 4096: 930.0}),
        (4096, 14336, 8, 2.0, {64: 2377.0, 512: 3338.0, 4096: 12147.0}),
    ],
}
MOE_ASCEND = "aiconfigurator-npu (hudingyi688) npu_grouped_matmul, w13 + w2, bf16"

# STREAM copy of the Azure node health checks, bytes/s low and high.
STREAM = {"a100": (1.610e12, 1.750e12), "h100": (2.900e12, 3.180e12), "h200": (4.000e12, 4.480e12)}
STREAM_SOURCE = "Azure node health checks, HBM stream; launch floor 3 us is aiconfigurator's memory_op_constant"
VECTOR_LAUNCH_GPU = 3e-6  # s

# Megatron-DeepSpeed (BigScience, A100) ran head dimension 150, no multiple of 8: attention products 8 times slower.
MISALIGNED_SLOWDOWN = 8.0
