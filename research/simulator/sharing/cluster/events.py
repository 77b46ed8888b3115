"""A workload whose jobs take milliseconds or hours: each arrival and each end is a moment of its own.

The sharing policies are those of `scheduler.sharing`; who preempts and moves jobs stands in `rivals`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from research.simulator.sharing.cluster.tally import TasksTally
from research.simulator.sharing.run import Run
from scheduler.model import PairSeen
from scheduler.sharing.measured import NOTHING, RECORDS, Measured

if TYPE_CHECKING:
    from collections.abc import Sequence

    from research.simulator.sharing.run import Setting
    from scheduler.sharing.policy import Policy
    from scheduler.simulator.sharing.laws import Law
    from scheduler.simulator.sharing.world import SharingJob

LEAST_S = 1e-6
RECORD_S = 60.0
"""Interval at which each training writes down its speed."""


class Events(Run):
    """As `Run`, with steps that end at heartbeats (`setting.step_s`), arrivals and ends, whichever comes first.

    `accepted`: the harm that is accepted of pairs which the run measures by itself, as the service does; None: it measures none.
    """

    tally: TasksTally

    def __init__(
        self,
        policy: Policy,
        jobs: Sequence[SharingJob],
        setting: Setting,
        law: Law | None = None,
        *,
        accepted: float | None = None,
    ) -> None:
        super().__init__(policy, jobs, setting, law)
        self._beat_s, self._record_s, self._accepted = setting.step_s, RECORD_S, accepted
        self._pairs: dict[tuple[str, str, str], PairSeen] = {}
        self._alone: dict[str, int] = {}

    def _tally(self) -> TasksTally:
        return TasksTally(self.jobs, self.setting.n_gpus)

    def _span_s(self) -> float:
        coming_s = self.jobs[self._coming[0]].arrival_s if self._coming else self._beat_s
        return max(LEAST_S, min(self._beat_s, coming_s, self.now_s + self.world.left_s()) - self.now_s)

    def _sample(self) -> None:
        if self.now_s < self._beat_s - LEAST_S:
            return
        self._beat_s += self.setting.step_s
        super()._sample()
        if self._accepted is not None and self.now_s >= self._record_s - LEAST_S:
            self._record_s += RECORD_S
            self._record()

    def _record(self) -> None:
        """Note who ran alone, and how much slower each of two was whose speed alone is known (section 11, Interference)."""
        ran = [int(job) for job in self.world.ran if self.world.place[job] >= 0 and not self.jobs[job].critical]
        here: dict[int, list[int]] = {}
        for job in ran:
            here.setdefault(int(self.world.place[job]), []).append(job)
        for people in here.values():
            names = [self.jobs[job].usage.signature for job in people]
            if len(people) == 1:
                self._alone[names[0]] = self._alone.get(names[0], 0) + 1
            elif len(people) == 2:
                for own, other, job in ((names[0], names[1], people[0]), (names[1], names[0], people[1])):
                    if self._alone.get(own, 0) >= RECORDS:
                        self._pair((own, other, ""), float(self.world.slowdown[job]))

    def _pair(self, key: tuple[str, str, str], slowdown: float) -> None:
        seen = self._pairs.get(key)
        count, mean = (0, 0.0) if seen is None else (seen.count, seen.slowdown)
        self._pairs[key] = PairSeen((mean * count + slowdown) / (count + 1), count + 1, 0.0)

    def _measured(self) -> Measured:
        return NOTHING if self._accepted is None else Measured.of(self._pairs, self._accepted)
