"""Recomputation for a budget: against brute force, against listed policies, against segments of sqrt(n) layers."""

from itertools import pairwise, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cann_plan.cost.recompute_plan import (
    LayerOption,
    optimal_plan,
    plan_front,
    segment_plan,
    square_root_plan,
    uniform_plans,
)

SIZES = st.integers(0, 40).map(float)
OPTIONS = st.builds(LayerOption, st.just("x"), SIZES, SIZES, SIZES)
CHAINS = st.lists(st.lists(OPTIONS, min_size=1, max_size=4), min_size=1, max_size=5)


def brute_force(layers: list[list[LayerOption]], budget: float) -> float | None:
    best = None
    for choice in product(*layers):
        if sum(o.kept for o in choice) + max(o.peak for o in choice) <= budget:
            seconds = sum(o.replay_s for o in choice)
            best = seconds if best is None else min(best, seconds)
    return best


@settings(max_examples=150, deadline=None)
@given(CHAINS, st.integers(0, 200).map(float))
def test_equals_brute_force_on_short_chains(layers: list[list[LayerOption]], budget: float) -> None:
    plan = optimal_plan(layers, budget)
    best = brute_force(layers, budget)
    assert (plan.replay_s if plan else None) == best
    if plan is not None:
        chosen = [options[index] for options, index in zip(layers, plan.choice, strict=True)]
        assert plan.total == sum(o.kept for o in chosen) + max(o.peak for o in chosen) <= budget


@settings(max_examples=60, deadline=None)
@given(st.lists(OPTIONS, min_size=2, max_size=5), st.integers(1, 40))
def test_never_worse_than_a_policy_that_treats_all_layers_alike(options: list[LayerOption], count: int) -> None:
    layers = [options] * count
    for policy in uniform_plans(layers):
        plan = optimal_plan(layers, policy.total)
        assert plan is not None
        assert plan.replay_s <= policy.replay_s * (1 + 1e-12)


@settings(max_examples=40, deadline=None)
@given(CHAINS)
def test_the_front_has_more_seconds_for_fewer_bytes(layers: list[list[LayerOption]]) -> None:
    front = plan_front(layers)
    for fewer, more in pairwise(front):
        assert fewer.total < more.total
        assert fewer.replay_s > more.replay_s


def test_a_layer_is_recomputed_only_as_far_as_the_budget_asks() -> None:
    options = [LayerOption("none", 34.0, 0.0, 4.0), LayerOption("selective", 20.0, 0.1, 10.0),
               LayerOption("full", 2.0, 1.0, 34.0)]  # fmt: skip
    layers = [options] * 10
    assert optimal_plan(layers, 344.0).choice == (0,) * 10  # type: ignore[union-attr]
    tight = optimal_plan(layers, 260.0)
    assert tight is not None
    assert set(tight.choice) == {0, 1}
    assert tight.replay_s == pytest.approx(0.7)
    assert optimal_plan(layers, 53.0) is None


@pytest.mark.parametrize("layers", [9, 16, 64, 100])
def test_segments_of_sqrt_n_keep_about_twice_sqrt_n_layers(layers: int) -> None:
    """Chen et al. 2016 section 4.1: O(sqrt n) memory with equal inputs and contents, for one more forward."""
    plan = square_root_plan(layers, 1.0, 1.0, 1.0)
    assert plan.total == pytest.approx(2 * layers**0.5, rel=0.05)
    assert plan.replay_s == layers
    assert plan.total == min(segment_plan(layers, 1.0, 1.0, 1.0, k).total for k in range(1, layers + 1))
