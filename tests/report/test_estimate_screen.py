"""The estimate's screen: the answer first, one screen long, units everywhere, plain when asked."""

from typing import Any

import pytest

from cann_plan.report.blocks import Detail
from cann_plan.report.render import render
from cann_plan.report.screen import Screen


def screen(document: dict[str, Any], **options: Any) -> str:
    return render(document, "table", screen=Screen(**options))


def test_the_verdict_is_the_first_thing_said(document: dict[str, Any]) -> None:
    lines = screen(document).splitlines()
    assert "example-130b · example-cluster · 256 devices" in lines[0]
    assert "FITS with 13.8 GiB free: stage 0 (backward) needs 43.7 of 57.5 GiB usable" in lines[1]


def test_a_plan_too_large_says_by_how_much_and_where(document: dict[str, Any]) -> None:
    memory = document["memory"]
    memory.update(peak_gib=66.1, headroom_gib=-8.6, fits=False, verdict="does_not_fit", peak_stage=3)
    assert "DOES NOT FIT by 8.60 GiB: stage 3 (backward) needs 66.1 of 57.5 GiB usable" in screen(document)


def test_the_capacity_named_is_the_one_the_verdict_is_judged_by(document: dict[str, Any]) -> None:
    memory = document["memory"]
    memory["headroom_gib"] = memory["visible_gib"] - memory["peak_gib"]
    text = screen(document)
    assert "FITS with 17.3 GiB free: stage 0 (backward) needs 43.7 of 61.0 GiB visible" in text
    assert "Where the memory goes: stage 0, 43.7 of 61.0 GiB visible" in text


@pytest.mark.parametrize("width", [80, 100, 120])
def test_it_is_one_screen_and_never_wider_than_asked(document: dict[str, Any], width: int) -> None:
    lines = screen(document, width=width).splitlines()
    assert max(map(len, lines)) <= width
    assert len(lines) <= (56 if width == 80 else 50)


def test_parts_of_the_step_are_sorted_and_small_ones_are_added_up(document: dict[str, Any]) -> None:
    lines = screen(document).splitlines()
    first = next(index for index, line in enumerate(lines) if line.startswith("Where the time goes")) + 1
    labels = [line.split("  ")[1].strip() for line in lines[first : first + 7]]
    assert labels == [
        "backward",
        "forward",
        "recompute",
        "tensor comm.",
        "pipeline bubble",
        "data comm.",
        "other",
    ]
    # 0.421875 + 0.34375 + 0.109375 s are each below 1 % of the step.
    assert "875 ms" in lines[first + 6]


def test_hidden_communication_is_named_apart_from_the_step(document: dict[str, Any]) -> None:
    text = screen(document)
    assert "+ 1.50 s hidden" in text
    assert "Hidden behind computation, not in the step: input 3.00 s" in text


def test_the_interval_is_of_the_whole_run(document: dict[str, Any]) -> None:
    days = document["time"]["goodput_days"]
    assert f"80 % interval {days * 0.875:.0f}–{days * 1.125:.0f} days" in screen(document)


def test_lists_are_cut_and_say_so_and_explain_shows_all(document: dict[str, Any]) -> None:
    text = screen(document)
    assert "3 more: --explain or --format json lists all" in text
    assert "network.routing" not in text
    full = render(document, "table", screen=Screen(), detail=Detail(explain=True))
    assert "network.routing = adaptive (preset)" in full
    assert "with parameters_per_rank = 2,583,691,264" in full
    assert "= parameters_per_rank * 2 / 2^30" in full


def test_brief_is_the_verdict_only(document: dict[str, Any]) -> None:
    lines = render(document, "table", screen=Screen(), detail=Detail(brief=True)).splitlines()
    assert lines[0].startswith("╭")
    assert lines[-1].startswith("╰")
    assert len(lines) == 7


def test_no_colour_has_no_escape_and_colour_has(document: dict[str, Any]) -> None:
    assert "\x1b" not in screen(document)
    assert "\x1b[" in screen(document, colour=True)


def test_ascii_screens_hold_ascii_only(document: dict[str, Any]) -> None:
    text = screen(document, unicode=False)
    assert text.isascii()
    assert "####" in text


def test_markup_in_names_is_text(document: dict[str, Any]) -> None:
    document["plan"]["model"]["name"] = "[red]model[/red] :smile:"
    assert "[red]model[/red] :smile:" in screen(document)


def test_unknown_money_gives_its_reason(document: dict[str, Any]) -> None:
    document["cost"].update(amount=None, currency=None, reason="no price in economics")
    text = screen(document)
    assert "2.37 M device-hours · 1.28 GWh · cost unknown" in text
    assert "• cost: no price in economics" in text


def test_the_device_is_the_first_assumption_and_the_host_the_last(document: dict[str, Any]) -> None:
    document["assumptions"] = [
        {"path": f"{section}.x", "value": 1, "source": "s"} for section in ("server", "run", "training", "device")
    ]
    text = screen(document)
    order = [text.index(f"{section}.x = 1") for section in ("device", "training", "run", "server")]
    assert order == sorted(order)


def test_values_without_an_amount_of_training_are_left_out(document: dict[str, Any]) -> None:
    document["time"].update(total_days=None, goodput=None, goodput_days=None)
    document["cost"].update(device_hours=None, amount=None, reason="no amount of training")
    text = screen(document)
    assert "days" not in text
    assert "50.4 s per step" in text
