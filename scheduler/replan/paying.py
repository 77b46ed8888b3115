"""Changes of running jobs that pay (ours; algorithms.md section 6, `gain = efficient`; docs/decisions/0035).

The paper's factor on a changed configuration, F = (T - N*S) / (T + S), compares the cost of restarts with a job's whole time. For
a job that has run for hours that is hardly anything: the longest jobs, which the makespan waits for, were moved seven to eleven
times each, for a few per cent of speed. Here a change must pay within the time for which it is kept in any case:

    f = min(F, 1 - (1 + N / GENTLE) * S / H)

H = the time that the new configuration should stand: KEPT_RESTARTS * S, a round, or as long as the present one has stood,
whichever is longest. N = its restarts so far: after twelve restarts a change must pay for four. What has stood for hours will
probably stand for hours again: without that a job that was moved often in a crowd could never again move to GPUs a quarter
faster, when it was alone and they stood idle. The job's expected end is not used, because a slow job is far from its end for as
long as it is slow.
Both factors are on throughput, and so inside the exponent of G (`placement.gain`).
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
"""After every so many restarts the next change must pay for one restart more."""


def under(work: Work, gain: Gain) -> Work:
    """The work in which the factors of all changeable running jobs follow this rule."""
    if not work.changeable:
        return work

    def own(known: Mapping[int, Participant]) -> dict[int, Participant]:
        return {
            number: replace(each, factor=gain.kept(min(each.factor, paid(each.live, work.parameters, work.now_s))))
            for number, each in known.items()
        }

    return replace(work, participants=own(work.participants), left_out=own(work.left_out))


def paid(live: Running, parameters: Parameters, now_s: float) -> float:
    """The part of H that is left when the restarts that a change must pay for are taken off."""
    restart_s = restart_s_of(live, parameters)
    stays_s = max(kept_for_s(restart_s, parameters.replan_s), now_s - live.started_s)
    return max(0.0, 1.0 - (1.0 + live.restarts / GENTLE) * restart_s / stays_s)
