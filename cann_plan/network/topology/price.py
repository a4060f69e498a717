"""Price and power of a network's parts from a table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

from pydantic import Field, model_validator

from cann_plan.network.topology.components import COPPER, Components
from cann_plan.records import dataclass
from cann_plan.spec import presets
from cann_plan.spec.base import Section, key
from cann_plan.spec.device import expand_sources, unstated
from cann_plan.spec.document import parse_bytes, read
from cann_plan.spec.errors import SpecError
from cann_plan.spec.node import Node, Source
from cann_plan.spec.quantity import Figure, Name, PositiveNumber
from cann_plan.spec.validation import validate

PRICES_SCHEMA: Final = "cann-plan/network-prices/1"
GIGA: Final = 1e9


class PartPrice(Section):
    """Price and power of one kind of part: per piece where stated, else per GB/s in one direction."""

    per_gb_s: Figure[PositiveNumber] = unstated(Figure[PositiveNumber], "price per GB/s")
    each: Figure[PositiveNumber] = unstated(Figure[PositiveNumber], "price of one piece")
    watts_per_gb_s: Figure[PositiveNumber] = unstated(Figure[PositiveNumber], "power per GB/s [W]")
    watts_each: Figure[PositiveNumber] = unstated(Figure[PositiveNumber], "power of one piece [W]")


def _part(description: str) -> PartPrice:
    return Field(default_factory=PartPrice.model_construct, description=description)


class NetworkPrices(Section):
    """Prices of adapters, switch ports and cables."""

    schema_id: Literal["cann-plan/network-prices/1"] = Field(PRICES_SCHEMA, alias="schema")
    name: Name = "prices"
    currency: Name = "USD"
    adapter: PartPrice = _part("endpoint port")
    switch_port: PartPrice = _part("port of a switch")
    copper_cable: PartPrice = _part("cable inside a rack")
    optical_cable: PartPrice = _part("cable between racks, transceivers included")
    note: Name | None = key("remark")
    sources: Mapping[str, Name] = Field({}, description="short keys used in `source` and what they stand for")

    @model_validator(mode="before")
    @classmethod
    def _expand(cls, data: object) -> object:
        return expand_sources(data)


@dataclass(frozen=True, slots=True)
class Total:
    """A sum over all parts, or None with the reason; `by_part` holds what is known."""

    amount: float | None
    reason: str | None
    by_part: dict[str, float]


def load_prices(path: str | None = None) -> NetworkPrices:
    """The price table of a file ("-": standard input), or the shipped one.

    Raises:
        SpecError: located problems of the file.
    """
    spec, problems = validate(NetworkPrices, _shipped() if path is None else read(path))
    if problems or spec is None:
        raise SpecError(problems)
    return spec


def _shipped() -> Node:
    file = presets.root().joinpath("topologies", "prices.yaml")
    return parse_bytes(file.read_bytes(), Source("presets/topologies/prices.yaml"))


def price_of(parts: Components, injection: float, prices: NetworkPrices) -> Total:
    """Price of all parts; `injection`: bytes/s that an endpoint of the components injects."""
    return _total(parts, injection, prices, "each", "per_gb_s", "no price is known")


def power_of(parts: Components, injection: float, prices: NetworkPrices) -> Total:
    """Watts of all parts; `injection`: bytes/s that an endpoint of the components injects."""
    return _total(parts, injection, prices, "watts_each", "watts_per_gb_s", "no source states the power")


def _total(parts: Components, injection: float, prices: NetworkPrices, each: str, rate: str, missing: str) -> Total:
    amounts: dict[str, float] = {}
    unknown: list[str] = []
    for name, pieces, gb_s in _pieces(parts, injection / GIGA):
        if pieces == 0:
            continue
        part: PartPrice = getattr(prices, name)
        piece, per = getattr(part, each).value, getattr(part, rate).value
        if piece is not None:
            amounts[name] = float(piece) * pieces
        elif per is not None:
            amounts[name] = float(per) * gb_s
        else:
            unknown.append(name)
    if unknown:
        words = ", ".join(name.replace("_", " ") + "s" for name in unknown)
        return Total(None, f"{missing} for {words} (table {prices.name})", amounts)
    return Total(sum(amounts.values()), None, amounts)


def _pieces(parts: Components, injection: float) -> list[tuple[str, float, float]]:
    """(part, pieces, GB/s of all pieces together)."""
    cables = {"copper_cable": [0.0, 0.0], "optical_cable": [0.0, 0.0]}
    for item in parts.cables:
        entry = cables["copper_cable" if item.kind == COPPER else "optical_cable"]
        entry[0] += item.count
        entry[1] += item.count * item.capacity * injection
    ports = parts.switch_ports
    access = [item for item in parts.cables if item.access]
    adapters = sum(item.count for item in access) or parts.endpoints
    return [
        ("adapter", float(adapters), parts.endpoints * injection),
        ("switch_port", float(ports), ports * parts.port_capacity * injection),
        *((name, count, gb_s) for name, (count, gb_s) in cables.items()),
    ]
