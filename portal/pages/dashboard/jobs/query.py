"""The address of the job list: filters, order, page and view. A value that means nothing is refused."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlencode

from django.db.models import Count, QuerySet
from django.http import QueryDict
from django.urls import reverse
from django.utils import timezone

from portal.foundation.errors import BerthError
from portal.pages.dashboard.jobs.order import NAMED, SORTS, jobs_ordered, page_by_state, page_sorted
from portal.people.accounts.models import Looked
from portal.people.tenants.models import User
from portal.work.jobs.listing import jobs_for
from portal.work.jobs.models import Job
from portal.work.jobs.searching import TIMES, Between, JobFilters, jobs_found, jobs_kept
from portal.work.jobs.states import FINAL, JobState

PAGE_ROWS = 50
S = JobState
GROUP_ORDER = (S.PENDING, S.PREEMPTED, S.HELD, S.STARTING, S.RUNNING)
GROUPS = (*((state,) for state in GROUP_ORDER), tuple(FINAL))
WITHIN = {
    "1h": ("the last hour", timedelta(hours=1)),
    "24h": ("the last 24 h", timedelta(hours=24)),
    "7d": ("the last 7 days", timedelta(days=7)),
    "30d": ("the last 30 days", timedelta(days=30)),
}
MINE = "mine"
FILTERS = (
    *("owner", "state", "tenant", "reason", "category", "label", "node", "q", "when", "within", "since", "until"),
    "looked",
)
LONGEST = 320
CATEGORIES = tuple(Job.Category.values)


def states_named(states: Collection[str]) -> str:
    """Return states as the address names them: in their order, with commas."""
    return ",".join(state for state in S.values if state in states)


@dataclass(frozen=True)
class Counts:
    """How many jobs the address asks for, all of one moment: by state (of every state, for the chips); and of the asked
    states by reason, and, where the list is sorted by tenant or owner, by its key.
    """

    states: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    named: Counter[int] = field(default_factory=Counter)


@dataclass(frozen=True)
class ListQuery:
    """The address in values. A value that means nothing is refused, not ignored.

    `state`: one state, or several with commas. `when`: one of submitted, started and ended, to which `within`, or `since` and
    `until`, apply. `looked` no: only jobs at whose bad end the reader has not looked.
    """

    owner: str = ""
    state: str = ""
    tenant: str = ""
    reason: str = ""
    category: str = ""
    label: str = ""
    node: str = ""
    q: str = ""
    when: str = ""
    within: str = ""
    since: str = ""
    until: str = ""
    looked: str = ""
    sort: str = ""
    view: str = ""
    page: int = 1

    @classmethod
    def of(cls, given: QueryDict) -> ListQuery:
        page = given.get("page", "1")
        if not (page.isascii() and page.isdigit() and len(page) <= 8 and int(page) > 0):
            raise BerthError("invalid", "`page` must be a whole number from 1.", field="page")
        text = {name: given.get(name, "").strip()[:LONGEST] for name in (*FILTERS, "sort", "view")}
        if "\0" in "".join(text.values()):
            raise BerthError("invalid", "The address holds a character that no filter has.", field="q")
        _known(text["sort"].removeprefix("-"), "sort", tuple(SORTS))
        _known(text["category"], "category", CATEGORIES)
        _known(text["when"], "when", TIMES)
        _known(text["within"], "within", tuple(WITHIN))
        _known(text["looked"], "looked", ("no",))
        text["state"] = _states(text["state"])
        if text["within"] and (text["since"] or text["until"]):
            raise BerthError("invalid", "Give `within`, or `since` and `until`, not both.", field="within")
        for name in ("since", "until"):
            _moment(text[name], name)
        if not (text["within"] or text["since"] or text["until"]):
            text["when"] = ""
        return cls(**text, page=int(page))

    def filters(self) -> JobFilters:
        stretch = self._stretch()
        times = {self.when or TIMES[0]: stretch} if stretch else {}
        owner = None if self.owner in {"", MINE} else self.owner
        return JobFilters(
            owner=owner, category=self.category or None, label=self.label or None, node=self.node or None, **times
        )

    def _stretch(self) -> Between | None:
        if self.within:
            return Between(since=timezone.now() - WITHIN[self.within][1])
        if self.since or self.until:
            return Between(since=_moment(self.since, "since"), until=_moment(self.until, "until"))
        return None

    @property
    def states(self) -> list[str]:
        """The states that are asked for; none: all."""
        return self.state.split(",") if self.state else []

    def counted(self, counts: Counts) -> int:
        """Return how many jobs are asked for."""
        return sum(counts.states[state] for state in self.states or counts.states)

    def counts(self, *, user: User) -> Counts:
        """Count the jobs in one query that an index answers.

        The indexes begin with the tenant or the owner: SQLite takes them for no other grouping, and reads the rows.
        """
        counts = Counts()
        named = self.sort.removeprefix("-")
        first = named if named in NAMED else "owner" if self.owner == MINE else "tenant"
        asked = self.states or S.values
        rows = self.jobs(user=user, with_state=False).order_by().values_list(first, "state", "reason")
        for key, state, reason, count in rows.annotate(n=Count("*")):
            counts.states[state] += count
            if state not in asked:
                continue
            counts.named[key] += count
            if reason:
                counts.reasons[reason] += count
        return counts

    def jobs(self, *, user: User, with_state: bool = True) -> QuerySet[Job]:
        jobs = jobs_for(user=user).top_level()
        if self.owner == MINE:
            jobs = jobs.filter(owner=user)
        if self.tenant:
            jobs = jobs.filter(tenant__name=self.tenant)
        if self.reason:
            jobs = jobs.filter(reason=self.reason)
        if self.q:
            jobs = jobs_found(jobs, self.q)
        if self.looked:
            jobs = jobs.exclude(pk__in=Looked.objects.filter(user=user, what="end").values("job_id"))
        if with_state and self.state:
            jobs = jobs.filter(state__in=self.states)
        return jobs_kept(jobs, self.filters())

    def ordered(self, *, user: User) -> QuerySet[Job]:
        """Return every job that the address asks for, in the list's order."""
        return jobs_ordered(self.jobs(user=user), self.sort, GROUPS)

    def page_of_jobs(self, *, user: User, counts: Counts) -> list[Job]:
        """Return the page's jobs; `counts`: the answer of `counts`."""
        first = (self.page - 1) * PAGE_ROWS
        if not self.sort:
            jobs = self.jobs(user=user, with_state=False)
            asked = self.states or S.values
            groups = [[state for state in group if state in asked] for group in GROUPS]
            once = bool(self.q) or self.filters().looks_apart
            return page_by_state(jobs, groups, counts.states, first, PAGE_ROWS, searched=once)
        jobs, total = self.jobs(user=user), self.counted(counts)
        return page_sorted(jobs, self.sort, first, PAGE_ROWS, total=total, named=counts.named)

    def url(self, **changes: Any) -> str:
        return reverse("job-list") + self.query(**changes)

    def query(self, **changes: Any) -> str:
        values = {name: getattr(self, name) for name in (*FILTERS, "sort", "view")}
        values |= {"page": self.page if self.page > 1 else ""}
        values |= {"page": ""} if changes and "page" not in changes else {}
        kept = {name: value for name, value in (values | changes).items() if value}
        return f"?{urlencode(kept, safe=',')}" if kept else ""

    def chosen(self) -> dict[str, str]:
        """Return the filters in force, by name."""
        return {name: value for name in FILTERS if (value := getattr(self, name))}


def _known(value: str, name: str, known: tuple[str, ...]) -> None:
    if value and value not in known:
        raise BerthError("invalid", f"`{name}` must be one of {', '.join(known)}.", field=name)


def _states(given: str) -> str:
    """Check the states, and return them as `states_named` does."""
    asked = [each.strip() for each in given.split(",")] if given else []
    for each in asked:
        if each not in S.values:
            detail = (
                f"There is no state {each[:20]!r}; there are {', '.join(S.values)}. Name one, or several with commas."
            )
            raise BerthError("invalid", detail, field="state")
    return states_named(asked)


def _moment(value: str, name: str) -> datetime | None:
    """Return a time of the address; one without a zone is in UTC."""
    if not value:
        return None
    try:
        found = datetime.fromisoformat(value)
        return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
    except (ValueError, OverflowError):
        detail = f"`{name}` is not a time such as 2026-01-31T12:00 (UTC)."
        raise BerthError("invalid", detail, field=name) from None
