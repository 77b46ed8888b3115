"""Changes of running jobs that pay (ours; algorithms.md section 6, `gain = efficient`; docs/decisions/0035).

The paper's factor on a changed configuration, F = (T - N*S) / (T + S), compares the cost of restarts with a job's whole time. For
a job that has run for hours that is hardly anything: the longest jobs, which the makespan waits for, were moved seven to eleven
times each, for a few per cent of speed. Here a change must pay within the time for which it is kept in any case:

    f = min(F, 1 - (1 + N / GENTLE) * S / H)

H = the time that the new configuration should stand: the longest of KEPT_RESTARTS * S, a round, and the time that the present
one has stood. N = its restarts so far: after twelve restarts a change must pay for four. A configuration that has stood for hours
will probably stand for hours again. Without that a job that was moved often in a crowd could never again move to idle GPUs a
quarter faster. The job's expected end is not used, because a slow job is far from its end for as long as it is slow.

Growth to more GPUs than a job ever had, at a speed not known yet, need not be earned by a long past (docs/decisions/0223).
F asks of a change of a job of two minutes that it be half as fast again; so one whose speed is only found out would have half of
its life behind it before it knows where it runs well. Each such size is new to it once, so that neither H nor N has to hold it
back. Where it tells its work, the restart must pay within the rest of the run, R seconds at the present speed:

    f = 1 - S / R

All factors are on throughput, and so inside the exponent of G (`placement.objective`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scheduler.copies import replace
from scheduler.placement.running import Factors, Participant
from scheduler.replan.participants import first_s_of, kept_for_s, restart_factor, restart_s_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scheduler.estimator.estimator import Estimator
    from scheduler.model import Configuration, Running
    from scheduler.parameters import Parameters
    from scheduler.placement.objective import Gain
    from scheduler.placement.work import Work

GENTLE = 4.0
"""After every four restarts the next change must pay for one restart more."""


def under(work: Work, gain: Gain) -> Work:
    """The work in which the factors of all changeable running jobs follow this rule."""
    if not work.changeable:
        return work

    def own(known: Mapping[int, Participant]) -> dict[int, Participant]:
        return {
            number: replace(
                each, factors=found._replace(usual=gain.kept(found.usual), teaching=gain.kept(found.teaching))
            )
            for number, each in known.items()
            for found in (factors(each.live, each.present, work, work.now_s),)
        }

    return replace(work, participants=own(work.participants), left_out=own(work.left_out))


def factors(live: Running, present: Configuration, work: Work, at_s: float) -> Factors:
    """The part of the speed that a restart leaves at that time; under the exponent of G `Gain.kept` of it.

    `present`: as the job runs now.
    """
    restart_s = restart_s_of(live, work.parameters)
    usual = min(restart_factor(at_s - first_s_of(live), live.restarts, restart_s), paid(live, work.parameters, at_s))
    left_s = left_to_run_s(live, present, work.estimator)
    if live.description is None or left_s is None:
        return Factors(usual, usual)
    teaching = 1.0 - restart_s / left_s if left_s > restart_s else 0.0
    return Factors(usual, teaching, max(live.gpus, live.description.most_gpus))


def left_to_run_s(live: Running, present: Configuration, estimator: Estimator) -> float | None:
    """Seconds to its end at its present speed; None where the job does not tell its work, or nothing is known of its speed."""
    job = live.description
    if job is None or job.total_samples is None or not estimator.is_known(job):
        return None
    return job.total_samples * (1.0 - min(1.0, job.done_fraction)) / present.throughput


def paid(live: Running, parameters: Parameters, now_s: float) -> float:
    """The part of H that is left when the restarts that a change must pay for are taken off."""
    restart_s = restart_s_of(live, parameters)
    stays_s = max(kept_for_s(restart_s, parameters.replan_s), now_s - live.started_s)
    return max(0.0, 1.0 - (1.0 + live.restarts / GENTLE) * restart_s / stays_s)
