"""The query of an array's page: its tasks, their order, its columns and its plot."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from portal.foundation.errors import BerthError
from portal.work.jobs.states import RETRIED
from portal.work.sweeps.models import NAME_CHARS

if TYPE_CHECKING:
    from django.http import QueryDict

ORDER = ("fail", "run", "wait", "done", "stop")
BEYOND = 10**9
VALUES = ("last", "best")
MOST_SHOWN = 12


@dataclass(frozen=True)
class TaskQuery:
    """The address in values: `state` is one of ORDER, a bad end or empty; `first` begins the list at that task, in their
    order. `sort`: as `sweeps.selectors.in_order` has it. `against`: the parameter that the plot's metric is drawn over.
    """

    state: str = ""
    page: int = 1
    first: int | None = None
    sort: str = ""
    metric: str = ""
    against: str = ""
    value: str = "last"
    show: tuple[str, ...] = ()

    @classmethod
    def of(cls, given: QueryDict) -> TaskQuery:
        state = given.get("state", "")
        if state and state not in {*ORDER, *RETRIED}:
            known = ", ".join((*ORDER, *sorted(RETRIED)))
            raise BerthError("invalid", f"`state` must be one of {known}.", field="state")
        first = _whole(given.get("from"), "from")
        page = max(1, _whole(given.get("page"), "page") or 1)
        value = given.get("value") or "last"
        if value not in VALUES:
            raise BerthError("invalid", "`value` must be last or best.", field="value")
        names = {name: _name(given.get(name, ""), name) for name in ("metric", "against")}
        show = tuple(_column(each, "show") for each in given.getlist("show")[:MOST_SHOWN])
        sort = _column(given.get("sort", ""), "sort")
        return cls(state=state, page=page, first=first, sort=sort, value=value, show=show, **names)

    def url(self, **changes: Any) -> str:
        values = {
            "state": self.state,
            "from": self.first,
            "page": self.page if self.page > 1 else None,
            "sort": self.sort,
            "metric": self.metric,
            "against": self.against,
            "value": self.value if self.value != "last" else None,
            "show": self.show,
        } | changes
        kept = {name: value for name, value in values.items() if value not in (None, "", ())}
        return f"?{urlencode(kept, doseq=True)}" if kept else "?"


def _whole(raw: str | None, name: str) -> int | None:
    if not raw:
        return None
    if not (raw.isascii() and raw.isdigit() and len(raw) <= 12 and int(raw) < BEYOND):
        raise BerthError("invalid", f"`{name}` must be a whole number below {BEYOND}.", field=name)
    return int(raw)


def _name(raw: str, name: str) -> str:
    if len(raw) > NAME_CHARS or "\0" in raw:
        raise BerthError("invalid", f"`{name}` must have at most {NAME_CHARS} characters and no NUL.", field=name)
    return raw


def _column(raw: str, field: str) -> str:
    """Check "task", "ran", "p:NAME", "m:NAME" or "steps:NAME"; `sort` may begin with "-"."""
    kind, _, name = raw.removeprefix("-" if field == "sort" else "\0").partition(":")
    _name(raw, field)
    if raw and not ((kind in {"task", "ran"} and not name) or (kind in {"p", "m", "steps"} and name)):
        raise BerthError("invalid", f"`{field}` must be task, ran, p:NAME, m:NAME or steps:NAME.", field=field)
    return raw
