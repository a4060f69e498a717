"""Calibration: known parameters are found again, few runs move little, profiles of files are used, kin share."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from cann_plan.importers.rows import MeasuredRow, read_rows, rows_from
from cann_plan.planner import calibrate_hierarchy as hierarchy
from cann_plan.planner.calibrate import calibrate
from cann_plan.planner.calibrate_document import Spread, interval
from cann_plan.planner.calibrate_hierarchy import PRIOR, Observation, Place
from cann_plan.planner.calibrate_model import NAMES, PARAMETERS
from cann_plan.planner.calibrate_runs import Run, prepare_run
from cann_plan.planner.estimate import estimate
from cann_plan.planner.evaluate import evaluate
from cann_plan.planner.validate import validate
from cann_plan.report import profile_text
from cann_plan.spec.errors import SpecError
from cann_plan.spec.profile import ProfileSpec
from cann_plan.spec.resolve import load_plan

FILE = Path(__file__).parents[1] / "data" / "measured_rows.yaml"
ROWS = {row.id: row for row in read_rows(FILE)}
COMPUTE = NAMES.index("compute_time")


def measured_as(name: str, seconds: float, **parallel: Any) -> MeasuredRow:
    """The row with another step time (and layout)."""
    data = dict(ROWS[name].data)
    data["parallel"] = {**data["parallel"], **parallel}
    data["measured"] = {"step_time_s": seconds}
    return rows_from([data])[0]


def predicted(name: str) -> float:
    return float(validate([ROWS[name]])["rows"][0]["predicted"]["step_time"])  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def run() -> Run:
    return prepare_run(ROWS["mindspeed-llama3-70b"])


def test_replayed_communication_changes_nothing(run: Run) -> None:
    """With the profile's own parameters a run's time is that of an ordinary evaluation, also the second time."""
    job = run.prepared.job
    parameters, _, _ = job.profile.on(run.device, run.family)
    values = np.array([float(getattr(parameters, name)) for name in NAMES])
    ordinary = float(evaluate(job.problem, run.prepared.variants).step[0])
    assert run.seconds(values) == run.seconds(values)
    assert run.seconds(values) == pytest.approx(ordinary, rel=1e-9)


def test_slower_compute_takes_longer_at_most_in_proportion(run: Run) -> None:
    _, slopes = run.derivatives(PRIOR.mean)
    assert 0.3 < slopes[COMPUTE] <= 1.0
    assert slopes[NAMES.index("attention_rate")] < 0.0
    assert slopes[NAMES.index("fp8_rate")] == 0.0  # a bf16 run says nothing about fp8


def test_runs_as_predicted_leave_the_profile_as_it_is() -> None:
    seconds = predicted("mindspeed-llama3-70b")
    document = calibrate([measured_as("mindspeed-llama3-70b", seconds)])
    for item in document["parameters"]:
        assert item["value"] == pytest.approx(item["prior"], rel=2e-3)
    assert document["residuals"][0]["error"] == pytest.approx(0.0, abs=2e-3)


@pytest.mark.parametrize("factor", [0.8, 1.25])
def test_one_run_moves_predictions_towards_it_but_not_all_the_way(factor: float) -> None:
    seconds = factor * predicted("mindspeed-llama3-70b")
    document = calibrate([measured_as("mindspeed-llama3-70b", seconds)])
    (row,) = document["residuals"]
    assert abs(row["error"]) < abs(row["error_before"])
    assert abs(row["error"]) > 0.01
    assert row["error_left_out"] is None
    assert any("one model and source" in text for text in document["warnings"])


def test_profile_of_a_file_is_used_and_gives_the_fitted_times(tmp_path: Path) -> None:
    """`calibrate --output` then `software.stack: file` predicts the run as the report says."""
    seconds = 1.2 * predicted("mindspeed-llama3-70b")
    row = measured_as("mindspeed-llama3-70b", seconds)
    document = calibrate([row], name="site")
    file = tmp_path / "site.yaml"
    file.write_text(profile_text.write(document), encoding="utf-8")
    text = yaml.safe_load(file.read_text(encoding="utf-8"))
    assert text["extends"] == "mindspeed-mcore"
    from cann_plan.importers.rows_plan import import_row

    plan = import_row(row).plan
    plan["software"]["stack"] = str(file)
    found = estimate(load_plan(plan))
    assert found["time"]["step_s"] == pytest.approx(document["residuals"][0]["predicted_s"], rel=2e-3)
    assert found["tool"]["profile"] == "site"
    warnings = {item["code"] for item in found["warnings"]}
    assert "inherited_calibration" not in warnings


def test_a_profile_file_with_a_wrong_key_is_located(tmp_path: Path) -> None:
    file = tmp_path / "site.yaml"
    file.write_text("name: site\nextends: megatron\nparameters: {compute_tim: 1.1}\n", encoding="utf-8")
    plan = load_plan("llama-2-7b-one-node").override({"software.stack": str(file)})
    with pytest.raises(SpecError) as caught:
        estimate(plan)
    (problem,) = caught.value.problems
    assert (problem.file, problem.line) == (str(file), 3)
    assert problem.suggestion == "compute_time"


def test_a_missing_profile_file_is_located_in_the_plan(tmp_path: Path) -> None:
    plan = tmp_path / "plan.yaml"
    plan.write_text("model: llama-2-7b\ncluster: {extends: dgx-a100, nodes: 1}\nsoftware: {stack: ./none.yaml}\n")
    with pytest.raises(SpecError, match=r"plan\.yaml:3:.*software\.stack.*none\.yaml"):
        estimate(load_plan(plan))


def test_outside_the_calibrated_range_is_said(tmp_path: Path) -> None:
    document = calibrate([measured_as("mindspeed-llama3-70b", predicted("mindspeed-llama3-70b"))])
    file = tmp_path / "site.yaml"
    file.write_text(profile_text.write(document), encoding="utf-8")
    plan = load_plan("llama-2-70b").override({"software.stack": str(file), "training.sequence_length": 4096})
    codes = [item["code"] for item in estimate(plan)["warnings"]]
    assert "outside_calibrated_range" in codes


def test_runs_of_several_stacks_are_refused() -> None:
    rows = [ROWS["mindspeed-llama3-70b"], ROWS["torchtitan-8b"]]
    with pytest.raises(SpecError, match="several devices or stacks"):
        calibrate(rows)
    assert calibrate(rows, stack="torchtitan")["stack"] == "torchtitan"


def test_no_usable_run_is_refused_with_the_reason() -> None:
    with pytest.raises(SpecError, match="flops-only"):
        calibrate([ROWS["flops-only"]])


def field(places: list[Place], errors: list[float], groups: list[str]) -> hierarchy.Posterior:
    """Posterior of runs that only compute time moves, each in proportion."""
    observations = [Observation(p, 1.0, g, f"{g}{i}") for i, (p, g) in enumerate(zip(places, groups, strict=True))]
    jacobian = np.zeros((len(places), len(PARAMETERS)))
    jacobian[:, COMPUTE] = 1.0
    covariance = hierarchy.run_covariance(observations, jacobian)
    return hierarchy.posterior(observations, jacobian, np.array(errors), covariance)


A100 = Place("a100", "ampere", "megatron")


def test_kin_lend_each_other_in_order_of_kinship() -> None:
    """Runs of one pair move it most, then its stack elsewhere and its device, then everything else."""
    posterior = field([A100] * 6, [-0.2] * 6, list("abcdef"))
    moved = {
        name: posterior.theta(place)[COMPUTE] - PRIOR.mean[COMPUTE]
        for name, place in {
            "pair": A100, "device": Place("a100", "ampere", "nemo"), "stack": Place("h100", "hopper", "megatron"),
            "family": Place("a800", "ampere", "nemo"), "other": Place("910b", "ascend", "mindspeed"),
        }.items()
    }  # fmt: skip
    assert moved["pair"] > moved["stack"] > moved["family"] > moved["other"] > 0.0
    assert moved["pair"] > moved["device"] > moved["family"]
    assert moved["pair"] == pytest.approx(0.2, abs=0.05)


def test_many_rows_of_one_model_count_less_than_as_many_models() -> None:
    one_model = field([A100] * 8, [-0.2] * 8, ["a"] * 8).theta(A100)[COMPUTE]
    eight_models = field([A100] * 8, [-0.2] * 8, list("abcdefgh")).theta(A100)[COMPUTE]
    assert PRIOR.mean[COMPUTE] < one_model < eight_models


def test_an_outlier_moves_less_than_its_share() -> None:
    """Soft-L1: one run at -100% among seven at 0 moves the pair by less than the mean."""
    moved = field([A100] * 8, [-1.0] + [0.0] * 7, list("abcdefgh")).theta(A100)[COMPUTE] - PRIOR.mean[COMPUTE]
    assert 0.0 < moved < 1.0 / 8.0


def test_spread_narrows_with_runs_and_never_widens() -> None:
    prior = PRIOR.sigma * np.sqrt(hierarchy.kinship(A100, A100))
    one, many = (field([A100] * n, [0.0] * n, [str(i) for i in range(n)]).spread(A100) for n in (1, 12))
    assert (one <= prior + 1e-12).all()
    assert many[COMPUTE] < one[COMPUTE] < prior[COMPUTE]
    assert many[NAMES.index("fp8_rate")] == pytest.approx(prior[NAMES.index("fp8_rate")])


def test_interval_of_few_groups_is_near_the_pooled_one() -> None:
    errors = np.linspace(-0.05, 0.05, 41)
    pooled = (-0.3, 0.3)
    few, many = (interval(Spread(errors, np.ones(41), groups), pooled, "x") for groups in (1, 40))
    assert few["low"] < many["low"] < 1.0 < many["high"] < few["high"]
    assert interval(None, pooled, "x")["low"] == pytest.approx(np.exp(-0.3), abs=1e-3)


def test_weighted_quantile_known_answer() -> None:
    """Equal weights: the quantile of midpoints; a repeat with half the weight each changes nothing."""
    assert Spread(np.array([1.0, 2.0, 3.0]), np.ones(3), 3).quantile(0.5) == 2.0
    doubled = Spread(np.array([1.0, 2.0, 2.0, 3.0]), np.array([1.0, 0.5, 0.5, 1.0]), 3)
    assert doubled.quantile(0.5) == 2.0


def test_every_shipped_profile_states_where_its_parameters_come_from() -> None:
    from cann_plan.spec import presets

    for name in presets.names("profiles"):
        profile = ProfileSpec.model_validate(presets.load("profiles", name).plain())
        for calibration in profile.calibrations:
            assert calibration.parameters.source.startswith(("fit on", "inherited"))
            fitted = calibration.interval.n > 0
            assert fitted == (calibration.sequence_length is not None)
            assert fitted or calibration.parameters.source.startswith("inherited")
