"""Topologies: seconds of a whole comparison, structural loads against the generic engine,
published effects beside ours.

    python benchmarks/topologies.py [--sizes 1024,16384,65536] [--runs 3] [--published]

Times are the best of `--runs` whole processes, beside one `cann-plan estimate` in the same minute: on a busy machine
the ratio says more than the seconds.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Callable, Sequence

import numpy as np

from cann_plan.network.groups import Group
from cann_plan.network.levels import Level
from cann_plan.network.topology.catalogue import build_fabric
from cann_plan.network.topology.components import Components
from cann_plan.network.topology.dragonfly import Dragonfly
from cann_plan.network.topology.ecmp import ecmp_loads
from cann_plan.network.topology.fat_tree import FatTree
from cann_plan.network.topology.graph_topology import twisted_torus
from cann_plan.network.topology.hyperx import HyperX
from cann_plan.network.topology.price import load_prices, price_of
from cann_plan.network.topology.shapes import fat_tree
from cann_plan.network.topology.table import TopologyTable
from cann_plan.network.topology.torus import Torus
from cann_plan.network.topology.traffic import Groups

EIGHT = "fat-tree,fat-tree-2to1,rail-optimised,dragonfly,torus-3d,torus-2d,hyperx,full-mesh-3d"
"""The eight networks of the speed target."""


def best_of(runs: int, action: Callable[[], object]) -> float:
    """Fewest seconds of `runs` calls."""
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        action()
        times.append(time.perf_counter() - start)
    return min(times)


def command(*arguments: str) -> None:
    code = "import sys; from cann_plan.cli.main import main; sys.exit(main(sys.argv[1:]))"
    subprocess.run([sys.executable, "-c", code, *arguments], check=True, stdout=subprocess.DEVNULL)


def processes(sizes: Sequence[int], runs: int) -> None:
    print("whole process, seconds (best of", f"{runs}) and times one estimate")
    base = best_of(runs, lambda: command("estimate", "llama-3-8b-h100", "-q"))
    print(f"  estimate llama-3-8b-h100                  {base:6.2f}")
    for size in sizes:
        for label, chosen in (("8 topologies", EIGHT), ("default set", None)):
            more = ["-t", chosen] if chosen else []
            spent = best_of(runs, lambda n=size, m=tuple(more): command("compare-topologies", "--devices", str(n), *m))
            print(f"  compare-topologies {size:>6} {label:14s} {spent:6.2f}  x{spent / base:.1f}")


def engines() -> None:
    print("\nuniform all-to-all, milliseconds: structure against generic engine")
    cases = (
        FatTree((8, 8, 16), (8, 64), (8, 64)), Dragonfly(4, 8, 4, 32), Torus((8, 8, 16)), HyperX((8, 8), 16, (2, 2)),
    )  # fmt: skip
    for topology in cases:
        everyone = Groups.everyone(topology.endpoints)
        structural = best_of(5, lambda t=topology, e=everyone: t.minimal(e))
        graph, flows = topology.graph(), everyone.flows()
        generic = best_of(1, lambda g=graph, f=flows: ecmp_loads(g, f))
        name = type(topology).__name__
        print(f"  {name:10s} {topology.endpoints:>5} {structural * 1e3:8.2f} {generic * 1e3:9.0f}")


def fabric_price(parts: Components) -> float:
    """Price without adapters: what published savings count."""
    total = price_of(parts, 200e9, load_prices()).by_part
    return sum(amount for name, amount in total.items() if name != "adapter")


def table_on(what: object, nodes: int, adapter: float, inside: float, library: str, **options: object) -> TopologyTable:
    server = Level("NVSwitch", "switch", 8, inside, 0.6e-6, 0.745, in_network_reduction=True)
    out = Level("adapter", "switch", nodes, adapter, 2.7e-6, 0.85)
    return TopologyTable((server,), out, build_fabric(what, nodes, 8), library, "hopper", **options)  # type: ignore[arg-type]


def published() -> None:
    print("\npublished effect | published | ours | why they differ")

    def line(*cells: object) -> None:
        print(" | ".join(str(cell) for cell in cells))

    for shape, measured in (((4, 4, 8), 1.63), ((4, 8, 8), 1.31)):
        everyone = Groups.everyone(int(np.prod(shape)))
        ratio = Torus(shape).minimal(everyone).hottest.worst / twisted_torus(shape).minimal(everyone).hottest.worst
        line(f"TPU v4, twisted {'x'.join(map(str, shape))}, all-to-all", f"x{measured} measured", f"x{ratio:.2f}",
             "loads are an upper bound; DMA and routing reach 93 to 94% of it")  # fmt: skip
    for nodes in (256, 2048, 8192):
        saving = 1 - fabric_price(build_fabric("rail-only", nodes, 8).parts) / fabric_price(
            build_fabric("rail-optimised", nodes, 8).parts
        )
        line(f"rail-only against rail-optimised, price, {nodes * 8} devices", "-38 to -77%", f"{-saving:.0%}",
             "radix 64: rails of up to 2,048 servers save one level; the paper has NVLink domains of 256")  # fmt: skip
    tree = fabric_price(fat_tree(16384, 1, 64).components())
    fly = fabric_price(Dragonfly(16, 32, 16, 32).components())
    butterfly = fabric_price(HyperX((8, 8, 16), 16, (2, 2, 1)).components())
    line("dragonfly against folded Clos, price, 16K", "-52%", f"{fly / tree - 1:.0%}",
         "the paper prices cables by length; here every cable of a kind costs the same per GB/s")  # fmt: skip
    line("dragonfly against flattened butterfly, price, 16K", "-20%", f"{fly / butterfly - 1:.0%}", "as above")
    mesh, clos = build_fabric("ub-mesh", 1024, 8), build_fabric("fat-tree", 1024, 8)
    optics = {f.name: sum(c.count * c.capacity for c in f.parts.cables if c.kind == "optical") for f in (mesh, clos)}
    line("UB-Mesh against Clos, switches, 8K", "-98%", f"{mesh.parts.switch_ports / clos.parts.switch_ports - 1:.0%}",
         "ports here, high-radix switches there; the ratio between pods is an assumption")  # fmt: skip
    line("UB-Mesh against Clos, optics, 8K", "-93%", f"{optics['ub-mesh'] / optics['fat-tree'] - 1:.0%}",
         "capacity here, modules there; racks of 8 servers in copper")  # fmt: skip
    prices = [price_of(fabric.parts, 200e9, load_prices()).amount or 0.0 for fabric in (clos, mesh)]
    line("UB-Mesh against Clos, price of the network, 8K", "CapEx 1/1.18 to 1/2.46", f"1/{prices[0] / prices[1]:.2f}",
         "networks alone here, whole systems there")  # fmt: skip
    size = 512 * 2.0**20
    rail = table_on("rail-optimised", 32, 50e9, 450e9, "nccl", routing="ecmp")
    flat = table_on("fat-tree", 32, 50e9, 450e9, "nccl", routing="ecmp")
    ratio = float(flat.seconds("all_reduce", size, 32, 8)[0] / rail.seconds("all_reduce", size, 32, 8)[0])
    line("rail-optimised against not, 256 GPUs, DP all-reduce 512 MiB", "x1.26 (SimAI ns-3)", f"x{ratio:.2f}",
         "hashed flows: 32 servers share a leaf by rail and cross spines otherwise")  # fmt: skip
    hashed = {
        pairs: table_on({"family": "fat-tree", "routing": "ecmp", "queue_pairs": pairs}, 16, 50e9, 450e9, "nccl")
        for pairs in (1, 16)
    }
    one, many = (float(hashed[pairs].seconds("all_reduce", 2.0**30, 16, 8)[0]) for pairs in (1, 16))
    ratio = one / many
    line("queue-pair scaling, 128 GPUs, all-reduce", "up to +40% (Meta RoCE)", f"+{ratio - 1:.0%}",
         "every flow hashed once, no retries; 16 flows per pair")  # fmt: skip
    near, far = (
        table_on("fat-tree-2to1", 1200, 50e9, 450e9, "nccl", placement=where).seconds("all_reduce", 2.0**30, 1200, 8)
        for where in ("compact", "random")
    )
    line("bad placement, 9,600 GPUs, collectives", "up to -17% (Arnold)", f"{float(near[0] / far[0]) - 1:.0%}",
         "fully random servers behind a 2:1 taper here")  # fmt: skip
    plain = table_on("fat-tree", 56, 50e9, 450e9, "nccl", routing="ecmp").pattern(Group(56, 8), "ring")
    planes = table_on({"family": "multi-plane", "planes": 2}, 56, 50e9, 450e9, "nccl", routing="ecmp").pattern(
        Group(56, 8), "ring"
    )
    assert plain is not None
    assert planes is not None
    line("HPN dual plane against DCN+, 448 GPUs, 8 all-reduces at once", "up to +158%",
         f"{plain.slowdown / planes.slowdown - 1:+.0%}", "rings over servers in rank order rarely leave a leaf; theirs "
         "cross segments")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default="1024,16384,65536")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--published", action="store_true")
    options = parser.parse_args()
    if options.published:
        published()
        return
    processes([int(size) for size in options.sizes.split(",")], options.runs)
    engines()


if __name__ == "__main__":
    main()
