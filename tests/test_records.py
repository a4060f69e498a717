"""Records keep the semantics of the standard library's frozen slotted dataclasses."""

import copy
import dataclasses
import pickle
from dataclasses import field, replace

import pytest

from cann_plan.records import dataclass


@dataclass(frozen=True, slots=True)
class Point:
    """A record."""

    x: float
    y: float = 2.0
    tags: list[str] = field(default_factory=list)
    hidden: int = field(default=0, repr=False)

    @property
    def total(self) -> float:
        return self.x + self.y


@dataclass(frozen=True, slots=True)
class Checked(Point):
    """A record of a record, with a check."""

    z: float = 0.0

    def __post_init__(self) -> None:
        if self.z < 0.0:
            raise ValueError("z is negative")


@dataclasses.dataclass(frozen=True, slots=True)
class Standard:
    """The same fields, made by the standard library."""

    x: float
    y: float = 2.0
    tags: list[str] = field(default_factory=list)
    hidden: int = field(default=0, repr=False)


def test_fields_defaults_and_factories() -> None:
    first, second = Point(1.0), Point(1.0)
    assert (first.x, first.y, first.tags, first.total) == (1.0, 2.0, [], 3.0)
    assert first.tags is not second.tags
    assert [f.name for f in dataclasses.fields(Point)] == [f.name for f in dataclasses.fields(Standard)]
    assert dataclasses.asdict(first) == dataclasses.asdict(Standard(1.0))
    assert repr(first) == repr(Standard(1.0)).replace("Standard", "Point")


def test_equality_and_hash() -> None:
    assert Point(1.0) == Point(1.0)
    assert Point(1.0) != Point(2.0)
    assert Point(1.0) != Standard(1.0)
    assert hash(Point(1.0, 2.0, ())) == hash(Point(1.0, 2.0, ()))  # type: ignore[arg-type]


def test_immutable_and_slotted() -> None:
    point = Point(1.0)
    with pytest.raises(dataclasses.FrozenInstanceError):
        point.x = 3.0  # type: ignore[misc]
    with pytest.raises(dataclasses.FrozenInstanceError):
        del point.x
    assert not hasattr(point, "__dict__")


def test_arguments_are_those_of_the_fields() -> None:
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'x'"):
        Point()  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="unexpected keyword argument 'w'"):
        Point(1.0, w=2)  # type: ignore[call-arg]


def test_inheritance_checks_and_replace() -> None:
    checked = replace(Checked(1.0, z=3.0), y=5.0)
    assert (checked.x, checked.y, checked.z) == (1.0, 5.0, 3.0)
    with pytest.raises(ValueError, match="z is negative"):
        Checked(1.0, z=-1.0)


def test_copies_and_pickles() -> None:
    point = Point(1.0, tags=["a"])
    assert pickle.loads(pickle.dumps(point)) == point
    assert copy.deepcopy(point) == point


def test_patterns_match_by_position() -> None:
    match Point(1.0, 4.0):
        case Point(x, y):
            assert (x, y) == (1.0, 4.0)


def test_only_frozen_slotted_records() -> None:
    with pytest.raises(TypeError, match="frozen and slotted"):
        dataclass(frozen=False, slots=True)(Point)
