"""The parts that all views of the REST API share: right to call, bodies, query strings, paging, and a token's tenancy."""

from __future__ import annotations

import base64
import binascii
import json
from datetime import UTC, datetime
from functools import reduce
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from django.core.exceptions import ValidationError
from django.db import connection
from django.db.models import Q
from django.utils.dateparse import parse_datetime
from rest_framework.negotiation import BaseContentNegotiation
from rest_framework.renderers import JSONRenderer
from rest_framework.views import APIView

from portal.foundation import checks
from portal.foundation.api.parsers import StrictJSONParser, request_object
from portal.foundation.bulk import rows_between
from portal.foundation.errors import BerthError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from django.db.models import QuerySet
    from rest_framework.parsers import BaseParser
    from rest_framework.renderers import BaseRenderer
    from rest_framework.request import Request


MAX_KEY_CHARS = 255


class JsonAlways(BaseContentNegotiation):
    """Answer in JSON whatever `Accept` says, so that a browser that opens a path sees the answer."""

    def select_parser(self, request: Request, parsers: Sequence[BaseParser]) -> BaseParser:
        return parsers[0]

    def select_renderer(
        self,
        request: Request,
        renderers: Sequence[BaseRenderer],
        format_suffix: str | None = None,
    ) -> tuple[BaseRenderer, str]:
        return renderers[0], renderers[0].media_type


class ApiView(APIView):
    """A view names the scopes of its reads and its changes; None means that any token will do.

    The settings name the classes that find the caller and check the scopes.
    """

    parser_classes = [StrictJSONParser]
    renderer_classes = [JSONRenderer]
    content_negotiation_class = JsonAlways
    metadata_class = None
    read_scope: str | None = None
    write_scope: str | None = None


def body_of(request: Request, *, known: Sequence[str] = ()) -> dict[str, Any]:
    """Return the object of an optional body that may hold `known` names only."""
    found = request_object(request._request, optional=True)  # noqa: SLF001 - the public way to the raw request
    for name in found:
        if name not in known:
            knows = f"it knows {', '.join(known)}" if known else "it takes none"
            shown = checks.quoted(name)
            raise BerthError("unknown_field", f"This request has no field {shown}; {knows}.", field=shown.strip("'"))
    return found


def idempotency_key_of(request: Request) -> str | None:
    """Return the `Idempotency-Key`, if one was sent. Code bad_idempotency_key."""
    key = request.headers.get("Idempotency-Key")
    if key is None:
        return None
    if not 1 <= len(key) <= MAX_KEY_CHARS or not all("!" <= char <= "~" for char in key):
        detail = f"`Idempotency-Key` must be 1 to {MAX_KEY_CHARS} printable ASCII characters without spaces."
        raise BerthError("bad_idempotency_key", detail, field="Idempotency-Key")
    return key


def reason_of(request: Request) -> str:
    """Return the body's `reason`. People who meet the result later will read it."""
    value = body_of(request, known=["reason"]).get("reason")
    if value is None:
        raise BerthError("required", "Say why: `reason` is missing.", field="reason")
    if isinstance(value, str) and not value.strip():
        raise BerthError("blank", "Say why: `reason` is blank.", field="reason")
    checks.credentials_refuse(value, "reason")
    return checks.text(value, "reason", max_chars=200)


def terms_of(rows: QuerySet) -> list[str] | None:
    """Return the names that a list is ordered by, the primary key last; None where an expression without a name orders it."""
    query = rows.query
    terms = list(query.order_by or (query.get_meta().ordering if query.default_ordering else ()))
    if not all(isinstance(term, str) for term in terms):
        return None
    return terms if terms and terms[-1].removeprefix("-") in {"pk", "id"} else [*terms, "-pk"]


def cursor_of(row: Any, terms: Sequence[str]) -> str:
    """Return the name of this row's place in the list, fit for a URL."""
    values = [reduce(getattr, term.removeprefix("-").split("__"), row) for term in terms]
    told = [value.isoformat() if isinstance(value, datetime) else value for value in values]
    return base64.urlsafe_b64encode(json.dumps([list(terms), told]).encode()).decode().rstrip("=")


