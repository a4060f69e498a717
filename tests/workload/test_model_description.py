"""What a model description may say, what it becomes, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from cann_plan.spec.model import ModelSpec
from cann_plan.workload.architecture import Attention, DenseFfn, MoeFfn, NoFfn, NoMixer, StateSpace
from cann_plan.workload.build import build_architecture

BASE: dict[str, Any] = {"layers": 6, "hidden_size": 64, "heads": 4, "vocabulary_size": 100, "ffn_hidden_size": 128}


def test_plain_model_is_one_kind_of_layer() -> None:
    arch = build_architecture(ModelSpec(**BASE))
    assert arch.sequence == (0,) * 6
    kind = arch.kinds[0]
    assert kind.mixer == Attention(heads=4, kv_heads=4, head_dim=16)
    assert kind.ffn == DenseFfn(128, gated=True)
    assert kind.norms == 2


def test_patterns_repeat_over_the_layers() -> None:
    arch = build_architecture(ModelSpec(**BASE, mixers=["sliding", "sliding", "full"], window=32))
    assert arch.sequence == (0, 0, 1, 0, 0, 1)
    assert [kind.mixer.window for kind in arch.kinds if isinstance(kind.mixer, Attention)] == [32, None]


def test_numbers_may_be_lists_with_one_entry_per_layer() -> None:
    arch = build_architecture(ModelSpec(**{**BASE, "ffn_hidden_size": [128, 0, 64, 64, 64, 64]}, kv_heads=[4, 2] * 3))
    assert len(arch.kinds) == 4
    assert isinstance(arch.kinds[1].ffn, NoFfn)
    assert arch.kinds[1].norms == 1


def test_hybrid_of_single_blocks() -> None:
    arch = build_architecture(
        ModelSpec(
            **BASE, mixers=["state_space", "none", "full"], feed_forwards=["none", "moe", "none"], gated=False,
            state_space={"heads": 4, "head_dim": 16, "state_size": 8},
            moe={"experts": 4, "top_k": 2, "hidden_size": 32},
        )
    )  # fmt: skip
    assert [type(kind.mixer) for kind in arch.kinds] == [StateSpace, NoMixer, Attention]
    assert isinstance(arch.kinds[1].ffn, MoeFfn)
    assert [kind.norms for kind in arch.kinds] == [1, 1, 1]


def test_mixture_layers_by_frequency_after_leading_dense_layers() -> None:
    moe = {"experts": 4, "top_k": 1, "hidden_size": 32, "leading_dense_layers": 1, "layer_frequency": 2}
    arch = build_architecture(ModelSpec(**BASE, moe=moe))
    assert [isinstance(arch.kinds[kind].ffn, MoeFfn) for kind in arch.sequence] == [
        False,
        False,
        True,
        False,
        True,
        False,
    ]


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"heads": 5}, "not divisible by 5 heads"),
        ({"kv_heads": 3}, "not divisible by 3 key/value heads"),
        ({"kv_heads": [4, 4]}, "`kv_heads` has 2 entries for 6 layers"),
        ({"mixers": ["full"] * 7}, "`mixers` has 7 entries for 6 layers"),
        ({"mixers": ["sliding"]}, "`window` is needed"),
        ({"position": "learned"}, "`position_table` is needed"),
        ({"ffn_hidden_size": None}, "`?ffn_hidden_size|feed-forward"),
        ({"moe": {"experts": 2, "top_k": 4, "hidden_size": 8}}, "visits 4 of 2 experts"),
        ({"feed_forwards": ["moe"]}, "`moe` is needed"),
        ({"layers": 0}, "too small"),
        ({"hiden_size": 64}, "Extra inputs"),
        ({"activation": "swish2"}, "silu"),
    ],
)
def test_contradictions_are_refused(keys: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        ModelSpec(**(BASE | keys))


def test_parallel_block_may_share_its_norm() -> None:
    one = build_architecture(ModelSpec(**BASE, parallel_block=True, shared_norm=True)).kinds[0]
    two = build_architecture(ModelSpec(**BASE, parallel_block=True)).kinds[0]
    assert (one.norms, two.norms) == (1, 2)
    assert one.parallel_block
    assert two.parallel_block
