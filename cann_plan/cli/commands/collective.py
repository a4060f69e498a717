"""`cann-plan collective`: time of one collective on a network."""

from typing import Annotated

import typer

from cann_plan.cli import options


def command(
    op: Annotated[
        str,
        typer.Argument(
            metavar="OP",
            help="all-reduce, all-gather, reduce-scatter, all-to-all, broadcast, reduce or send-recv.",
        ),
    ],
    nbytes: Annotated[
        str | None,
        typer.Option(
            "--bytes", "-b", metavar="N", help="Message size, e.g. 64 MiB; with --sweep the largest (default 1 GiB)."
        ),
    ] = None,
    cluster: Annotated[
        str | None,
        typer.Option(
            "--cluster", metavar="NAME", help="Cluster preset or file.", autocompletion=options.complete_cluster
        ),
    ] = None,
    topology: Annotated[
        str | None, typer.Option("--topology", metavar="FILE", help="File with link levels, innermost first, or -.")
    ] = None,
    ranks: Annotated[
        int | None, typer.Option("--ranks", metavar="N", min=1, help="Ranks in the group (default: all there are).")
    ] = None,
    stride: Annotated[
        int, typer.Option("--stride", metavar="N", min=1, help="Distance of neighbouring ranks of the group.")
    ] = 1,
    algorithm: Annotated[
        str, typer.Option("--algorithm", metavar="NAME", help="Algorithm; library: what the library would choose.")
    ] = "library",
    sweep: Annotated[bool, typer.Option("--sweep", help="Every power of two from 1 KiB up to --bytes.")] = False,
    format_: options.Format = None,
    output: options.Output = None,
) -> int:
    """Time one collective on a cluster or topology.

    Bytes count as in nccl-tests and hccl_test: the full vector for all-reduce, broadcast and reduce, the gathered
    vector for all-gather and reduce-scatter, all a rank sends for all-to-all. GB/s are 10^9 bytes per second. All
    groups of the same shape communicate at once. A topology file holds

      levels: [{kind: ring, size: 8, bandwidth: 50 GB/s, latency: 0.5 us}, ...]

    with kind ring, full-mesh, switch, torus or pair, bandwidth per link and direction (switch: per device port) and
    latency per hop (a switch counts once).
    """
    from cann_plan.cli.failure import InputError
    from cann_plan.cli.output import emit
    from cann_plan.planner.collective import collective, collective_sweep, operation_of
    from cann_plan.planner.collective_network import network_of_cluster, network_of_file

    operation = operation_of(op)
    size = _size(nbytes, sweep)
    if (cluster is None) == (topology is None):
        raise InputError("one of --cluster and --topology says which network is meant", allowed="exactly one of them")
    if topology is not None:
        network = network_of_file(topology)
        members = ranks if ranks is not None else (network.devices - 1) // stride + 1
    else:
        span = None if ranks is None else (ranks - 1) * stride + 1
        network = network_of_cluster(str(cluster), span)
        members = ranks if ranks is not None else (network.devices - 1) // stride + 1
    answer = collective_sweep if sweep else collective
    emit(answer(operation, size, network, members, algorithm, stride), format_, output)
    return 0


def _size(text: str | None, sweep: bool) -> float:
    from cann_plan.cli.failure import InputError
    from cann_plan.units import Dimension, UnitError, parse

    if text is None:
        if not sweep:
            raise InputError("missing option --bytes", allowed="a size, for example 64 MiB; or --sweep")
        return 2.0**30
    try:
        size = parse(text, Dimension.BYTES)
    except UnitError as error:
        raise InputError(f"--bytes: {error.message}", allowed=error.allowed, suggestion=error.suggestion) from error
    if not 1.0 <= size <= 2.0**60:
        raise InputError(f"--bytes: {text} is out of range", allowed="1 B to 1 EiB")
    return size
