"""Numbers shown to people: significant digits, units, and no silent zero for something small."""

import math
import shlex

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from cann_plan.report import numbers


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (9.996, "10.0"),
        (0.09996, "0.100"),
        (1234.5, "1,234"),
        (12.345, "12.3"),
        (-12.345, "−12.3"),
        (3.4e-7, "3.40e-07"),
        (None, "unknown"),
        (math.inf, "not finite"),
        (7, "7"),
    ],
)
def test_plain_keeps_three_significant_digits(value: float | None, text: str) -> None:
    assert numbers.plain(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(12.34, "12.3 s"), (0.0451, "45.1 ms"), (12.4e-6, "12.4 µs"), (0.99999, "1.00 s"), (0.0, "0 s")],
)
def test_seconds_change_unit_before_they_lose_digits(value: float, text: str) -> None:
    assert numbers.seconds(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(57.5, "57.5 GiB"), (4.056, "4.06 GiB"), (2048.0, "2.00 TiB"), (0.05, "51 MiB"), (-8.6, "−8.60 GiB")],
)
def test_memory_is_binary(value: float, text: str) -> None:
    assert numbers.gib(value) == text


def test_bytes_are_binary_and_device_counts_decimal() -> None:
    assert numbers.size_bytes(2**30) == "1.00 GiB"
    assert numbers.size_bytes(512) == "512 B"
    assert numbers.count(130e9) == "130 B"
    assert numbers.count(2360) == "2,360"


def test_days_become_hours_and_minutes() -> None:
    assert numbers.days(43.21) == "43.2 days"
    assert numbers.days(0.5) == "12.0 hours"
    assert numbers.days(0.01) == "14.4 minutes"
    assert numbers.days(0.0001) == "8.64 s"


@pytest.mark.parametrize("value", [True, None, 12_000, 0.5, "full", "1f1b", {"policy": "full", "layers": 5}, [1, 2]])
def test_an_argument_reads_back_through_a_shell_and_yaml(value: object) -> None:
    [word] = shlex.split(numbers.argument_text(value))
    assert yaml.safe_load(word) == value


def test_percent_and_signs() -> None:
    assert numbers.percent(0.312) == "31.2 %"
    assert numbers.signed(numbers.percent, 0.05) == "+5.0 %"
    assert numbers.signed(numbers.percent, -0.05) == "−5.0 %"


@given(st.floats(min_value=1e-4, max_value=9.9e14))
def test_plain_is_within_half_a_unit_of_the_third_digit(value: float) -> None:
    shown = float(numbers.plain(value).replace(",", ""))
    assert abs(shown - value) <= 0.5000001 * 10 ** (math.floor(math.log10(value)) - 2)
