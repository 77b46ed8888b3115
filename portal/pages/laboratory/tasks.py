"""The laboratory's errands, on a queue and a worker of their own: a simulation of half an hour keeps nothing waiting."""

from celery import shared_task

from portal.pages.laboratory.selectors import simulations_open
from portal.planning.rounds.settings.knobs import knobs_current
from portal.planning.sharing.proposing import proposal_wanted

RETRAIN_S = 1200
"""Twice what a training may take: it gives up by itself."""
LONGEST_S = 24 * 3600
"""A simulation that takes longer hangs: its process is ended, and the next look takes it for broken off."""


@shared_task(name="simulations.next", time_limit=LONGEST_S)
def work() -> int | None:
    """Work on the next simulation, if one waits. Only then the simulator is loaded: most Berths are seldom asked for one."""
    if not simulations_open():
        return None
    from portal.pages.laboratory.run.worker import simulation_next

    return simulation_next()


@shared_task(name="simulations.retrain_sharing", time_limit=RETRAIN_S)
def retrain_sharing() -> int | None:
    """Train the learned sharing policy again, if an operator asked for it or it is due."""
    if not proposal_wanted():
        return None
    from portal.pages.laboratory.retraining import retrain_next

    return retrain_next()


@shared_task(name="simulations.expire")
def expire() -> int:
    from portal.pages.laboratory.services import expire as simulations_expire  # late, as above

    return simulations_expire(keep_days=knobs_current()["laboratory_keep_days"])
