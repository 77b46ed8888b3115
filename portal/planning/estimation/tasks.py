"""Celery's errands here; beat repeats them, so a lost message costs minutes of freshness and nothing else."""

from __future__ import annotations

from datetime import timedelta

from celery import shared_task
from django.db.models import Q
from django.utils import timezone

from portal.planning.estimation.distilling import attempts_distil
from portal.planning.estimation.links import links_tend
from portal.planning.estimation.models import PairSpeed, Signature
from portal.planning.estimation.probes import probes_take
from portal.planning.estimation.speeds import speeds_refresh
from portal.work.jobs.states import FINAL

KEEP_ENDED = timedelta(days=7)
"""A job that ended may be requeued by its owner, and its page shows what was measured."""
KEEP_UNUSED = timedelta(days=365)


def signatures_expire() -> int:
    """Delete what is no longer of use to any job; return how many signatures went."""
    now = timezone.now()
    over = Q(job__isnull=False, job__state__in=FINAL, job__ended_at__lt=now - KEEP_ENDED)
    PairSpeed.objects.filter(at__lt=now - KEEP_UNUSED).delete()
    count = 0
    for row in Signature.objects.filter(over | Q(job=None, used_at__lt=now - KEEP_UNUSED)):
        row.delete()
        count += 1
    return count


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
