"""`network:` of a plan: transport, compression and library change the estimate as their sources say."""

from typing import Any

import numpy as np
import pytest

from cann_plan.planner.estimate import estimate
from cann_plan.planner.evaluate import evaluate
from cann_plan.planner.prepare import prepare
from cann_plan.planner.space import strategy_space
from cann_plan.spec.errors import SpecError
from cann_plan.spec.resolve import load_plan


def plan(**network: Any) -> dict[str, Any]:
    """Llama 2 7B over 32 servers, data parallel across them, nothing overlapped: gradients show undiluted."""
    return {
        "model": "llama-2-7b",
        "cluster": {"extends": "atlas-900-a2", "nodes": 32},
        "training": {"tokens": 1e9, "sequence_length": 4096, "global_batch_size": 64, "precision": "bf16"},
        "parallel": {"tensor": 8, "micro_batch_size": 1, "zero_stage": 0, "overlap": False},
        "software": "mindspeed-mcore",
        "network": network,
    }


def data_seconds(**network: Any) -> float:
    return estimate(load_plan(plan(**network)))["time"]["breakdown_s"]["data_comm"]


def codes(**network: Any) -> dict[str, str]:
    return {item["code"]: item["message"] for item in estimate(load_plan(plan(**network)))["warnings"]}


def test_rdma_is_what_clusters_describe() -> None:
    assert data_seconds(transport="rdma") == data_seconds()
    assert "tcp_transport" not in codes(transport="rdma")


def test_tcp_is_slower_and_says_which_cores_it_takes() -> None:
    # four cores at 42 Gbit/s fill 84% of 200 Gbit/s, RDMA 97%; HCCL reaches 80% of the line over RDMA
    assert data_seconds(transport="tcp") / data_seconds() == pytest.approx(0.97 / 0.84, rel=0.01)
    # 0.69 of 25 GB/s at 42 Gbit/s per core is 3.3 cores to receive and as many to send, for eight devices
    message = codes(transport="tcp")["tcp_transport"]
    assert "53 host cores per node of 192" in message
    assert "69% of the line rate" in message


@pytest.mark.parametrize(("kind", "share"), [("bf16", 0.5), ("int8", 0.252), ("int4", 0.127)])
def test_compressed_gradients_take_their_share_of_the_wire(kind: str, share: float) -> None:
    # fp32 main gradients of 6.7e9/8 parameters over 1.6 TB/s: the codec passes are small beside 20 GB/s of network
    ratio = data_seconds(compression=kind) / data_seconds()
    assert share < ratio < share + 0.1


def test_compression_is_never_silent_about_accuracy() -> None:
    assert "block-quantised" in codes(compression="int8")["lossy_gradients"]
    assert "error feedback" in codes(compression="top_k")["lossy_gradients"]


def test_a_cast_to_what_gradients_already_are_changes_nothing_and_says_so() -> None:
    base = plan()
    base["training"]["gradient_dtype"] = "bf16"
    cast = {**base, "network": {"compression": "fp16"}}
    plain, same = (estimate(load_plan(document)) for document in (base, cast))
    assert same["time"]["step_s"] == plain["time"]["step_s"]
    assert "no_compression" in {item["code"] for item in same["warnings"]}


def test_encoding_hides_behind_no_backward() -> None:
    document = plan(compression="bf16")
    document["parallel"]["overlap"] = {"grad_reduce": True}
    job = prepare(load_plan(document))
    time = estimate(load_plan(document))["time"]
    # reads and writes of encoder and decoder: 2 (1 + 1/2) of the fp32 gradients of an eighth of the model
    codec = 3.0 * 4.0 * job.counts.total / 8 / job.problem.compute.device.memory_bandwidth
    assert time["overlapped_s"]["data"] > 0
    assert time["breakdown_s"]["data_comm"] >= codec


@pytest.mark.parametrize("kind", ["bf16", "int8", "top_k"])
def test_compressed_blocks_equal_their_rows_to_the_last_bit(kind: str) -> None:
    document = plan(compression=kind) | {"parallel": "auto"}
    job = prepare(load_plan(document))
    space = strategy_space(job.problem, {})
    rows = np.sort(np.random.default_rng(3).choice(len(space), size=60, replace=False))
    block = space.rows(0, len(space)).take(rows)
    together = evaluate(job.problem, block)
    for row in range(len(block)):
        alone = evaluate(job.problem, block.take(np.array([row])))
        np.testing.assert_array_equal(together.step[row], alone.step[0])


def test_an_ideal_library_is_never_slower() -> None:
    assert data_seconds(library="ideal") < data_seconds()


@pytest.mark.parametrize(
    ("network", "path", "message"),
    [
        ({"library": "nccl"}, "network.library", "NCCL does not drive devices of Huawei"),
        ({"compression": {"ratio": 4}}, "network.compression.ratio", "without a kind"),
    ],
)
def test_what_cannot_be_is_refused_where_it_is_written(network: dict[str, Any], path: str, message: str) -> None:
    with pytest.raises(SpecError) as caught:
        estimate(load_plan(plan(**network)))
    (problem,) = caught.value.problems
    assert (problem.path, message in problem.message) == (path, True)
