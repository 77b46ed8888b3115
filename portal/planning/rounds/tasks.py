"""Celery's errands here. A message carries nothing that matters: a lost one is made good by the next tick."""

from datetime import datetime, timedelta

from celery import shared_task
from django.db.models import Min
from django.utils import timezone

from portal.planning.rounds.asking.first_starts import first_starts_refresh
from portal.planning.rounds.asking.forecasting import forecasts_refresh, records_expire
from portal.planning.rounds.contention.watching import relief_pass
from portal.planning.rounds.models import Planning, Round
from portal.planning.rounds.planning.memory import notes_expire
from portal.planning.rounds.planning.run import planning_run
from portal.planning.rounds.record.explanations import explanations_expire
from portal.planning.rounds.settings.knobs import knobs_current
from portal.planning.rounds.tuning.searching import tuning_pass


@shared_task(name="rounds.plan")
def plan(nudged_at: str | None = None) -> int | None:
    made = planning_run(nudged_at=datetime.fromisoformat(nudged_at) if nudged_at else None)
    return made.number if made else None


@shared_task(name="rounds.expire")
def expire() -> int:
    """Delete plannings older than the operator keeps them, rounds without any past their own time, old details."""
    knobs, now = knobs_current(), timezone.now()
    limit = now - timedelta(days=knobs["planning_keep_days"])
    old = Planning.objects.filter(started_at__lt=limit)
    # The kept rows may be stored as differences to old ones.
    if (first := Planning.objects.filter(started_at__gte=limit).aggregate(n=Min("keyframe"))["n"]) is not None:
        old = old.filter(number__lt=first)
    count, _ = old.delete()
    Round.objects.filter(plannings=None, started_at__lt=now - timedelta(days=knobs["round_keep_days"])).delete()
    explanations_expire()
    records_expire()
    notes_expire()
    return count


@shared_task(name="rounds.forecast")
def forecast() -> int | None:
    """Predict when waiting jobs start; None while another worker does, or a planning runs."""
    return forecasts_refresh()


@shared_task(name="rounds.first_starts")
def first_starts() -> int | None:
    """Work out when a job of each size could start, for the cluster's page; None while another worker does."""
    return first_starts_refresh()


@shared_task(name="rounds.tune")
def tune() -> int:
    """Let core tuning go on; return how many steps were over."""
    return tuning_pass()


@shared_task(name="rounds.relieve")
def relieve() -> int:
    """Look at nodes whose memory is pressed; return how many jobs were slowed, slowed further or let go."""
    return relief_pass()
