"""Quantities as people write them: what is accepted, what is refused, and that text and SI agree."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cann_plan import units
from cann_plan.units import Dimension, UnitError, parse, parse_count, parse_number

ACCEPTED = [
    ("64 GiB", Dimension.BYTES, 64 * 2**30),
    ("64GB", Dimension.BYTES, 64e9),
    ("1.5 TiB", Dimension.BYTES, 1.5 * 2**40),
    ("80B", Dimension.BYTES, 80),
    (4096, Dimension.BYTES, 4096),
    ("400 Gbit/s", Dimension.BANDWIDTH, 50e9),
    ("400 Gb/s", Dimension.BANDWIDTH, 50e9),
    ("400Gbps", Dimension.BANDWIDTH, 50e9),
    ("25 GB/s", Dimension.BANDWIDTH, 25e9),
    ("1.6 TB/s", Dimension.BANDWIDTH, 1.6e12),
    ("1 GiB/s", Dimension.BANDWIDTH, 2**30),
    ("28 d", Dimension.TIME, 28 * 86400),
    ("5 us", Dimension.TIME, 5e-6),
    ("5 µs", Dimension.TIME, 5e-6),
    ("30 min", Dimension.TIME, 1800),
    ("12 hours", Dimension.TIME, 43200),
    ("80B", Dimension.COUNT, 80e9),
    ("1.4T", Dimension.COUNT, 1.4e12),
    ("80e9", Dimension.COUNT, 80e9),
    ("80_000_000_000", Dimension.COUNT, 80e9),
    ("7 billion", Dimension.COUNT, 7e9),
    ("313 TFLOP/s", Dimension.FLOP_RATE, 313e12),
    ("313 TFLOPS", Dimension.FLOP_RATE, 313e12),
    ("626 TOPS", Dimension.FLOP_RATE, 626e12),
    ("3.14e23 FLOPs", Dimension.FLOPS, 3.14e23),
    ("350 W", Dimension.POWER, 350),
    ("5.6 kW", Dimension.POWER, 5600),
    ("120 MWh", Dimension.ENERGY, 120e6 * 3600),
    ("95%", Dimension.FRACTION, 0.95),
    ("0.95", Dimension.FRACTION, 0.95),
    ("1.85 GHz", Dimension.FREQUENCY, 1.85e9),
    ("2500 images/s", Dimension.RATE, 2500),
    ("540 g/kWh", Dimension.CARBON, 1.5e-7),
    ("-1.5", Dimension.NUMBER, -1.5),
    (".5", Dimension.NUMBER, 0.5),
]

REFUSED = [
    ("1:30", Dimension.TIME, "base 60"),
    ("1:30", Dimension.NUMBER, "base 60"),
    ("010", Dimension.NUMBER, "leading zero"),
    ("80,000", Dimension.COUNT, "comma"),
    (True, Dimension.COUNT, "true is not a count"),
    (False, Dimension.NUMBER, "false is not a number"),
    ("on", Dimension.NUMBER, "is not a number"),
    ("", Dimension.NUMBER, "is not a number"),
    (None, Dimension.BYTES, "found nothing"),
    ([1], Dimension.BYTES, "found a list"),
    ("64 G", Dimension.BYTES, "ambiguous"),
    ("64 Gb", Dimension.BYTES, "ambiguous"),
    ("64gb", Dimension.BYTES, "ambiguous"),
    ("25 gb/s", Dimension.BANDWIDTH, "ambiguous"),
    ("25 G", Dimension.BANDWIDTH, "ambiguous"),
    ("16 GT/s", Dimension.BANDWIDTH, "ambiguous"),
    ("25 GB", Dimension.BANDWIDTH, "ambiguous"),
    ("10 m", Dimension.TIME, "ambiguous"),
    ("3 months", Dimension.TIME, "ambiguous"),
    ("25 GB/s", Dimension.BYTES, "unknown unit"),
    ("64 gib", Dimension.BYTES, "unknown unit"),
    ("5 kg", Dimension.POWER, "unknown unit"),
    ("80 %", Dimension.COUNT, "is not a count"),
    ("0x10", Dimension.NUMBER, "is not a number"),
    ("1e999", Dimension.NUMBER, "finite"),
    (math.inf, Dimension.NUMBER, "finite"),
    (math.nan, Dimension.NUMBER, "finite"),
    (10**400, Dimension.NUMBER, "finite"),
    ("٣", Dimension.NUMBER, "is not a number"),
    ("1__000", Dimension.NUMBER, "is not a number"),
    ("9" * 200, Dimension.NUMBER, "is not a number"),
]


@pytest.mark.parametrize(("text", "dimension", "expected"), ACCEPTED)
def test_accepted_quantity_is_the_nearest_double_in_si(text: object, dimension: Dimension, expected: float) -> None:
    assert parse(text, dimension) == expected


@pytest.mark.parametrize(("text", "dimension", "words"), REFUSED)
def test_refused_quantity_says_why(text: object, dimension: Dimension, words: str) -> None:
    with pytest.raises(UnitError, match=words):
        parse(text, dimension)


def test_decimal_and_binary_prefixes_differ() -> None:
    assert parse("64 GiB", Dimension.BYTES) / parse("64 GB", Dimension.BYTES) == pytest.approx(1.073741824, rel=1e-15)


def test_refusal_suggests_the_spelling_that_works() -> None:
    with pytest.raises(UnitError) as caught:
        parse("64 gib", Dimension.BYTES)
    assert caught.value.suggestion == "64 GiB"
    with pytest.raises(UnitError) as caught:
        parse("80,000", Dimension.COUNT)
    assert caught.value.suggestion == "80_000"


@pytest.mark.parametrize(("value", "expected"), [("80B", 80_000_000_000), (8.0, 8), (2**62, 2**62), ("1e3", 1000)])
def test_count_is_a_whole_number(value: object, expected: int) -> None:
    result = parse_count(value)
    assert (result, type(result)) == (expected, int)


@pytest.mark.parametrize("value", [8.5, "1.5", 1e30, 2**63, True, "8.5k5"])
def test_count_refuses_fractions_overflow_and_booleans(value: object) -> None:
    with pytest.raises(UnitError):
        parse_count(value)


FORMATS = [
    (units.format_bytes, Dimension.BYTES),
    (units.format_bandwidth, Dimension.BANDWIDTH),
    (units.format_time, Dimension.TIME),
    (units.format_count, Dimension.COUNT),
    (units.format_flops, Dimension.FLOPS),
    (units.format_flop_rate, Dimension.FLOP_RATE),
    (units.format_power, Dimension.POWER),
    (units.format_energy, Dimension.ENERGY),
    (units.format_fraction, Dimension.FRACTION),
    (units.format_number, Dimension.NUMBER),
]


@pytest.mark.parametrize(("format_text", "dimension"), FORMATS)
@given(value=st.floats(min_value=0, max_value=1e22, allow_subnormal=False))
def test_formatted_text_reads_back_as_the_same_quantity(format_text, dimension, value) -> None:
    four = parse(format_text(value, 4), dimension)
    exact = parse(format_text(value, 17), dimension)
    assert four == pytest.approx(value, rel=1e-3, abs=0)
    assert exact == pytest.approx(value, rel=1e-15, abs=0)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (units.format_bytes(60.97 * 2**30), "60.97 GiB"),
        (units.format_bytes(0), "0 B"),
        (units.format_bandwidth(25e9), "25 GB/s"),
        (units.format_time(28 * 86400), "28 d"),
        (units.format_time(5e-6), "5 us"),
        (units.format_count(80e9), "80B"),
        (units.format_count(4096), "4096"),
        (units.format_flop_rate(313e12), "313 TFLOP/s"),
        (units.format_energy(120e6 * 3600), "120 MWh"),
        (units.format_fraction(0.95), "95%"),
    ],
)
def test_formatted_text_is_what_people_write(text: str, expected: str) -> None:
    assert text == expected


@given(st.one_of(st.text(max_size=30), st.integers(), st.floats(), st.booleans(), st.none(), st.lists(st.integers())))
def test_any_value_is_a_finite_number_or_a_unit_error(value: object) -> None:
    for dimension in Dimension:
        try:
            result = parse(value, dimension)
        except UnitError:
            continue
        assert math.isfinite(result)


@given(st.integers(min_value=-(10**15), max_value=10**15))
def test_underscores_do_not_change_a_number(value: int) -> None:
    assert parse_number(f"{value:_}") == value
