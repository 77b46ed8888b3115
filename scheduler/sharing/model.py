"""The input and the output of a sharing policy (algorithms.md section 11), and its rules by number, as arrays hold them.

Profiles of many signatures are made at once: a thousand of them one by one take as long as all that is decided by them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import chain

import numpy as np

from scheduler.sharing.series import LEAST_SAMPLES, Flags, Floats, Numbers, resampled

WHOLE = 1000
"""Thousandths of a GPU's compute."""
POINTS = 64
"""Series of signatures are compared at this number of points."""
MEASURES = ("memory_mib", "gpu", "pcie_mb_s")
"""The largest of their correlations counts: memory, SM utilisation (0 to 1), PCIe traffic of both directions."""
HARVEST_PCT = 80.0
"""A batch job is provisioned with this percentile of its signature's measured use (Kube-Knots IV-C)."""


def percentile_place(length: int) -> tuple[int, float]:
    """Return where `HARVEST_PCT` of sorted values lies: after which one, and how far on. As numpy's, in a tenth of its time."""
    low, part = divmod(HARVEST_PCT * (length - 1), 100)
    return int(low), part / 100


class Profile:
    """A signature's last run on one GPU: its `MEASURES` as equally spaced samples, all of one length.

    It never changes. `rows`: the samples, shape (measures, samples). `seconds`: how long that run took, where it is known; only
    then the use at a time is known. `harvested_mib`: the percentile of its memory that it is provisioned with; `busy`: the part
    of its time in which it kept the GPU computing. Raises ValueError for series of different lengths, of too few samples, or
    that hold anything but finite numbers from 0 on.
    """

    __slots__ = ("busy", "harvested_mib", "rows", "seconds")

    def __init__(self, series: Mapping[str, Floats], seconds: float | None = None) -> None:
        lengths = {len(series[name]) for name in MEASURES}
        if len(lengths) != 1 or min(lengths) < LEAST_SAMPLES:
            raise ValueError(
                f"a profile needs {LEAST_SAMPLES} samples or more of each measure, all alike; it has {lengths}"
            )
        self.rows = np.array([series[name] for name in MEASURES], dtype=np.float64)
        self.seconds = seconds
        for name, values in self.series.items():
            if not (values.min() >= 0 and values.max() < np.inf):  # neither for NaN
                raise ValueError(f"{name} holds values that are not finite or below 0")
        risen = np.sort(self.series["memory_mib"])
        low, part = percentile_place(len(risen))
        above = risen[min(low + 1, len(risen) - 1)]
        self.harvested_mib = int(np.ceil(risen[low] + (above - risen[low]) * part))
        self.busy = float(np.mean(self.series["gpu"]))

    @classmethod
    def of_rows(cls, rows: Floats, seconds: float | None, harvested_mib: int, busy: float) -> Profile:
        """Return the profile of rows that were checked, with its other figures: many are made at once (`profiles`)."""
        made = cls.__new__(cls)
        made.rows, made.seconds, made.harvested_mib, made.busy = rows, seconds, harvested_mib, busy
        return made

    @property
    def series(self) -> dict[str, Floats]:
        """Its rows by measure."""
        return dict(zip(MEASURES, self.rows, strict=True))

    def at_points(self) -> Floats:
        if self.rows.shape[1] == POINTS:
            return self.rows
        return np.array([resampled(row, POINTS) for row in self.rows])


@dataclass(frozen=True, slots=True)
class Asker:
    """A waiting job that opted in to share. Jobs of one `signature` have the same use.

    `whole_request`: it was ended for memory once, and gets all that it asks for from now on. `apart_from`: signatures beside
    which that happened.
    """

    key: int
    memory_mib: int
    signature: str
    compute: int = WHOLE
    critical: bool = False
    whole_request: bool = False
    apart_from: frozenset[str] = frozenset()
    profile: Profile | None = None

    def __post_init__(self) -> None:
        if self.memory_mib < 1 or not 0 <= self.compute <= WHOLE:
            raise ValueError(f"job {self.key} asks for {self.memory_mib} MiB and {self.compute} thousandths of a GPU")

    @property
    def grant_mib(self) -> int:
        """The grant of a harvesting policy: its request where no use was seen, it is latency-critical, or it crashed."""
        if self.profile is None or self.critical or self.whole_request:
            return self.memory_mib
        return max(1, min(self.memory_mib, self.profile.harvested_mib))


@dataclass(frozen=True, slots=True)
class Resident:
    """A job on a shared GPU: its grant there (`grant_mib`), its use now (`used_mib`), and since when (`ran_s`)."""

    asker: Asker
    grant_mib: int
    used_mib: float = 0.0
    ran_s: float = 0.0

    @property
    def kept_mib(self) -> int:
        """The memory that a harvesting policy leaves it: never less than it uses, and less only if it may be harvested."""
        return min(self.grant_mib, max(self.asker.grant_mib, int(np.ceil(self.used_mib))))


@dataclass(frozen=True, slots=True)
class SharedGpu:
    """A GPU in mode `shared`. `memory_used`: the latest samples of its used memory (MiB), oldest first; as many as there are.

    `gpu_type`: measured pairs are of one type.
    """

    key: int
    memory_mib: int
    residents: tuple[Resident, ...] = ()
    memory_used: Floats = field(default_factory=lambda: np.empty(0))
    gpu_type: str = ""


