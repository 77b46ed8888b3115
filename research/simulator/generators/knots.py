"""Kube-Knots' workloads (Table I, III, V-C): batch jobs as Rodinia's and inference as Djinn and Tonic's, in three mixes.

The paper gives names, classes of load and of its spread, and one figure of series; the shapes here are drawn to what its text
says: surges far above the median (SM use 90 times, bandwidth 400 times), the whole request used for 6 % of the time, requests for
the peak and beyond, four fifths of the jobs short with a fifth of the work.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from scheduler.simulator.sharing.world import SharingJob, Usage

if TYPE_CHECKING:
    from numpy.random import Generator

    from scheduler.sharing.series import Floats

GPU_MIB = 16_384
"""The paper's P100."""
PEAK_SHARE = 0.06
"""Of its time in which a batch job uses all that it was given."""
QUERY_S = (20, 90)
"""How long a server of queries stays."""


@dataclass(frozen=True, slots=True)
class App:
    """A batch application: typical and highest use of the SMs, memory at its peak in parts of a GPU, how often it surges."""

    name: str
    typical: float
    peak: float
    memory: float
    surges: int


APPS = {
    each.name: each
    for each in (
        App("leukocyte", 0.55, 0.95, 0.30, 4),
        App("heartwall", 0.50, 0.90, 0.35, 5),
        App("particlefilter", 0.30, 0.95, 0.45, 6),
        App("mummergpu", 0.45, 0.85, 0.55, 3),
        App("pathfinder", 0.25, 0.80, 0.40, 4),
        App("lud", 0.30, 0.90, 0.25, 6),
        App("kmeans", 0.20, 0.75, 0.50, 8),
        App("streamcluster", 0.25, 0.85, 0.35, 5),
        App("myocyte", 0.05, 0.90, 0.20, 2),
    )
}
SERVERS = {
    "face": (0.18, 95),
    "key": (0.10, 60),
    "chl": (0.06, 35),
    "ner": (0.07, 40),
    "pos": (0.06, 35),
    "imc": (0.15, 90),
}
"""Inference: use of the SMs while it answers, and milliseconds for a query alone."""


@dataclass(frozen=True, slots=True)
class Mix:
    """One of Table I. `load`: the SM work offered over what the GPUs can do; `spread`: COV of the gaps between arrivals."""

    batch: tuple[str, ...]
    servers: tuple[str, ...]
    load: float
    spread: float


MIXES = {
    1: Mix(("leukocyte", "heartwall", "particlefilter", "mummergpu"), ("face", "key"), 0.75, 0.6),
    2: Mix(("pathfinder", "lud", "kmeans", "streamcluster"), ("chl", "ner", "pos"), 0.45, 1.0),
    3: Mix(("particlefilter", "streamcluster", "lud", "myocyte"), ("imc", "face"), 0.20, 2.0),
}
SERVER_SHARE = 0.5
"""The part of the jobs that are servers of queries."""


def batch_usage(app: App, seconds: int, rng: Generator) -> Floats:
    """Return an application's use over `seconds` phases of 1 s: transfers first, then computing, memory surging with it."""
    at = np.linspace(0.0, app.surges, seconds, endpoint=False) % 1.0
    width = max(PEAK_SHARE, 1.5 * app.surges / seconds)
    surging = at > 1.0 - width
    coming = (at > 1.0 - 2 * width) & ~surging
    wobble = 1.0 + 0.1 * rng.standard_normal(seconds)
    gpu = np.where(surging, app.peak, app.typical * wobble)
    memory = app.memory * np.where(surging, 1.0, 0.65 + 0.15 * at)
    pcie = np.where(coming, 0.8, 0.002 + 0.02 * rng.random(seconds))
    parts: Floats = np.clip(np.stack([gpu, memory, 0.8 * gpu, pcie], axis=1), 0.0, 1.0)
    return parts


def server_usage(name: str, seconds: int, rng: Generator) -> Floats:
    """Return a server's use: its weights come over PCIe, then it answers."""
    gpu = SERVERS[name][0] * (1.0 + 0.15 * rng.standard_normal(seconds))
    memory = np.full(seconds, 0.09)
    pcie = 0.03 * np.ones(seconds)
    pcie[:2], memory[:2], gpu[:2] = 0.7, 0.05, 0.02
    parts: Floats = np.clip(np.stack([gpu, memory, 0.7 * gpu, pcie], axis=1), 0.0, 1.0)
    return parts


def _seconds(rng: Generator) -> int:
    """Four fifths are short, and do a fifth of the work (Pareto's principle, section III)."""
    return int(rng.uniform(20, 60)) if rng.random() < 0.8 else int(rng.uniform(300, 960))


def knots_mix(number: int, rng: Generator, *, n_gpus: int = 10, hours: float = 1.0) -> list[SharingJob]:
    """Return one of the three mixes for so many GPUs and hours of arrivals. Raises KeyError for another number than 1 to 3."""
    mix = MIXES[number]
    jobs: list[SharingJob] = []
    work, wanted, at_s = 0.0, mix.load * n_gpus * hours * 3600.0, 0.0
    while work < wanted:
        job = _server(mix, len(jobs), rng) if rng.random() < SERVER_SHARE else _batch(mix, len(jobs), rng)
        work += float(job.usage.parts[:, 0].sum()) * job.usage.phase_s
        jobs.append(job)
    shape = 1.0 / mix.spread**2
    gaps = rng.gamma(shape, 1.0 / shape, len(jobs))
    arrivals = np.cumsum(gaps) / gaps.sum() * hours * 3600.0
    placed = []
    for job, at_s in zip(jobs, arrivals, strict=True):
        placed.append(
            SharingJob(job.key, job.usage, float(at_s), job.memory_mib, job.critical, job.queries_per_s, job.query_ms)
        )
    return placed


def _batch(mix: Mix, key: int, rng: Generator) -> SharingJob:
    """Its request is for the peak and a quarter more: tenants overstate."""
    app = APPS[mix.batch[int(rng.integers(len(mix.batch)))]]
    seconds = _seconds(rng)
    usage = Usage(f"{app.name}-{'long' if seconds > 100 else 'short'}", batch_usage(app, seconds, rng))
    return SharingJob(key, usage, 0.0, int(min(1.0, 1.25 * app.memory) * GPU_MIB))


def _server(mix: Mix, key: int, rng: Generator) -> SharingJob:
    name = mix.servers[int(rng.integers(len(mix.servers)))]
    seconds = int(rng.uniform(*QUERY_S))
    _, query_ms = SERVERS[name]
    usage = Usage(f"{name}-server", server_usage(name, seconds, rng))
    return SharingJob(key, usage, 0.0, int(0.1 * GPU_MIB), critical=True, queries_per_s=10.0, query_ms=float(query_ms))
