"""What is forgotten: a job's own tables a while after its end, and a label's that no run has used for long."""

from __future__ import annotations

from datetime import timedelta

from django.db.models import Q
from django.utils import timezone

from portal.planning.estimation.models import PairSpeed, Signature
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
