"""The page of figures over time: active rates by type and node, waits over run times, fragments, the queue. Live."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any

from django.db.models import Count, DateTimeField, F, IntegerField, Value
from django.db.models.functions import Cast, Floor
from django.urls import reverse
from django.utils import timezone

from portal.foundation.errors import NotFound
from portal.pages.dashboard.parts import lines
from portal.pages.dashboard.parts.formatting import percent
from portal.people.tenants.selectors import zone_of
from portal.planning.rounds.read.series import course_begin, course_since, range_of
from portal.planning.rounds.record.metrics import hold_s
from portal.planning.rounds.settings.knobs import knobs_current
from portal.work.jobs.models import Job
from portal.work.jobs.queue_counts import SecondsUntil
from portal.work.jobs.states import FINAL

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from datetime import datetime

    from portal.pages.dashboard.parts.context import PlotContext
    from portal.pages.dashboard.parts.lines import Drawing, Look
    from portal.people.tenants.models import User
    from portal.planning.rounds.read.series import Stretch

TODAY = "today"
RANGES: Mapping[str, timedelta] = {
    TODAY: timedelta(days=1),
    "1h": timedelta(hours=1),
    "24h": timedelta(hours=24),
    "7d": timedelta(days=7),
    "90d": timedelta(days=90),
}
SHOWN = {"1h": "1 h", TODAY: "Today", "24h": "24 h", "7d": "7 d", "90d": "90 d"}
ENDED_EVERY_S = {"1h": 300, TODAY: 900, "24h": 900, "7d": 7200, "90d": 86_400}
EVERY_WORDS = {300: "5 minutes", 900: "15 minutes", 7200: "2 hours", 86_400: "a day"}
TOKENS = ("plot-1", "plot-2", "plot-3", "plot-4")
"""A plot has at most one line for each."""
PERCENT = {"low": 0, "high": 100, "ticks": [0, 50, 100], "unit": "%", "digits": 0}
PLOTS = {
    "gpu": ("GPU active rate", "share of GPUs held, by type"),
    "cpu": ("CPU active rate", "share of cores held"),
    "wait": ("Wait over run time", "RAQLR of ended jobs, and of those that wait"),
    "fragments": ("Fragments", "free GPUs that no waiting job could use"),
    "waiting": ("Jobs waiting", ""),
    "ended": ("Jobs ended", ""),
}
NAMES: Mapping[str, Sequence[str]] = {
    "gpu": ("types", "gpu_active_rate"),
    "cpu": ("types", "cpu_active_rate"),
    "wait": ("raqlr", "live_lr_mean"),
    "fragments": ("fragments_cores", "fragments_scattered", "fragments_kept"),
    "waiting": ("queue_length",),
    "ended": (),
}
"""The figures that each plot draws: no others are read."""
FRAGMENTS = {"scattered": "plot-2", "cores": "plot-1", "kept": "plot-3"}
CSV = (
    "gpu_active_rate cpu_active_rate utilisation raqlr live_lr_mean fragments_cores fragments_scattered fragments_kept"
)
COLUMNS = (*CSV.split(), "queue_length")


@dataclass
class Span:
    """A range of time that ends now, and the figures of these names in it. It begins at the first figure within the range."""

    text: str | None
    user: User
    names: Sequence[str] = ()

    def __post_init__(self) -> None:
        self.name, length = range_of(self.text, RANGES)
        self.now = timezone.now()
        midnight = self.now.astimezone(zone_of(self.user)).replace(hour=0, minute=0, second=0, microsecond=0)
        self.asked = midnight if self.name == TODAY else self.now - length

    @cached_property
    def course(self) -> list[Stretch]:
        hold = hold_s(tick_s=knobs_current()["tick_s"])
        return course_since(since=self.asked, now=self.now, hold_s=hold, names=self.names)

    @cached_property
    def first_at(self) -> datetime | None:
        """When the first figure begins. None is read for it."""
        return course_begin(since=self.asked, now=self.now)

    @property
    def since(self) -> datetime:
        return self.first_at or self.asked

    @property
    def seconds(self) -> tuple[float, float]:
        return self.since.timestamp(), self.now.timestamp()

    @property
    def query(self) -> str:
        return "" if self.name == TODAY else f"?range={self.name}"

    @cached_property
    def types(self) -> list[str]:
        """The GPU types with most GPUs, as the last figures have them."""
        return list(next((own for each in reversed(self.course) if (own := each.figures.get("types"))), {}))[
            : len(TOKENS)
        ]


def metrics_context(span: Span) -> dict[str, Any]:
    url = reverse("rounds-metrics")
    links = {name: url if name == TODAY else f"{url}?range={name}" for name in SHOWN}
    return {
        "ranges": [
            {"value": name, "label": label, "selected": name == span.name, "url": links[name]}
            for name, label in SHOWN.items()
        ],
        "first_at": span.first_at.isoformat() if span.first_at else None,
        "plots": [_plot(name, span) for name in PLOTS],
        "query": span.query,
    }


def _plot(name: str, span: Span) -> PlotContext:
    title, note = PLOTS[name]
    return {
        "name": name,
        "title": title,
        "note": f"in {EVERY_WORDS[ENDED_EVERY_S[span.name]]}" if name == "ended" else note,
        "url": reverse("rounds-figure", args=[name]) + span.query,
        "height_px": 176,
        "topics": "planning" if span.name in {"1h", TODAY} else "round",
    }


def metrics_figure(name: str, text: str | None, user: User) -> Drawing:
    """Return the drawing over a range as JSON for lines.js. Raises NotFound for an unknown name."""
    if name not in NAMES:
        raise NotFound("figure")
    span = Span(text, user, NAMES[name])
    if name in {"gpu", "cpu"}:
        return _drawing(_rates(name, span), span, PERCENT)
    if name == "wait":
        drawn = [_line("ended", "plot-1", span, "raqlr"), _line("waiting", "plot-2", span, "live_lr_mean")]
        return _drawing(drawn, span, {"low": 0, "digits": 2})
    if name == "fragments":
        words = {"cores": "no cores", "kept": "kept for a job"}
        return _drawing(
            [
                _line(words.get(kind, kind), token, span, f"fragments_{kind}", look="area")
                for kind, token in FRAGMENTS.items()
            ],
            span,
        )
    return _drawing(
        [_ended(span) if name == "ended" else _line("jobs", "plot-1", span, "queue_length", look="area")], span
    )


def _drawing(drawn: list[Drawing], span: Span, y: Drawing | None = None) -> Drawing:
    """Put the lines over the span, with room for the longest words at a line's end."""
    words = [len(each["end"]) if isinstance(each["end"], str) else 4 for each in drawn]
    return lines.over_time(drawn, span.seconds, y or {"low": 0}, right_px=round(14 + 6.2 * max(words)))


