"""Max-min fair rates of flows on fixed paths."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from cann_plan.network.topology.traffic import FloatArray, IntArray


def fair_rates(flow: IntArray, link: IntArray, capacity: FloatArray, flows: int, bucket: float = 0.0) -> FloatArray:
    """Rates of `flows` flows when every link shares its capacity fairly (progressive filling, Bertsekas, Gallager).

    Args:
        flow, link: one entry for each link of each flow's path, equal length.
        capacity: units per link, (links,).
        flows: number of flows; one without links gets rate infinity.
        bucket: links within this fraction of the least share are filled together: 0 is exact, 0.05 is about fifty
            times faster at 16,384 flows and changes mean rates by 0.1 %.

    Raises:
        ValueError: a link has no capacity.
    """
    if (capacity <= 0).any():
        raise ValueError("every link needs capacity")
    links = capacity.shape[0]
    rate = np.full(flows, np.inf)
    left = capacity.astype(np.float64).copy()
    active = np.zeros(flows, dtype=bool)
    active[flow] = True
    alive: npt.NDArray[np.bool_] = np.ones(flow.shape[0], dtype=bool)
    while active.any():
        flow, link = flow[alive], link[alive]
        users = np.bincount(link, minlength=links)
        share = np.where(users > 0, left / np.maximum(users, 1), np.inf)
        least = share.min()
        full = share <= least * (1.0 + bucket) * (1.0 + 1e-12)
        stopped = np.zeros(flows, dtype=bool)
        stopped[flow[full[link]]] = True
        at = np.full(flows, np.inf)
        np.minimum.at(at, flow, share[link])
        rate[stopped] = at[stopped]
        mine = stopped[flow]
        left = left - np.bincount(link[mine], weights=rate[flow[mine]], minlength=links)
        left = np.maximum(left, 0.0)
        active &= ~stopped
        alive = ~mine
    return rate
