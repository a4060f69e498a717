"""The unit of a contract value, read from the end of its key."""

# Longest ending first.
_ENDINGS = (
    ("tokens_per_s_per_device", "tokens/s/device"),
    ("tflops_per_device", "TFLOP/s per device"),
    ("tokens_per_s", "tokens/s"),
    ("samples_per_s", "samples/s"),
    ("gb_per_s", "GB/s"),
    ("per_token", "FLOP per token"),
    ("per_step", "FLOP per step"),
    ("device_hours", "device-hours"),
    ("kg_co2e", "kg CO2e"),
    ("kwh", "kWh"),
    ("_gib", "GiB"),
    ("days", "days"),
    ("mfu", "fraction"),
    ("hfu", "fraction"),
    ("goodput", "fraction"),
    ("_fraction", "fraction"),
    ("_s", "s"),
)


def unit_of(key: str) -> str | None:
    """The unit that `key` ends with, or None."""
    return next((unit for ending, unit in _ENDINGS if key.endswith(ending)), None)