def rows_after(rows: QuerySet, terms: Sequence[str], cursor: str) -> QuerySet:
    """Return the rows behind a place in the list. Code bad_cursor for a text that is no place in this one."""
    try:
        values = _values(cursor, terms)
        equal, behind = Q(), Q(pk__in=[])
        for term, value in zip(terms, values, strict=True):
            behind |= equal & _behind(term, value)
            equal &= Q(
                **{f"{term.removeprefix('-')}{'__isnull' if value is None else ''}": True if value is None else value}
            )
        return rows.filter(behind)
    except (ValueError, TypeError, OverflowError, RecursionError, binascii.Error, ValidationError):
        detail = "`after` is no place in this list; take it from `next` of an answer, with the same `ordering`."
        raise BerthError("bad_cursor", detail, field="after") from None


def _values(cursor: str, terms: Sequence[str]) -> list[Any]:
    """Return the values in the cursor. Raises ValueError, TypeError or OverflowError."""
    known, values = json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
    if known != list(terms) or len(values) != len(terms) or any(isinstance(each, list | dict) for each in values):
        raise ValueError
    if any("\0" in each for each in values if isinstance(each, str) and each.encode() is not None):
        raise ValueError
    for each in values:
        if isinstance(each, str) and (time := parse_datetime(each)) is not None and time.tzinfo is not None:
            time.astimezone(UTC)  # OverflowError where it has none: a database fails at it
    return list(values)


def _behind(term: str, value: Any) -> Q:
    """Return the condition that a row comes behind a value. SQLite counts NULL as the least, Postgres as the most."""
    name, is_back = term.removeprefix("-"), term.startswith("-")
    null_is_behind = is_back == (connection.vendor != "postgresql")
    if value is None:
        return Q(pk__in=[]) if null_is_behind else Q(**{f"{name}__isnull": False})
    found = Q(**{f"{name}__{'lt' if is_back else 'gt'}": value})
    return found | Q(**{f"{name}__isnull": True}) if null_is_behind else found


MAX_PAGE_SIZE = 500
DEFAULT_PAGE_SIZE = 50
MAX_PAGE = 1_000_000
TRUE, FALSE = frozenset({"1", "true", "yes"}), frozenset({"0", "false", "no"})


class Query:
    """The parameters of one request. Others than the `known` ones are refused: a misspelt filter filters nothing."""

    def __init__(self, request: Request, *, known: Sequence[str]) -> None:
        self.request = request
        self.values: dict[str, str] = {}
        for name, found in request.query_params.lists():
            if name not in known:
                shown = checks.quoted(name)
                detail = f"There is no parameter {shown}; known: {', '.join(known)}."
                raise BerthError("unknown_parameter", detail, field=shown.strip("'"))
            if len(found) > 1:
                raise BerthError("duplicate", f"`{name}` is given twice; give it once.", field=name)
            self.values[name] = checks.text_safe(found[0], name)

    def text(self, name: str, *, max_chars: int = 150) -> str | None:
        value = self.values.get(name)
        return checks.text(value, name, max_chars=max_chars) if value else None

    def whole(self, name: str, default: int | None, low: int, high: int) -> int | None:
        value = self.values.get(name)
        if not value:
            return default
        if not value.lstrip("-").isascii() or not value.removeprefix("-").isdigit() or len(value) > 20:
            raise BerthError("wrong_type", f"`{name}` must be a whole number.", field=name)
        return checks.whole(int(value), name, low, high)

    def flag(self, name: str) -> bool:
        value = self.values.get(name, "").lower()
        if value not in TRUE | FALSE | {""}:
            raise BerthError("wrong_type", f"`{name}` must be true or false.", field=name)
        return value in TRUE

    def choice(self, name: str, allowed: Iterable[str]) -> str | None:
        value = self.values.get(name)
        return checks.choice(value, name, allowed) if value else None

    def choices(self, name: str, allowed: Iterable[str]) -> list[str]:
        """Return the members of a comma-separated list, each one known."""
        names = list(allowed)
        return [checks.choice(part, name, names) for part in self.values.get(name, "").split(",") if part]

    def time(self, name: str) -> datetime | None:
        value = self.values.get(name)
        return time_parse(value, name) if value else None


