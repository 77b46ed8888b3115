"""The effect of each knob's last change: the week before it against the week after it, from jobs that ended.

One query over jobs and one over attempts, grouped by the hour, for all knobs together; the sums are kept for minutes.
A change counts from its hour on, and that hour itself counts on neither side.
"""

from __future__ import annotations

import functools
import math
import operator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from django.db.models import Count, F, FloatField, IntegerField, Max, Q, Sum, Value
from django.db.models.functions import Cast, Floor

from portal.foundation.events.shared import Sharing
from portal.work.jobs.models import Attempt, Job
from portal.work.jobs.queue_counts import SecondsUntil

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

HOUR_S, WEEK_H, LEAST_H, LEAST_JOBS = 3600, 168, 72, 50
OLDEST = timedelta(days=90)
KEPT_S = 300.0
ERRORS = 2.0
"""Standard errors within which a difference of means is noise."""
LONGEST_NOISE = 0.25
"""The longest wait is one job's: up to this difference it is noise."""
FIGURES = (("waits", "waiting"), ("longest", "longest wait"), ("runs", "runs"), ("held", "cores held"))


@dataclass
class Sums:
    """Sums over jobs or attempts that ended in some hours: count, sum and sum of squares of each figure; the largest wait."""

    count: int = 0
    attempts: int = 0
    waits: float = 0.0
    waits_2: float = 0.0
    runs: float = 0.0
    runs_2: float = 0.0
    held: float = 0.0
    held_2: float = 0.0
    longest: float = 0.0

    def add(self, row: Mapping[str, Any]) -> None:
        for name, value in row.items():
            if name == "longest":
                self.longest = max(self.longest, value or 0.0)
            elif name != "hour":
                setattr(self, name, getattr(self, name) + (value or 0))

    def mean(self, name: str) -> tuple[float, float]:
        """Return the mean of a figure and the square of its standard error."""
        count = self.attempts if name == "held" else self.count
        if not count:
            return 0.0, 0.0
        mean = getattr(self, name) / count
        return mean, max(0.0, getattr(self, f"{name}_2") / count - mean * mean) / count


def effects_of(changes: Mapping[str, datetime], now: datetime) -> dict[str, dict[str, Any]]:
    """Return the effect of each change by knob: its words with their tone and `all` in one line, or `early`, why it has none."""
    recent = {name: at for name, at in changes.items() if now - OLDEST < at <= now}
    if not recent:
        return {}
    hours = {name: int(at.timestamp()) // HOUR_S for name, at in recent.items()}
    last = int(now.timestamp()) // HOUR_S
    spans = [(hour - WEEK_H, min(hour + WEEK_H, last) + 1) for hour in set(hours.values())]
    key = ",".join(str(hour) for hour in sorted(set(hours.values())))
    rows = Sharing().get(
        f"knob-effects:{last}:{key}", lambda _: ended_by_hour(spans), every_s=KEPT_S, longest_s=2 * KEPT_S
    )
    return {name: _effect(rows, hour, now.timestamp() / HOUR_S) for name, hour in hours.items()}


def ended_by_hour(spans: Iterable[tuple[int, int]]) -> list[dict[str, Any]]:
    """Return the sums of each hour within spans of hours since 1970. Two queries."""
    span = _within(spans)
    jobs = _by_hour(Job.objects.filter(span, array_size=None, started_at__isnull=False))
    waits, runs = F("waited_s"), F("ran_s")
    found = list(
        jobs.annotate(
            count=Count("pk"),
            waits=Sum(waits),
            waits_2=Sum(waits * waits),
            longest=Max(waits),
            runs=Sum(runs),
            runs_2=Sum(runs * runs),
        )
    )
    attempts = _by_hour(Attempt.objects.filter(span, kind=Attempt.Kind.RUN, started_at__isnull=False))
    held = Cast("cores", FloatField())
    sums = attempts.annotate(attempts=Count("pk"), held=Sum(held), held_2=Sum(F("cores") * F("cores")))
    return [*found, *sums]


def _within(spans: Iterable[tuple[int, int]]) -> Q:
    def moment(hour: int) -> datetime:
        return datetime.fromtimestamp(hour * HOUR_S, UTC)

    return functools.reduce(
        operator.or_, (Q(ended_at__gte=moment(first), ended_at__lt=moment(end)) for first, end in spans)
    )


def _by_hour(rows: Any) -> Any:
    since = SecondsUntil(Value(datetime.fromtimestamp(0, UTC)), F("ended_at"))
    # A thousandth of a second more: a moment that the database has as a fraction of a day is not put into the hour before.
    hour = Cast(Floor((since + 0.001) / float(HOUR_S)), IntegerField())
    return rows.order_by().annotate(hour=hour).values("hour")


def _effect(rows: Iterable[Mapping[str, Any]], hour: int, now_h: float) -> dict[str, Any]:
    before, after = Sums(), Sums()
    for row in rows:
        if hour - WEEK_H <= row["hour"] < hour:
            before.add(row)
        elif hour < row["hour"] <= hour + WEEK_H:
            after.add(row)
    if now_h - hour < LEAST_H or min(before.count, after.count) < LEAST_JOBS:
        hopes = now_h - hour < (WEEK_H if before.count >= LEAST_JOBS else LEAST_H)  # more jobs may still come
        return {"early": f"too {'early' if hopes else 'few jobs'} to say", "told": [], "all": ""}
    told = [(label, *_difference(name, before, after)) for name, label in FIGURES]
    clear = [each for each in told if each[2]] or [each for each in told if each[0] in {"waiting", "runs"}]
    words = [(f"{label}\u00a0{_percent(change)}", tone) for label, change, tone in clear[:3]]
    everything = ", ".join(f"{label} {_percent(change)}" for label, change, _ in told)
    return {"early": "", "told": words, "all": f"{everything}; {before.count} jobs before, {after.count} after"}


def _difference(name: str, before: Sums, after: Sums) -> tuple[float, str]:
    """Return the change as a part of the old value, and `run` if it is better, `wait` if worse, "" within noise."""
    if name == "longest":
        was, now, noise = before.longest, after.longest, LONGEST_NOISE * before.longest
    else:
        (was, was_error), (now, now_error) = before.mean(name), after.mean(name)
        noise = ERRORS * math.sqrt(was_error + now_error)
    change = (now - was) / was if was else 0.0
    if abs(now - was) <= noise or abs(change) < 0.01:
        return change, ""
    return change, "run" if now < was else "wait"


def _percent(change: float) -> str:
    whole = round(100 * change)
    sign = "+" if whole > 0 else "\u2212" if whole else "\u00b1"
    return f"{sign}{abs(whole)}\u00a0%"
