"""Celery's errands here; beat repeats them, so a lost message costs minutes of freshness and nothing else."""

from celery import shared_task

from portal.planning.estimation.distilling import attempts_distil
from portal.planning.estimation.keeping import signatures_expire
from portal.planning.estimation.links import links_tend
from portal.planning.estimation.probes import probes_take
from portal.planning.estimation.speeds import speeds_refresh


@shared_task(name="estimation.speeds", expires=60)
def speeds() -> int:
    return speeds_refresh()


@shared_task(name="estimation.links", expires=60)
def links() -> int:
    """Assume, refine and take what probes measured."""
    return links_tend() + probes_take()


@shared_task(name="estimation.distil", expires=60)
def distil() -> int:
    return attempts_distil()


@shared_task(name="estimation.expire")
def expire() -> int:
    return signatures_expire()
