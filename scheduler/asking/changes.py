"""Changes that might start a waiting job: their kinds, their effects, and both in plain words."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from scheduler.copies import replace
from scheduler.explaining.phrases import count, gib, listed

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from scheduler.asking.over import Verdict
    from scheduler.asking.starts.ranges import StartRange
    from scheduler.model import Job


class Kind(StrEnum):
    """The one thing that is changed. `none`: the job would start as it is."""

    NONE = "none"
    RELEASE = "release"
    DEPENDENCY = "dependency"
    SIZE = "size"
    CORES = "cores"
    GPU_TYPE = "gpu-type"
    MEMORY = "memory"
    CHECKPOINT = "checkpoint"
    SOFTWARE = "software"
    WAIT = "wait"


@dataclass(frozen=True, slots=True)
class Change:
    """One change and its effect.

    value       what it is changed to: GPUs; cores in all (a CPU job) or a GPU; the GPU types allowed besides; MiB;
                seconds to wait; None for the others
    starts      True: it starts in that planning (`wait`: in the one then); False: it does not, `reason` says why;
                None: there was no time to try
    nodes       {node name: GPUs} where it would start; gpus, cores: in all
    throughput  estimated, of the configuration that it would get; `source` as in configurations; None for CPU jobs
    of_asked    that throughput over the best of the job's smallest asked size on empty nodes of its types; None when
                nothing is known to compare with
    start       the simulated range, of an offer that does not start at once; None: there was no time, or it has none
    verdict     whether the job would be over sooner; None: nothing was to be judged
    later       job -> seconds that the middle of its start moves back; None: there was no time to find out
    """

    kind: Kind
    value: Any = None
    starts: bool | None = None
    reason: str | None = None
    nodes: Mapping[str, int] = field(default_factory=dict)
    gpus: int | None = None
    cores: int | None = None
    throughput: float | None = None
    source: str | None = None
    of_asked: float | None = None
    start: StartRange | None = None
    verdict: Verdict | None = None
    later: Mapping[int, float] | None = None

    @property
    def is_offer(self) -> bool:
        """Whether a tenant may take it while the job waits, and it is known when the job would start."""
        return self.kind in OFFERED and self.verdict is not None

    @property
    def gains(self) -> bool:
        """Whether the job would be over sooner than as it stands."""
        return self.verdict is not None and self.verdict.gains

    @property
    def words(self) -> str:
        """The words on its button: Accept 2 GPUs too."""
        return OFFERED[self.kind](self.value) if self.kind in OFFERED else ""

    @property
    def cost(self) -> str:
        """As: 53 % of the speed that it asks for now (measured). Empty where it is as fast, or nothing is known."""
        if self.of_asked is None or self.source is None or 0.995 <= self.of_asked <= 1.005:
            return ""
        known = "assumed, not measured" if self.source == "assumed" else "measured"
        return f"{100 * self.of_asked:.0f} % of the speed that it asks for now ({known})."

    @property
    def no_gain(self) -> str:
        """Why the job would not be over sooner, or why nobody can tell; empty where it would."""
        return NO_GAIN[self.verdict.why] if self.verdict and self.verdict.why else ""

    @property
    def sentence(self) -> str:
        """As: With 2 GPUs it would start now on n1. That is 53 % of the speed that it asks for now (measured)."""
        condition, when = CONDITIONS[self.kind](self.value), "then" if self.kind is Kind.WAIT else "now"
        if self.starts is None:
            return f"{condition.rstrip(',')}: not tried, the time for this question was up."
        if not self.starts:
            return f"{condition} it would still not start {when} ({self.reason})."
        cost = f" That is {self.cost}" if self.cost else ""
        no_gain = f" But {self.no_gain[0].lower()}{self.no_gain[1:]}" if self.no_gain else ""
        return f"{condition} it would start {when} on {listed(list(self.nodes))}.{cost}{no_gain}"


def minutes(seconds: float) -> str:
    whole = max(1, round(seconds / 60))
    return f"{whole} min" if whole < 120 else f"{whole / 60:.0f} h"


def _eligible(job: Job, _: Any) -> Job:
    return replace(job, eligible=True, ineligible_reason=None, ineligible_figures={})


CHANGED: Mapping[Kind, Callable[[Job, Any], Job]] = {
    Kind.RELEASE: _eligible,
    Kind.DEPENDENCY: _eligible,
    Kind.SIZE: lambda job, size: replace(job, requirement=tuple(sorted({size, *job.requirement}))),
    Kind.CORES: lambda job, cores: replace(job, cores=cores),
    Kind.GPU_TYPE: lambda job, types: replace(job, gpu_types=job.gpu_types | set(types)),
    Kind.MEMORY: lambda job, memory_mib: replace(job, memory_mib=memory_mib),
    Kind.CHECKPOINT: lambda job, _: replace(job, checkpoint_domain=None),
    Kind.SOFTWARE: lambda job, _: replace(job, software=""),
}
"""The job with the change."""

OFFERED: Mapping[Kind, Callable[[Any], str]] = {
    Kind.SIZE: lambda size: f"Accept {count(size, 'GPUs')} too",
    Kind.CORES: lambda cores: f"Take {count(cores, 'cores')}",
    Kind.MEMORY: lambda memory_mib: f"Take {gib(memory_mib)} of memory",
    Kind.GPU_TYPE: lambda types: f"Allow {' and '.join(types)} too",
}
"""A tenant may change these while the job waits, without submitting it anew. The words of their buttons."""

CONDITIONS: Mapping[Kind, Callable[[Any], str]] = {
    Kind.NONE: lambda _: "As it is,",
    Kind.RELEASE: lambda _: "If it is released,",
    Kind.DEPENDENCY: lambda _: "Without what it waits for",
    Kind.SIZE: lambda size: f"With {count(size, 'GPUs')}",
    Kind.CORES: lambda cores: f"With {count(cores, 'cores')}",
    Kind.GPU_TYPE: lambda types: f"With GPUs of type {' or '.join(types)} allowed too",
    Kind.MEMORY: lambda memory_mib: f"With {gib(memory_mib)} of memory",
    Kind.CHECKPOINT: lambda _: "Without its checkpoint, so from the beginning,",
    Kind.SOFTWARE: lambda _: "With the software of the node itself",
    Kind.WAIT: lambda wait_s: f"In about {minutes(wait_s)}, when running jobs are expected to end,",
}

NO_GAIN: Mapping[str, str] = {
    "same": "It would be over at about the same time as it stands.",
    "later": "It would be over later than as it stands.",
    "limit": "Its time limit would end it before it is done.",
    "length": "It would run longer, and nobody knows for how long it runs: say expected_duration_s to learn more.",
    "start": "It would run longer, and when it starts as it stands is not known.",
}
"""Why no gain is claimed for a change (`scheduler.asking.over.NoGain`)."""
