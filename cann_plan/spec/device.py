"""An accelerator as frameworks count it: dense peaks, memory, host link, power, price, each figure with its source."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal, TypeVar

from pydantic import BaseModel, Field, model_validator

from cann_plan.spec.base import Section, key
from cann_plan.spec.quantity import (
    BytesPerSecond,
    DataType,
    Figure,
    FlopsPerSecond,
    MemorySize,
    Money,
    Name,
    PositiveInt,
    Watts,
    refuse,
)

DEVICE_SCHEMA: Final = "cann-plan/device/1"
CountUnit = Literal["die", "package"]
Family = Literal[
    "ascend-910a", "ascend-a2", "ascend-a3", "ascend-a5", "volta", "turing", "ampere", "ada", "hopper", "blackwell",
    "cdna2", "cdna3", "cdna4", "tpu-v3", "tpu-v4", "tpu-v5", "tpu-v6", "tpu-v7", "gaudi", "other",
]  # fmt: skip

# Block-scaled and vendor formats that run at the rate of the plain format, on the families that scale them in hardware.
_SCALED_FORMATS: Final[Mapping[str, tuple[str, frozenset[str]]]] = {
    "mxfp8": ("fp8", frozenset({"blackwell", "cdna4", "ascend-a5"})),
    "hif8": ("fp8", frozenset({"ascend-a5"})),
    "mxfp4": ("fp4", frozenset({"blackwell", "cdna4", "ascend-a5"})),
    "nvfp4": ("fp4", frozenset({"blackwell"})),
}
# Product generation whose collective-library constants apply.
_GENERATIONS: Final[Mapping[str, str]] = {
    "ascend-910a": "910a",
    "ascend-a2": "a2",
    "ascend-a3": "a3",
    "ascend-a5": "950",
    "volta": "volta",
    "ampere": "ampere",
    "ada": "ampere",
    "hopper": "hopper",
    "blackwell": "blackwell",
    "cdna2": "mi300",
    "cdna3": "mi300",
    "cdna4": "mi300",
}

T = TypeVar("T")
F = TypeVar("F", bound=BaseModel)


class UnknownFigureError(ValueError):
    """A figure that a computation needs and that no source states."""

    def __init__(self, owner: str, path: str, note: str | None = None) -> None:
        super().__init__(f"{owner}: {path} is unknown{f' ({note})' if note else ''}: state it in the plan")
        self.owner = owner
        self.path = path


class UnsupportedDataTypeError(ValueError):
    """The device does not compute in this data type, or no source states its dense peak."""

    def __init__(self, device: str, dtype: str, reason: str, known: tuple[str, ...]) -> None:
        super().__init__(f"{device} does not compute {dtype}: {reason}")
        self.device = device
        self.dtype = dtype
        self.reason = reason
        self.allowed = known


def unstated(kind: type[F], description: str) -> Any:
    """A key that holds a figure; unknown when not stated."""
    return Field(default_factory=kind.model_construct, description=description)


def need(figure: Figure[T], owner: str, path: str) -> T:
    """The value of `figure`. Raises UnknownFigureError where no source states it."""
    if figure.value is None:
        raise UnknownFigureError(owner, path, figure.note)
    return figure.value


def expand_sources(data: object) -> object:
    """Replace the short keys in every `source` by the texts of the document's `sources` (several keys: "a; b")."""
    if not isinstance(data, dict) or not isinstance(data.get("sources"), dict):
        return data
    table: dict[str, Any] = data["sources"]

    def expand(node: object) -> object:
        if isinstance(node, dict):
            return {k: text(v) if k == "source" and isinstance(v, str) else expand(v) for k, v in node.items()}
        if isinstance(node, list):
            return [expand(item) for item in node]
        return node

    def text(source: str) -> str:
        return "; ".join(str(table.get(part, part)) for part in source.split("; "))

    return {k: v if k == "sources" else expand(v) for k, v in data.items()}


class Price(Section):
    """Money per device (as frameworks count it) and hour."""

    value: Money = Field(description="amount per device-hour")
    currency: Name = Field("USD", description="ISO 4217 code")
    source: Name | None = key("who states it")
    note: Name | None = key("remark")


class DeviceMemory(Section):
    """Device memory: what the label says and what a framework can see of it."""

    capacity: Figure[MemorySize] = unstated(Figure[MemorySize], "nominal capacity [B]")
    visible: Figure[MemorySize] = unstated(Figure[MemorySize], "what the framework reports as total [B]")
    bandwidth: Figure[BytesPerSecond] = unstated(Figure[BytesPerSecond], "nominal bandwidth of the device memory [B/s]")


class HostLink(Section):
    """Link between the device and host memory, one direction."""

    kind: Name | None = key("for example PCIe 4.0 x16")
    bandwidth: Figure[BytesPerSecond] = unstated(Figure[BytesPerSecond], "one direction, per device [B/s]")


class OperatorFit(Section):
    """Which operator constants apply."""

    family: Name = Field("generic", description="operator preset")
    inherited: bool = Field(False, description="no measurements of this device: fractions of another device's peaks")
    note: Name | None = key("which device the constants come from")


