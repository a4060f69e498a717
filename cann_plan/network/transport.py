"""How messages leave a server: RDMA straight from device memory, or TCP through the kernel and host memory.

Sources:
[1] Cai et al., Understanding Host Network Stack Overheads, SIGCOMM 2021: with all optimisations one core moves about
    42 Gbit/s of TCP, limited by the copy from kernel to application at the receiver; several cores fill 100 Gbit/s.
[2] kentino.com, Latency dissection (public article): kernel TCP/IP 10 to 30 us one way, RDMA verbs below 1 us.
[3] NVIDIA NCCL environment variables: 4 socket threads for 100 Gbit/s adapters (NCCL_SOCKET_NTHREADS).
[4] ib_write_bw on EFA 193.7 of 200 Gbit/s (stas00/ml-engineering @744d01e network/README.md); ConnectX-6 23.5 of 25,
    ConnectX-7 48.5 of 50 GB/s (SimAI).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from cann_plan.network.levels import Level, Network
from cann_plan.network.nccl import NODE_CLASS_BANDWIDTH
from cann_plan.records import dataclass

TRANSPORTS: Final = ("rdma", "tcp")

TCP_BYTES_PER_CORE: Final = 42e9 / 8.0
"""Bytes/s of TCP one core receives [1]."""

TCP_CORES: Final = 4.0
"""Cores that serve the sockets of one device's adapter at the receiver where nothing is stated [3]."""

TCP_LATENCY: Final = 20e-6
"""Seconds the kernel adds to a message one way, middle of 10 to 30 us [2]."""

RDMA_LINE_FRACTION: Final = 0.97
"""Share of the line rate one-sided RDMA writes reach (0.94 to 0.97) [4]; collectives reach less, see `efficiency`."""


TCP_FRAMING: Final = 1448.0 / 1538.0
"""Payload over bytes on the wire of full frames at an MTU of 1500 (IEEE 802.3 preamble, gap and headers counted)."""


def point_to_point_fraction(transport: str, line_rate: float, cores: float = TCP_CORES) -> float:
    """Share of the line rate (bytes/s) large point-to-point transfers reach with either transport.

    Raises ValueError for an unknown transport.
    """
    if transport not in TRANSPORTS:
        raise ValueError(f"unknown transport {transport!r}; allowed: {', '.join(TRANSPORTS)}")
    if transport == "rdma":
        return RDMA_LINE_FRACTION
    return min(TCP_FRAMING, cores * TCP_BYTES_PER_CORE / line_rate)


@dataclass(frozen=True, slots=True)
class TransportUse:
    """What a transport does to one network level.

    Attributes:
        level: name of the level.
        rate: bytes/s per device and direction that large collectives reach.
        line_fraction: that rate over the nominal line rate.
        latency: seconds per message, library software excluded.
        cores: host cores per device that move the data at that rate, sender and receiver together.
    """

    level: str
    rate: float
    line_fraction: float
    latency: float
    cores: float


def leaves_server(network: Network, index: int) -> bool:
    """Whether messages on this level pass an adapter: outside the node and no memory-semantic fabric."""
    return index >= network.node_levels and network.levels[index].bandwidth <= NODE_CLASS_BANDWIDTH


def with_transport(
    network: Network, transport: str, cores: float = TCP_CORES, default_efficiency: float = 0.85
) -> Network:
    """The network with `transport` on every level that leaves a server; RDMA is what levels describe, so unchanged.

    TCP: point-to-point at most cores x 42 Gbit/s and what framing leaves, and a collective keeps the share of it that
    it keeps of RDMA's point-to-point rate; 20 us more per message. Raises ValueError for an unknown transport.
    """
    if transport not in TRANSPORTS:
        raise ValueError(f"unknown transport {transport!r}; allowed: {', '.join(TRANSPORTS)}")
    if transport == "rdma":
        return network
    levels = (
        _over_tcp(level, cores, default_efficiency) if leaves_server(network, index) else level
        for index, level in enumerate(network.levels)
    )
    return network.with_levels(levels)


def _over_tcp(level: Level, cores: float, default_efficiency: float) -> Level:
    efficiency = default_efficiency if level.efficiency is None else level.efficiency
    kept = point_to_point_fraction("tcp", level.bandwidth, cores) / RDMA_LINE_FRACTION
    return replace(level, efficiency=efficiency * kept, latency=level.latency + TCP_LATENCY)


def transport_uses(
    network: Network, transport: str, cores: float = TCP_CORES, default_efficiency: float = 0.85
) -> tuple[TransportUse, ...]:
    """Rate, share of the line, latency and host cores of each level that leaves a server, innermost first."""
    resolved = with_transport(network, transport, cores, default_efficiency)
    uses = []
    for index, level in enumerate(resolved.levels):
        if not leaves_server(network, index):
            continue
        fraction = 1.0 if level.efficiency is None else level.efficiency
        rate = level.bandwidth * fraction
        busy = 2.0 * rate / TCP_BYTES_PER_CORE if transport == "tcp" else 0.0
        uses.append(TransportUse(level.name, rate, fraction, level.latency, busy))
    return tuple(uses)
