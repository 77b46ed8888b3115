"""B_link and B_net of a GPU type before and beside their measurement (Hops 3.5, eq. 2; algorithms.md section 2).

A ring all-reduce of P parameters of four bytes among N GPUs takes 2*4*P*(N-1)/N / b seconds at b bytes a second, so

    B = e * b / 8          parameters a second; e: the part of a link's rate that an all-reduce gets

*Assumed*: b by the reports of the type's nodes, the slowest of them: NVLink, else the GPUs' PCIe; the network. Without any
report it is `UNTOLD`. *Refined*: running jobs of several GPUs record how long they communicated, and each such iteration gives a
B. A tenant could write any record, and a link is everybody's: so a tenant has one vote, the median of its jobs' figures, the
base (measured by Berth itself, or assumed) has one too, the median of all votes counts, of two middle ones that nearer to the
base, and it never leaves a factor of `FARTHEST` around it. Where one tenant is the whole cluster it harms nobody else, and only
its vote counts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

BYTES_MOVED = 8
"""Per parameter: four bytes there and back."""

PCIE_LANE_GBPS = {1: 0.25, 2: 0.5, 3: 0.985, 4: 1.969, 5: 3.938, 6: 7.563}
"""GB/s of one lane, one way, by PCIe generation."""

EFFICIENCY = {"nvlink": 0.75, "pcie": 0.6, "network": 0.8}
"""Part of the rate that NCCL's all-reduces reach: about 230 of NVLink 3's 300 GB/s; through a host's memory less."""

UNTOLD_PCIE, UNTOLD_NETWORK_MBPS = (3, 16), 10_000
"""The links of a node without a report: PCIe 3 x16 and 10 Gbit/s."""

FARTHEST, FARTHEST_ASSUMED = 4.0, 1000.0
"""Factor around its base within which votes may move a link: of a measured base, and of one that is assumed."""


@dataclass(frozen=True, slots=True)
class Told:
    """A node's report of its links; None = nothing. `nvlink_gbps`: GB/s of a GPU's links together, one way."""

    nvlink_gbps: float | None = None
    pcie_generation: int | None = None
    pcie_lanes: int | None = None
    network_mbps: float | None = None


@dataclass(frozen=True, slots=True)
class Assumed:
    """A bandwidth in parameters a second, and its origin, in words."""

    value: float
    words: str


def assumed_within(nodes: Iterable[Told]) -> Assumed:
    """B_link of the slowest of these nodes."""
    return min((_within(node) for node in nodes), key=lambda each: each.value, default=_within(Told()))


def assumed_between(nodes: Iterable[Told]) -> Assumed:
    """B_net of the slowest of these nodes."""
    return min((_between(node) for node in nodes), key=lambda each: each.value, default=_between(Told()))


def _within(node: Told) -> Assumed:
    if node.nvlink_gbps:
        return _assumed("nvlink", node.nvlink_gbps, f"NVLink, {node.nvlink_gbps:g} GB/s a GPU")
    known = node.pcie_generation in PCIE_LANE_GBPS and node.pcie_lanes
    generation, lanes = (node.pcie_generation, node.pcie_lanes) if known else UNTOLD_PCIE
    words = f"PCIe {generation} x{lanes}" + ("" if known else ", as no node tells its links")
    return _assumed("pcie", PCIE_LANE_GBPS[generation or 0] * (lanes or 0), words)


def _between(node: Told) -> Assumed:
    rate_mbps = node.network_mbps or UNTOLD_NETWORK_MBPS
    words = f"{rate_mbps / 1000:g} Gbit/s" + ("" if node.network_mbps else ", as no node tells its network's speed")
    return _assumed("network", rate_mbps / 8000, words)


def _assumed(kind: str, rate_gbps: float, words: str) -> Assumed:
    return Assumed(EFFICIENCY[kind] * rate_gbps * 1e9 / BYTES_MOVED, words)


HIGHEST = 1e15
"""Parameters a second that no link moves. A time of nearly nothing would give more, at last infinitely many."""


def communicated(parameters: float, seconds: float, gpus: int, nodes: int) -> float | None:
    """B from one iteration's communication time, by eq. 2; None where there was none to speak of, or none that can be."""
    if gpus < 2 or not (parameters > 0 and seconds > 0 and math.isfinite(parameters) and math.isfinite(seconds)):
        return None
    found = parameters / seconds * (1.0 if nodes > 1 else (gpus - 1) / gpus)
    return found if found <= HIGHEST else None


def refined(base: float, votes: Sequence[float], *, alone: bool = False, farthest: float = FARTHEST) -> float:
    """The median of the base and one vote a tenant, within `farthest` of the base. `alone`: there is one tenant only."""
    settled = votes[0] if alone and votes else towards(base, [base, *votes])
    return min(max(settled, base / farthest), base * farthest)


def towards(anchor: float, votes: Sequence[float]) -> float:
    """The median; of two in the middle the one nearer to `anchor`, by ratio, so that half of the voters move nothing."""
    middle = sorted(votes)[(len(votes) - 1) // 2 : len(votes) // 2 + 1]
    return min(middle, key=lambda each: (abs(math.log(each / anchor)), each))


def vote(figures: Sequence[float]) -> float:
    """A tenant's: the median of its jobs' figures."""
    return median(figures)
