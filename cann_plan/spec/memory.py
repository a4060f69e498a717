"""`memory:` the device allocator and what it leaves free."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from pydantic import StrictBool

from cann_plan.spec.base import Section, key
from cann_plan.spec.quantity import GiB, MiB

Pool = Literal["caching", "unified"]


class MemorySpec(Section):
    """Device allocator: the pool alone, or a mapping."""

    accepts: ClassVar = ("pool",)

    pool: Pool | None = key("caching: one allocator per device; unified: one pool shared by host and devices")
    expandable_segments: StrictBool | None = key("segments grow by virtual memory, which avoids most fragmentation")
    pool_gib: GiB | None = key("upper bound of the framework's pool on one device", unit="GiB")
    communicator_buffer_mib: MiB | None = key("buffer of one direction of one communicator (HCCL_BUFFSIZE)", unit="MiB")

    @classmethod
    def _shorthand(cls, data: Any) -> Any:
        return {"pool": data} if isinstance(data, str) else data

    @property
    def pool_bytes(self) -> float | None:
        """`pool_gib` in bytes."""
        return None if self.pool_gib is None else self.pool_gib * 2.0**30

    @property
    def communicator_buffer_bytes(self) -> float | None:
        """`communicator_buffer_mib` in bytes."""
        return None if self.communicator_buffer_mib is None else self.communicator_buffer_mib * 2.0**20
