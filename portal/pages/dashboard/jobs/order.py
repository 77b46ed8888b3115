"""The order of the job list, and one page of it, read from indexes: no page walks over the jobs' wide rows.

A database sorts all rows, or walks over those before, to give fifty of them. So a list is taken apart where an index stands:
by state, by tenant or owner, into jobs that have a moment and those that have none. How many rows each piece has is
counted first (in an index too), and only the pieces that the page touches are asked for it, from the nearer end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.db import connection
from django.db.models import Case, F, FloatField, IntegerField, Value, When
from django.db.models.functions import Coalesce, Greatest
from django.utils import timezone

from portal.foundation.bulk import Epoch, rows_between
from portal.people.tenants.models import Tenant, User

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from django.db.models import QuerySet

    from portal.foundation.bulk import Ask
    from portal.work.jobs.models import Job

SORTS = {
    "job": "id",
    "tenant": "tenant__name",
    "owner": "owner__username",
    "waited": "waited_s",
    "start": "started_at",
    "end": "ended_at",
}
NAMED: dict[str, tuple[Any, str]] = {"tenant": (Tenant, "name"), "owner": (User, "username")}
MOMENTS = {"start": "started_at", "end": "ended_at"}


def jobs_ordered(jobs: QuerySet[Job], sort: str, groups: Sequence[Sequence[str]]) -> QuerySet[Job]:
    """Return the whole list in its order, for the export: by `groups` of states, or by one of `SORTS`."""
    if sort:
        column = _value(sort.removeprefix("-"))
        order = column.desc(nulls_last=True) if sort.startswith("-") else column.asc(nulls_last=True)
        return jobs.order_by(order, "-id")
    places = [When(state__in=states, then=Value(place)) for place, states in enumerate(groups)]
    return jobs.order_by(Case(*places, output_field=IntegerField()), "-id")


def _value(name: str) -> Any:
    """Return the key of one of `SORTS`. Waiting time includes the present wait, as `rounds.read.selectors.waited_s`."""
    if name != "waited":
        return F(SORTS[name])
    stretch_s = Value(timezone.now().timestamp(), output_field=FloatField()) - Epoch("waiting_since")
    return F("waited_s") + Greatest(Coalesce(stretch_s, 0.0), 0.0)


def page_by_state(
    jobs: QuerySet[Job],
    groups: Iterable[Sequence[str]],
    counts: Mapping[str, int],
    first: int,
    size: int,
    *,
    searched: bool = False,
) -> list[Job]:
    """Return `size` jobs from place `first` on, one group of states after the other, each the newest first.

    `searched`: the jobs are those with some text, which is then looked for once and not state by state.
    """
    found: list[Job] = []
    for states in groups:
        count = sum(counts.get(state, 0) for state in states)
        if first < count and len(found) < size:
            own = jobs.filter(state__in=states).order_by("-id")
            found += rows_between(
                own, first, size - len(found), total=count, ask=None if searched else _newest(jobs, states)
            )
        first = max(0, first - count)
    return found


def _newest(jobs: QuerySet[Job], states: Sequence[str]) -> Ask:
    """Return a function that asks for the keys of jobs in these states, newest first: each state's from an index, merged."""
    keys = [jobs.filter(state=state).order_by().values_list("pk", flat=True) for state in sorted(states)]

    def ask(back: bool, start: int, stop: int) -> list[int]:
        order = "pk" if back else "-pk"
        if len(keys) == 1:
            return list(keys[0].order_by(order)[start:stop])
        cut = connection.features.supports_slicing_ordering_in_compound
        one, *others = (each.order_by(order)[:stop] for each in keys) if cut else keys
        return list(one.union(*others, all=True).order_by(order)[start:stop])

    return ask


def page_sorted(
    jobs: QuerySet[Job], sort: str, first: int, size: int, *, total: int, named: Mapping[int, int]
) -> list[Job]:
    """Return `size` of the `total` jobs from place `first` on, by one of `SORTS` (with a minus: downwards), then the newest.

    `named`: how many jobs each tenant or owner has, by its key, where they are sorted by these.
    """
    name, down = sort.removeprefix("-"), sort.startswith("-")
    if name in NAMED:
        return _by_name(jobs, name, down, first, size, named)
    column = SORTS[name]
    order = _value(name).desc() if down else _value(name).asc()
    if name not in MOMENTS:
        return rows_between(jobs.order_by(order, "-id"), first, size, total=total)
    having = jobs.filter(**{f"{column}__isnull": False})
    count = having.order_by().count()
    rest = jobs.filter(**{column: None}).order_by("-id")
    found = rows_between(having.order_by(order, "-id"), first, size, total=count)
    return found + rows_between(rest, max(0, first - count), size - len(found), total=total - count)


def _by_name(jobs: QuerySet[Job], name: str, down: bool, first: int, size: int, counts: Mapping[int, int]) -> list[Job]:
    """Sort by the names of tenants or owners, of which there are few; their jobs are counted, not sorted."""
    model, field = NAMED[name]
    keys = (
        model.objects.filter(pk__in=list(counts)).order_by(f"-{field}" if down else field).values_list("pk", flat=True)
    )
    wanted: list[int] = []
    before = 0
    for key in keys:
        if not wanted and before + counts[key] <= first:
            before += counts[key]
        elif before + sum(counts[each] for each in wanted) < first + size:
            wanted.append(key)
    if not wanted:
        return []
    own = jobs.filter(**{f"{name}__in": wanted})
    order = [f"-{SORTS[name]}" if down else SORTS[name]] if len(wanted) > 1 else []
    return rows_between(own.order_by(*order, "-id"), first - before, size, total=sum(counts[each] for each in wanted))