def _rates(name: str, span: Span) -> list[Drawing]:
    """A line a type; of the whole cluster where none was recorded yet."""
    key, whole = ("gpus", "gpu_active_rate") if name == "gpu" else ("cores", "cpu_active_rate")
    if not span.types:
        return [_line("all", "plot-1", span, whole, times=100.0)]
    return [_type_line(kind, key, token, span) for kind, token in zip(span.types, TOKENS, strict=False)]


def _type_line(kind: str, key: str, token: str, span: Span) -> Drawing:
    x, y = _points(span, lambda figures: ((figures.get("types") or {}).get(kind) or {}).get(key), 100.0)
    last = next((value for value in reversed(y) if value is not None), None)
    return lines.line(kind, token, x, y, end=f"{kind} {percent(last)}" if last is not None else False)


def _line(name: str, token: str, span: Span, key: str, *, look: Look = "line", times: float = 1.0) -> Drawing:
    x, y = _points(span, lambda figures: figures.get(key), times, 1 if look == "area" else 3)
    return lines.line(name, token, x, y, look=look, end=True if name == "jobs" else name)


def _points(
    span: Span, value: Callable[[dict[str, Any]], float | None], times: float = 1.0, digits: int = 1
) -> tuple[list[float], list[float | None]]:
    """Return each figure at the beginning of its stretch, and the last one also at its end, so that the line reaches it."""
    ends = [(each.start, value(each.figures)) for each in span.course]
    if span.course:
        ends.append((span.course[-1].until, value(span.course[-1].figures)))
    return [at.timestamp() for at, _ in ends], [
        None if each is None else round(each * times, digits) for _, each in ends
    ]


def _ended(span: Span) -> Drawing:
    """Count the jobs that ended in each stretch since the first figure. One query."""
    every_s, (start_s, now_s) = ENDED_EVERY_S[span.name], span.seconds
    since = Value(span.since, output_field=DateTimeField())
    place = Cast(Floor(SecondsUntil(since, F("ended_at")) / every_s), IntegerField())
    jobs = Job.objects.runnable().filter(ended_at__gte=span.since, ended_at__lte=span.now, state__in=FINAL)
    counts = dict(jobs.order_by().annotate(place=place).values_list("place").annotate(n=Count("*")))
    places = range(int((now_s - start_s) // every_s) + 1)
    x, y = [start_s + every_s * place for place in places], [float(counts.get(place, 0)) for place in places]
    return lines.line("jobs", "plot-3", [*x, now_s], [*y, y[-1]], look="area", end=True)


def metrics_csv(span: Span) -> Iterator[list[object]]:
    """Yield the heading and a row a stretch of time; shares are 0 to 1."""
    zone = zone_of(span.user)
    yield ["at", *COLUMNS, *(f"{kind} {key}" for kind in span.types for key in ("gpus", "cores"))]
    for each in span.course:
        own = each.figures.get("types") or {}
        types = [(own.get(kind) or {}).get(key) for kind in span.types for key in ("gpus", "cores")]
        at = each.start.astimezone(zone).isoformat(timespec="seconds")
        yield [at, *(each.figures.get(name) for name in COLUMNS), *types]
