"""Changes of running jobs that pay (ours; algorithms.md section 6, `gain = efficient`; docs/decisions/0035).

The paper's factor on a changed configuration, F = (T - N*S) / (T + S), asks what restarts cost of a job's whole time: for
one that has run for hours hardly anything, so that the longest jobs, which the makespan waits for, were moved for a few
per cent of speed, seven to eleven times each. Here a change must pay within the time for which it surely stands:

    f = min(F, 1 - (1 + N / GENTLE) * S / H)

H = KEPT_RESTARTS * S, a round at least; N = its restarts so far: after twelve a change must pay four at once. The job's
expected end is not asked: one that crawls is far from it for as long as it crawls.
Both are of throughput, and so inside the exponent of G (`placement.gain`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from scheduler.replan.participants import kept_for_s, restart_s_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scheduler.model import Running
    from scheduler.parameters import Parameters
    from scheduler.placement.gain import Gain
    from scheduler.placement.running import Participant
    from scheduler.placement.work import Work

GENTLE = 4.0
"""After so many restarts the next change must pay one more."""


def under(work: Work, gain: Gain) -> Work:
    """The planning with what a change leaves of G by this rule, for all running jobs that may be changed."""
    if not work.changeable:
        return work

    def own(known: Mapping[int, Participant]) -> dict[int, Participant]:
        return {
            number: replace(each, factor=gain.kept(min(each.factor, paid(each.live, work.parameters))))
            for number, each in known.items()
        }

    return replace(work, participants=own(work.participants), left_out=own(work.left_out))


def paid(live: Running, parameters: Parameters) -> float:
    """The part of the throughput that is left of H when the restarts that a change must pay are taken off."""
    restart_s = restart_s_of(live, parameters)
    stays_s = kept_for_s(restart_s, parameters.replan_s)
    return max(0.0, 1.0 - (1.0 + live.restarts / GENTLE) * restart_s / stays_s)
