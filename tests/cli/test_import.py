"""`cann-plan import`: documents of other tools become plans that `estimate` reads as they are."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Run

SCRIPT = """#!/bin/bash
export PYTORCH_NPU_ALLOC_CONF=expandable_segments:True
NPUS_PER_NODE=8
NNODES=1
TP=2; PP=2
touch "$(echo ran)"
MODEL_ARGS=(
    --num-layers 32 --hidden-size 4096 --ffn-hidden-size 11008 --num-attention-heads 32
    --seq-length 4096 --max-position-embeddings 4096 --vocab-size 32000
    --swiglu --normalization RMSNorm --disable-bias-linear --position-embedding-type rope
    --untie-embeddings-and-output-weights --use-mcore-models
)
torchrun --nproc_per_node $NPUS_PER_NODE --nnodes $NNODES pretrain_gpt.py "${MODEL_ARGS[@]}" \\
    --tensor-model-parallel-size $TP --pipeline-model-parallel-size $PP --sequence-parallel --bf16 \\
    --micro-batch-size 1 --global-batch-size 64 --use-flash-attn --use-distributed-optimizer \\
    --train-iters 100 --lr 1e-4 --use-nanopipe
"""
CONFIG = {"model_type": "llama", "hidden_size": 1024, "intermediate_size": 2816, "num_attention_heads": 16,
          "num_hidden_layers": 4, "num_key_value_heads": 4, "vocab_size": 32000}  # fmt: skip


def write(folder: Path, name: str, text: str) -> str:
    (folder / name).write_text(text, encoding="utf-8")
    return name


def test_a_launch_script_becomes_a_plan_that_estimate_reads(run: Run, tmp_path: Path) -> None:
    write(tmp_path, "train.sh", SCRIPT)
    done = run("import", "megatron", "train.sh")
    assert done.returncode == 0
    assert done.stderr == ""
    assert "# not in the plan: use-nanopipe" in done.stdout
    assert not (tmp_path / "ran").exists()
    estimate = run("estimate", "-", "--format", "json", stdin=done.stdout)
    assert estimate.returncode == 0
    document = json.loads(estimate.stdout)
    assert (document["parallel"]["devices"], document["parallel"]["data"]) == (8, 2)
    assert document["plan"]["model"]["layers"] == 32


def test_json_holds_the_plan_and_the_report(call: Run, tmp_path: Path) -> None:
    write(tmp_path, "train.sh", SCRIPT)
    done = call("import", "megatron", "train.sh", "--var", "NNODES=4", "--format", "json")
    document = json.loads(done.stdout)
    assert document["schema"] == "cann-plan/import/1"
    assert document["plan"]["cluster"]["devices"] == 32
    assert {item["argument"] for item in document["report"]["ignored"]} == {"lr"}
    assert document["report"]["refused"] == []


def test_standard_input_and_an_output_file(call: Run, tmp_path: Path) -> None:
    done = call("import", "megatron", "-", "--cluster", "atlas-900-a3", "--output", "plan.yaml", stdin=SCRIPT)
    assert (done.returncode, done.stdout) == (0, "")
    assert call("estimate", "plan.yaml", "--format", "json").returncode == 0


@pytest.mark.parametrize(
    ("arguments", "file", "text", "words"),
    [
        (["megatron", "a.sh"], "a.sh", "echo hello\n", "no command with launch arguments"),
        (["megatron", "a.sh"], "a.sh", 'X="abc\n', "never closed"),
        (["megatron", "a.sh"], "a.sh", "torchrun a.py --num-layers 2 --hidden-size 64\n", "--num-attention-heads"),
        (["megatron", "none.sh"], "a.sh", "", "No such file"),
        (["megatron", "a.sh", "--var", "1=2"], "a.sh", "", "NAME=VALUE"),
        (["deepspeed", "a.json"], "a.json", "{}", "--model"),
        (["mindformers", "a.yaml"], "a.yaml", "model: {}", "sizes are missing"),
        (["hf", "a.json"], "a.json", '{"model_type": "nobody"}', "nobody"),
    ],
)
def test_wrong_input_is_said_without_a_traceback(
    call: Run, tmp_path: Path, arguments: list[str], file: str, text: str, words: str
) -> None:
    write(tmp_path, file, text)
    done = call("import", *arguments)
    assert done.returncode == 2
    assert words in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_hugging_face_and_deepspeed_together(call: Run, tmp_path: Path) -> None:
    write(tmp_path, "config.json", json.dumps(CONFIG))
    write(tmp_path, "ds.json", json.dumps({"train_micro_batch_size_per_gpu": 1, "bf16": {"enabled": True}}))
    assert "layers: 4" in call("import", "hf", "config.json").stdout
    done = call("import", "deepspeed", "ds.json", "--model", "config.json", "--devices", "8", "--cluster", "dgx-a100")
    assert call("estimate", "-", "--format", "json", stdin=done.stdout).returncode == 0
