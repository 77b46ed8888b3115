"""Measured pairs (Gavel's table of co-located throughputs) as a world to train in and to be judged in.

The table names jobs and does not give their use. A stand-in for telemetry is fitted to the pairs that are known: the use
of the GPU with which the law explains them best (GPU time), how much a job slows others on average (its SMs), how much it is
slowed (its PCIe). Memory is fitted to which pairs could not run together at all: those were out of memory.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from scheduler.model import PairSeen
from scheduler.sharing.measured import Measured
from scheduler.sharing.series import Floats
from scheduler.simulator.sharing.laws import InTurns, Law, MeasuredPairs
from scheduler.simulator.sharing.world import SharingJob, Usage

Speeds = dict[tuple[str, str], float]
COLUMNS = ("gpu_type", "job_a", "scale_a", "job_b", "scale_b", "norm_a", "norm_b")
MEMORY_MIB = 16_384
PHASE_S = 5.0
ROUNDS = 6
LEAST_MEMORY = 0.2
LENGTHS = (10, 41)
MANY = 1000


def pairs_read(lines: Iterable[str], gpu_type: str = "v100") -> Speeds:
    """Return each job's speed beside another over its full speed, on one GPU of a type; 0 where the two could not run together.

    Raises ValueError for a table without the columns, with a figure that is none, or without a pair of that type.
    """
    rows = csv.DictReader(lines)
    if missing := [name for name in COLUMNS if name not in (rows.fieldnames or ())]:
        raise ValueError(f"the table of pairs has no column {', '.join(missing)}")
    found: Speeds = {}
    for number, row in enumerate(rows, start=2):
        if row["gpu_type"] != gpu_type or row["scale_a"] != "1" or row["scale_b"] != "1":
            continue
        try:
            a, b = float(row["norm_a"] or 0.0), float(row["norm_b"] or 0.0)
        except ValueError as error:
            raise ValueError(f"line {number}: {error}") from error
        if not (0.0 <= a <= 10.0 and 0.0 <= b <= 10.0):
            raise ValueError(f"line {number}: {a:g} and {b:g} are no speeds as parts of those alone")
        found[row["job_a"], row["job_b"]], found[row["job_b"], row["job_a"]] = a, b
    if not found:
        raise ValueError(f"the table has no pair on one {gpu_type}")
    return found


def half_of(speeds: Mapping[tuple[str, str], float], rng: Generator) -> Speeds:
    """Return half of the pairs, both directions of each."""
    pairs = sorted({tuple(sorted(pair)) for pair in speeds})
    kept = rng.permutation(len(pairs))[: len(pairs) // 2]
    names = [pairs[each] for each in kept]
    return {pair: speeds[pair] for a, b in names for pair in ((a, b), (b, a))}


def explained(speeds: Mapping[tuple[str, str], float], law: InTurns) -> dict[str, float]:
    """Return for each job the use of the GPU (0.05 to 1) with which the law comes nearest to the speeds, one job at a time."""
    names = sorted({name for pair in speeds for name in pair})
    choices = np.arange(0.05, 1.0001, 0.05)
    own = _speeds_by_use(law, choices)
    index = {name: n for n, name in enumerate(names)}
    at = np.full(len(names), len(choices) // 2)
    known = [(index[a], index[b], speed) for (a, b), speed in speeds.items() if speed > 0.0]
    for _ in range(ROUNDS):
        for job in range(len(names)):
            wrong = np.zeros(len(choices))
            for a, b, speed in known:
                if a == job:
                    wrong += (own[:, at[b]] - speed) ** 2
                elif b == job:
                    wrong += (own[at[a], :] - speed) ** 2
            at[job] = int(np.argmin(wrong))
    return {name: float(choices[at[n]]) for n, name in enumerate(names)}


def _speeds_by_use(law: InTurns, choices: Floats) -> Floats:
    """The speed of a job of one use beside one of another. Shape (choices, choices)."""
    found = np.empty((len(choices), len(choices)))
    for n, use in enumerate(choices):
        for m, beside in enumerate(choices):
            demands = np.zeros((2, 4))
            demands[:, 0] = use, beside
            found[n, m] = 1.0 / law.slowdowns(("", ""), demands, np.zeros(2, dtype=np.int64), 1)[0]
    return found


def memory_of(speeds: Mapping[tuple[str, str], float]) -> dict[str, float]:
    """Return for each job a part of the memory so that every two that could not run together come to more than all of it."""
    found = {name: 0.3 for pair in sorted(speeds) for name in pair}
    for _ in range(200):
        for (a, b), speed in sorted(speeds.items()):
            if speed == 0.0 and found[a] + found[b] <= 1.0:
                found[max(a, b, key=lambda name: found[name])] += 0.02
            elif speed > 0.0 and found[a] + found[b] > 1.0:
                for name in (a, b):
                    found[name] = max(LEAST_MEMORY, found[name] - 0.005)
    for (a, b), speed in sorted(speeds.items()):
        if speed == 0.0 and found[a] + found[b] <= 1.0:
            found[max(a, b, key=lambda name: found[name])] += 1.001 - found[a] - found[b]
    return {name: min(1.0, memory) for name, memory in found.items()}


@dataclass(frozen=True, slots=True)
class PairWorld:
    """Jobs of a table. `known`: the pairs that uses are fitted to; `speeds`: all, of which the truth is made."""

    speeds: Mapping[tuple[str, str], float]
    known: Mapping[tuple[str, str], float]
    uses: Mapping[str, Floats]

    @classmethod
    def of(cls, speeds: Speeds, known: Speeds, law: InTurns) -> PairWorld:
        names = sorted({name for pair in speeds for name in pair})
        gpu, memory = explained(known, law), memory_of(speeds)
        uses = {}
        for name in names:
            caused = [1.0 - speed for (_, b), speed in sorted(known.items()) if b == name and speed > 0.0]
            suffered = [1.0 - speed for (a, _), speed in sorted(known.items()) if a == name and speed > 0.0]
            means = [float(np.clip(np.mean(each), 0.0, 1.0)) if each else 0.5 for each in (caused, suffered)]
            uses[name] = np.array([gpu.get(name, 0.5), memory[name], *means])
        return cls(speeds, known, uses)

    def law(self, speeds: Mapping[tuple[str, str], float], otherwise: Law) -> MeasuredPairs:
        """Return the law of these pairs; of others, and of those that had no memory, `otherwise`'s."""
        return MeasuredPairs({pair: speed for pair, speed in speeds.items() if speed > 0.0}, otherwise)

    def told(self, speeds: Mapping[tuple[str, str], float], limit: float | None) -> Measured:
        """Return these pairs as a cluster that has measured each many times knows them."""
        seen = {(a, b, ""): PairSeen(1.0 / speed, MANY) for (a, b), speed in speeds.items() if speed > 0.0}
        return Measured.of(seen, limit)

    def jobs(self, rng: Generator, count: int = 30) -> list[SharingJob]:
        """Return `count` jobs, all there from the start, of 50 to 200 s at full speed."""
        names = sorted(self.uses)
        found = []
        for key in range(count):
            name = names[int(rng.integers(len(names)))]
            parts = np.tile(self.uses[name], (int(rng.integers(*LENGTHS)), 1))
            found.append(SharingJob(key, Usage(name, parts, PHASE_S), 0.0, int(np.ceil(parts[0, 1] * MEMORY_MIB))))
        return found
