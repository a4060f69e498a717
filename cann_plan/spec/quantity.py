"""Types of the values in a document: quantities with units, counts, names, and sourced figures.

A `Quantity` accepts a bare number (in the unit named by the key, else SI) or text with a unit, and yields a float (or
int) in that same unit. Refusals carry `allowed` and `suggestion`, which `spec.errors` turns into located problems.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Generic, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, GetCoreSchemaHandler, GetJsonSchemaHandler, model_validator
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from cann_plan.records import dataclass
from cann_plan.units import Dimension, UnitError, accepted, is_bare_number, parse, parse_count

UNKNOWN: Final = "unknown"
MAX_NAME: Final = 4096  # characters of any text in a document


def refuse(message: str, allowed: str | None = None, suggestion: str | None = None) -> PydanticCustomError:
    """An error to raise inside a validator; its parts end up in the located problem."""
    return PydanticCustomError(
        "refused", "{message}", {"message": message, "allowed": allowed, "suggestion": suggestion}
    )


@dataclass(frozen=True, slots=True)
class Quantity:
    """Annotation of a numeric field: dimension, unit and bounds.

    `unit` is the unit of the stored value and of bare numbers, `scale` its size in SI; `minimum` and `maximum` are in
    `unit`. `bare_minimum`: a bare number below it is taken for a forgotten unit and refused.
    """

    dimension: Dimension
    unit: str = ""
    scale: float = 1.0
    whole: bool = False
    minimum: float | None = None
    above: float | None = None
    maximum: float | None = None
    bare_minimum: float | None = None
    example: str = ""
    words: tuple[str, ...] = ()  # words accepted besides a number, kept as they are

    def convert(self, value: object) -> float | str:
        """`value` in `unit`, or one of `words`; raises PydanticCustomError."""
        if isinstance(value, str) and value in self.words:
            return value
        try:
            number = self._number(value)
        except UnitError as error:
            allowed = self._accepted() if error.allowed == accepted(self.dimension) else error.allowed
            if self.words and allowed:
                allowed = " or ".join((*self.words, allowed))
            raise refuse(error.message, allowed, error.suggestion) from None
        if (self.minimum is not None and number < self.minimum) or (self.above is not None and number <= self.above):
            raise refuse(f"{_show(value)} is too small", self._range())
        if self.maximum is not None and number > self.maximum:
            percent = self.dimension is Dimension.FRACTION and number <= 100
            raise refuse(f"{_show(value)} is too large", self._range(), f"{number:g}%" if percent else None)
        return number

    def _number(self, value: object) -> float:
        if self.whole:
            return parse_count(value)
        if isinstance(value, str) and not is_bare_number(value):
            return parse(value, self.dimension) / self.scale
        number = parse(value, self.dimension)
        if self.bare_minimum is not None and 0 < number < self.bare_minimum:
            raise UnitError(f"{_show(value)} {self.unit} is implausibly small: is a unit missing?", self._with_unit())
        return number

    def _accepted(self) -> str:
        if self.whole and not self.example:
            return self._range()
        if self.unit:
            return f"{self._with_unit()}; a bare number is in {self.unit}"
        return accepted(self.dimension)

    def _with_unit(self) -> str:
        return f"a number with a unit, for example {self.example}"

    def _range(self) -> str:
        unit = f" {self.unit}" if self.unit else ""
        kind = "whole number" if self.whole else "number"
        low = f"{self.minimum:g}" if self.minimum is not None else None
        if self.above is not None:
            start = f"a {kind} above {self.above:g}{unit}"
            return start if self.maximum is None else f"{start}, at most {self.maximum:g}{unit}"
        if self.maximum is None:
            return f"a {kind} of at least {low}{unit}"
        return f"a {kind} from {low} to {self.maximum:g}{unit}" if low else f"a {kind} up to {self.maximum:g}{unit}"

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(self.convert)

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        number: dict[str, Any] = {"type": "number"}
        if self.minimum is not None:
            number["minimum"] = self.minimum
        if self.above is not None:
            number["exclusiveMinimum"] = self.above
        if self.maximum is not None:
            number["maximum"] = self.maximum
        text: dict[str, Any] = {"type": "string", "pattern": r"^\s*[+-]?[0-9.]"}
        if self.example:
            text["examples"] = [self.example]
        result: JsonSchemaValue = {"anyOf": [number, text, *({"const": word} for word in self.words)]}
        if self.unit:
            result["x-unit"] = self.unit
        return result


def _show(value: object) -> str:
    return value.strip()[:80] if isinstance(value, str) else str(value)[:80]


D = Dimension
Number = Annotated[float, Quantity(D.NUMBER)]
PositiveNumber = Annotated[float, Quantity(D.NUMBER, above=0)]
NonNegativeNumber = Annotated[float, Quantity(D.NUMBER, minimum=0)]
AtLeastOne = Annotated[float, Quantity(D.NUMBER, minimum=1)]
Fraction = Annotated[float, Quantity(D.FRACTION, minimum=0, maximum=1, example="95%")]
PositiveFraction = Annotated[float, Quantity(D.FRACTION, above=0, maximum=1, example="95%")]
Count = Annotated[int, Quantity(D.COUNT, whole=True, minimum=0, example="80B")]
PositiveInt = Annotated[int, Quantity(D.COUNT, whole=True, minimum=1)]
NonNegativeInt = Annotated[int, Quantity(D.COUNT, whole=True, minimum=0)]
Money = Annotated[float, Quantity(D.NUMBER, minimum=0)]

# SI quantities
Bytes = Annotated[float, Quantity(D.BYTES, "B", minimum=0, example="64 GiB")]
MemorySize = Annotated[float, Quantity(D.BYTES, "B", minimum=0, bare_minimum=2.0**20, example="64 GiB")]
BytesPerSecond = Annotated[float, Quantity(D.BANDWIDTH, "B/s", above=0, bare_minimum=1e6, example="25 GB/s")]
Seconds = Annotated[float, Quantity(D.TIME, "s", minimum=0, example="30 min")]
Flops = Annotated[float, Quantity(D.FLOPS, "FLOP", minimum=0, example="3.1e23 FLOP")]
FlopsPerSecond = Annotated[float, Quantity(D.FLOP_RATE, "FLOP/s", above=0, bare_minimum=1e9, example="313 TFLOP/s")]
Watts = Annotated[float, Quantity(D.POWER, "W", minimum=0, example="350 W")]
Joules = Annotated[float, Quantity(D.ENERGY, "J", minimum=0, example="120 MWh")]
Hertz = Annotated[float, Quantity(D.FREQUENCY, "Hz", above=0, bare_minimum=1e3, example="1.85 GHz")]
PerSecond = Annotated[float, Quantity(D.RATE, "1/s", minimum=0, example="2500/s")]

# quantities whose key names another unit: `pool_gib: 58` and `pool_gib: 58 GiB` are the same
GiB = Annotated[float, Quantity(D.BYTES, "GiB", 2.0**30, minimum=0, example="58 GiB")]
MiB = Annotated[float, Quantity(D.BYTES, "MiB", 2.0**20, minimum=0, example="200 MiB")]
Hours = Annotated[float, Quantity(D.TIME, "h", 3600.0, above=0, example="12 h")]
Days = Annotated[float, Quantity(D.TIME, "d", 86400.0, above=0, example="28 d")]
KilowattHours = Annotated[float, Quantity(D.ENERGY, "kWh", 3.6e6, minimum=0, example="120 MWh")]
GramsPerKilowattHour = Annotated[float, Quantity(D.CARBON, "g/kWh", 1e-3 / 3.6e6, minimum=0, example="540 g/kWh")]


@dataclass(frozen=True, slots=True)
class _Text:
    """Annotation of a text field; a number or boolean where a name is meant is refused."""

    def convert(self, value: object) -> str:
        if not isinstance(value, str) or not value.strip() or len(value) > MAX_NAME:
            raise refuse(f"{_show(value)!r} is not a name" if not isinstance(value, dict | list) else "expected a name")
        return value.strip()

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(self.convert)

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return {"type": "string", "minLength": 1}


Name = Annotated[str, _Text()]

T = TypeVar("T")


class Figure(BaseModel, Generic[T]):
    """A figure with its source: a bare value, `{value, source, note}`, or `unknown` (then `value` is None)."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    value: T | None = None
    source: Name | None = None
    note: Name | None = None

    @property
    def known(self) -> bool:
        """Whether somebody states the figure."""
        return self.value is not None

    @model_validator(mode="before")
    @classmethod
    def _wrap(cls, data: object) -> object:
        if isinstance(data, Figure):
            return data
        if data is None or data == UNKNOWN:
            return {"value": None}
        if not isinstance(data, dict):
            return {"value": data}
        if "value" not in data:
            raise refuse("a figure needs `value`", "a bare value, {value, source, note} or unknown")
        return data | {"value": None} if data["value"] == UNKNOWN else data


DataType = Literal["fp32", "tf32", "bf16", "fp16", "fp8", "mxfp8", "hif8", "int8", "fp4", "mxfp4", "nvfp4", "int4"]