def time_parse(value: str, field: str) -> datetime:
    """Return an ISO-8601 time with its zone as UTC. Codes bad_time (also one that does not exist), naive_time."""
    try:
        found = datetime.fromisoformat(value)
        if found.tzinfo is None:
            detail = f"`{field}` has no time zone; write it like 2026-01-31T12:00:00Z."
            raise BerthError("naive_time", detail, field=field)
        return found.astimezone(UTC)
    except (ValueError, OverflowError):
        detail = f"`{field}` is no existing ISO-8601 time such as 2026-01-31T12:00:00Z (a + in a URL is written %2B)."
        raise BerthError("bad_time", detail, field=field) from None


PAGE_PARAMETERS = ("page", "after", "page_size")
MOST_CURSOR = 4000


def page_of(query: Query, rows: QuerySet, serialise: Callable[[Any], Any]) -> dict[str, Any]:
    """Return one page of `rows`: `count`, `page`, `page_size`, `next`, `previous` (URLs or null), `results`.

    `next` begins behind the last row's values: rows that come and go meanwhile double none and leave none out.
    """
    size = query.whole("page_size", DEFAULT_PAGE_SIZE, 1, MAX_PAGE_SIZE) or DEFAULT_PAGE_SIZE
    page = query.whole("page", None if query.values.get("after") else 1, 1, MAX_PAGE)
    after, terms = query.text("after", max_chars=MOST_CURSOR), terms_of(rows)
    if after and page is not None:
        raise BerthError("conflict", "`page` and `after` exclude each other; give one of them.", field="after")
    count = rows.order_by().count()
    if terms is not None:
        rows = rows.order_by(*terms)
    if after:
        found = rows_between(rows_after(rows, terms or (), after), 0, size + 1)
        is_more, found = len(found) > size, found[:size]
    else:
        start = ((page or 1) - 1) * size
        found, is_more = rows_between(rows, start, size, total=count), start + size < count
    if not (is_more and found):
        following = None
    else:
        following = page_url(query, (page or 1) + 1) if terms is None else after_url(query, cursor_of(found[-1], terms))
    return {
        "count": count,
        "page": page,
        "page_size": size,
        "next": following,
        "previous": page_url(query, page - 1) if page is not None and page > 1 else None,
        "results": serialise(found),
    }


def after_url(query: Query, cursor: str) -> str:
    """Return the URL of the rows behind a place, for the same question."""
    own = {name: value for name, value in query.values.items() if name != "page"}
    return query.request.build_absolute_uri(f"{query.request.path}?{urlencode(own | {'after': cursor})}")


def page_url(query: Query, page: int) -> str:
    """Return the URL of another page, for the same question."""
    parameters = urlencode(query.values | {"page": str(page)})
    return query.request.build_absolute_uri(f"{query.request.path}?{parameters}")


def ordered(query: Query, rows: QuerySet, *, allowed: Sequence[str], default: str) -> QuerySet:
    """Order by the parameter `ordering`; a trailing id makes pages stable. Code unknown_ordering."""
    wanted = query.values.get("ordering") or default
    if wanted.removeprefix("-") not in allowed:
        known = ", ".join(allowed)
        detail = f"`ordering` does not know {checks.quoted(wanted)}; known: {known}, each also with a leading minus."
        raise BerthError("unknown_ordering", detail, field="ordering")
    return rows.order_by(wanted, "-id") if wanted.removeprefix("-") != "id" else rows.order_by(wanted)