class DeviceSpec(Section):
    """One accelerator as frameworks count it (one die of a two-die package where they count dies).

    Peaks are dense: no figure counts structured sparsity. A data type that is neither in `peak` nor in `unsupported`
    has no stated rate and is refused like an unsupported one.
    """

    schema_id: Literal["cann-plan/device/1"] = Field(DEVICE_SCHEMA, alias="schema")
    name: Name
    aliases: tuple[Name, ...] = ()
    vendor: Name | None = key("who makes it")
    kind: Literal["npu", "gpu", "tpu", "gaudi", "other"] = "other"
    family: Family = Field("other", description="architecture family")
    generation: Name | None = key("product generation in words")
    count_unit: CountUnit = Field("package", description="what frameworks count as one device")
    dies_per_package: PositiveInt = 1
    peak: Mapping[DataType, Figure[FlopsPerSecond]] = Field({}, description="dense peak of the matrix unit [FLOP/s]")
    unsupported: Mapping[DataType, Name] = Field({}, description="data types that are refused, with the reason")
    vector: Mapping[DataType, Figure[FlopsPerSecond]] = Field({}, description="peak of the vector unit [FLOP/s]")
    memory: DeviceMemory = Field(default_factory=DeviceMemory.model_construct)
    runtime_memory: Figure[MemorySize] = unstated(
        Figure[MemorySize], "context and runtime outside the allocator, without communicators [B]"
    )
    host_link: HostLink = Field(default_factory=HostLink.model_construct)
    power: Figure[Watts] = unstated(Figure[Watts], "rated power of the device alone [W]")
    price_per_hour: Price | None = key("price of one device for an hour")
    operators: OperatorFit = Field(default_factory=OperatorFit.model_construct)
    assumptions: tuple[Name, ...] = Field((), description="what the output must say about this device")
    note: Name | None = key("remark")
    sources: Mapping[str, Name] = Field({}, description="short keys used in `source` and what they stand for")

    @model_validator(mode="before")
    @classmethod
    def _expand(cls, data: object) -> object:
        return expand_sources(data)

    @model_validator(mode="after")
    def _consistent(self) -> DeviceSpec:
        capacity, visible = self.memory.capacity.value, self.memory.visible.value
        if capacity is not None and visible is not None and visible > capacity:
            raise refuse("memory.visible is larger than memory.capacity")
        both = sorted(t for t in self.unsupported if t in self.peak)
        if both:
            raise refuse(f"{both[0]} has a peak and is listed as unsupported")
        return self

    def _plain(self, dtype: str) -> str:
        plain, families = _SCALED_FORMATS.get(dtype, (dtype, frozenset[str]()))
        return plain if plain == dtype or self.family in families else dtype

    def peak_figure(self, dtype: str) -> Figure[FlopsPerSecond]:
        """Dense peak of `dtype` with its source. Raises UnsupportedDataTypeError with the reason."""
        plain: Any = self._plain(dtype)
        figure = self.peak.get(plain)
        if figure is not None and figure.known:
            return figure
        if plain in self.unsupported:
            reason = self.unsupported[plain]
        elif dtype in _SCALED_FORMATS and plain == dtype:
            reason = f"{dtype} blocks are not scaled in hardware on {self.family}"
        else:
            note = f" ({figure.note})" if figure is not None and figure.note else ""
            reason = f"no source states its dense {dtype} rate{note}"
        raise UnsupportedDataTypeError(self.name, dtype, reason, tuple(self.known_peaks))

    def peak_flops(self, dtype: str) -> float:
        """Dense peak in FLOP/s. Raises UnsupportedDataTypeError with the reason."""
        return need(self.peak_figure(dtype), self.name, f"peak.{dtype}")

    @property
    def known_peaks(self) -> dict[str, float]:
        """Dense peaks in FLOP/s of every data type that has one, block-scaled formats included."""
        plain: dict[str, float] = {t: f.value for t, f in self.peak.items() if f.value is not None}
        scaled = {t: plain[p] for t, (p, families) in _SCALED_FORMATS.items() if p in plain and self.family in families}
        return plain | scaled

    @property
    def known_vector_peaks(self) -> dict[str, float]:
        """Peaks of the vector unit in FLOP/s that somebody states."""
        return {t: f.value for t, f in self.vector.items() if f.value is not None}

    @property
    def network_generation(self) -> str:
        """Product generation whose collective-library constants apply ("" = none)."""
        return _GENERATIONS.get(self.family, "")

    @property
    def memory_only(self) -> bool:
        """Whether no peak is stated, so that only memory verdicts are possible."""
        return not self.known_peaks

    def memory_bandwidth(self) -> float:
        """Device memory bandwidth in bytes/s. Raises UnknownFigureError."""
        return need(self.memory.bandwidth, self.name, "memory.bandwidth")

    def visible_memory(self) -> float:
        """Bytes a framework sees; the nominal capacity where no source states it. Raises UnknownFigureError."""
        if self.memory.visible.value is not None:
            return self.memory.visible.value
        return need(self.memory.capacity, self.name, "memory.capacity")

    def assumed(self) -> tuple[str, ...]:
        """What the output must say: stated assumptions, inherited operators, nominal instead of visible memory."""
        said = list(self.assumptions)
        if self.operators.inherited and self.operators.note and not any("operator" in text for text in said):
            said.append(self.operators.note)
        if self.memory.visible.value is None:
            said.append(f"capacity visible to a framework on {self.name} is not stated: the nominal one is taken")
        return tuple(said)