class Rule(StrEnum):
    """By which rule a job joined a GPU, or which kept it from it."""

    ALONE = "alone"  # nobody is there
    FITS = "fits"  # its request fits, and the policy asks for nothing else
    LEARNED = "learned"  # the learned policy would start it now
    UNCORRELATED = "uncorrelated"  # it and those there do not rise together
    FORECAST = "forecast"  # the forecast use leaves room for its need
    MEASURED = "measured"  # it ran beside each of those there before, and nobody was slowed by more than is accepted
    MEMORY = "memory"  # too little memory is left
    COMPUTE = "compute"  # too little compute is left
    APART = "apart"  # it was ended for memory beside one of those there
    SLOWED = "slowed"  # it and one of those there were measured to slow each other by more than is accepted
    CROWDED = (
        "crowded"  # the pair was not measured, but by their earlier use they would slow each other by more than that
    )
    CORRELATED = "correlated"  # it and one of those there rise together
    UNKNOWN = "unknown"  # it, or one of those there, was never seen to run
    NO_TREND = "no trend"  # the GPU's memory does not follow its own past: nothing can be forecast
    DECLINED = "declined"  # the learned policy would rather wait, or start others
    EXCEEDS = "exceeds"  # with those there it would use more of a resource than there is
    LITTLE = "little"  # it would take from those there nearly all that it got done
    PEAK = "peak"  # the forecast use leaves too little


@dataclass(frozen=True, slots=True)
class Joined:
    """A job starts on a GPU with this grant. `figure`: the correlation or the forecast (MiB) that the rule read."""

    job: int
    gpu: int
    grant_mib: int
    rule: Rule
    figure: float | None
    beside: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Refused:
    """A job starts on no GPU. `rules`: how many GPUs were closed to it by each rule."""

    job: int
    rules: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Harvest:
    """A running batch job gets another grant of memory on its GPU."""

    job: int
    gpu: int
    grant_mib: int


NUMBERS: dict[Rule, int] = {rule: number for number, rule in enumerate(Rule)}
BY_NUMBER: tuple[Rule, ...] = tuple(Rule)
WORDS: tuple[str, ...] = tuple(map(str, Rule))
LAST_ADMITTING = NUMBERS[Rule.MEASURED]
"""Rules that let an asker in come first."""


def admitting(rules: Numbers) -> Flags:
    """Return where a rule lets the asker in. Shape as given."""
    found: Flags = rules <= LAST_ADMITTING
    return found


def closing(rules: Numbers) -> dict[str, int]:
    """Return how many GPUs each rule keeps the asker away from, the most first."""
    counts = np.bincount(rules).tolist()[LAST_ADMITTING + 1 :]
    found = [(WORDS[number], count) for number, count in enumerate(counts, LAST_ADMITTING + 1) if count]
    return dict(sorted(found, key=lambda item: (-item[1], item[0])))


Uses = Mapping[str, Mapping[str, Sequence[float]]]

AT_ONCE = 128
"""This number of signatures is read together: more no longer fit into a processor's cache."""


def profiles_of(uses: Uses) -> dict[str, Profile]:
    """Return by signature what it used; without those of which nothing, or nothing that could be compared, was recorded."""
    by_length: dict[int, list[str]] = defaultdict(list)
    for name, use in uses.items():
        lengths = {len(use.get(measure, ())) for measure in MEASURES}
        if len(lengths) == 1 and (length := lengths.pop()) >= LEAST_SAMPLES:
            by_length[length].append(name)
    blocks = (names[at : at + AT_ONCE] for names in by_length.values() for at in range(0, len(names), AT_ONCE))
    return {name: profile for names in blocks for name, profile in _of_one_length(names, uses)}


def _of_one_length(names: Sequence[str], uses: Uses) -> Iterable[tuple[str, Profile]]:
    try:
        rows = [uses[name][measure] for name in names for measure in MEASURES]
        block = np.fromiter(chain.from_iterable(rows), np.float64).reshape(len(names), len(MEASURES), -1)
    except (TypeError, ValueError):  # one of them holds what is no number: only that one is left out
        return [each for name in names if len(names) > 1 for each in _of_one_length([name], uses)]
    sound = (block.min(axis=(1, 2)) >= 0) & (block.max(axis=(1, 2)) < np.inf)  # neither for NaN
    high, busy = _high(block[:, 0]), block[:, 1].mean(axis=1).tolist()
    return [
        (name, Profile.of_rows(rows, next(iter(uses[name].get("seconds", ())), None), mib, part))
        for name, rows, mib, part, is_sound in zip(names, block, high, busy, sound.tolist(), strict=True)
        if is_sound
    ]


def _high(memory: Floats) -> list[int]:
    """Return each row's percentile that a batch job is provisioned with, as `Profile.harvested_mib` does."""
    values = np.sort(memory, axis=1)
    low, part = percentile_place(values.shape[1])
    below, above = values[:, low], values[:, min(low + 1, values.shape[1] - 1)]
    with np.errstate(invalid="ignore"):
        found = np.ceil(below + (above - below) * part)
    return [int(each) if np.isfinite(each) else 0 for each in found.tolist()]
