"""Where a page of a list ends: the values that its last row is ordered by. The next page begins behind them (decision 0246)."""

from __future__ import annotations

import base64
import binascii
import json
from datetime import UTC, datetime
from functools import reduce
from typing import TYPE_CHECKING, Any

from django.core.exceptions import ValidationError
from django.db import connection
from django.db.models import Q
from django.utils.dateparse import parse_datetime

from portal.foundation.errors import BerthError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from django.db.models import QuerySet


def terms_of(rows: QuerySet) -> list[str] | None:
    """Return the names that a list is ordered by, the primary key last; None where it is ordered by what has no name."""
    query = rows.query
    terms = list(query.order_by or (query.get_meta().ordering if query.default_ordering else ()))
    if not all(isinstance(term, str) for term in terms):
        return None
    return terms if terms and terms[-1].removeprefix("-") in {"pk", "id"} else [*terms, "-pk"]


def cursor_of(row: Any, terms: Sequence[str]) -> str:
    """Return what names this row's place in the list, fit for a URL."""
    values = [reduce(getattr, term.removeprefix("-").split("__"), row) for term in terms]
    told = [value.isoformat() if isinstance(value, datetime) else value for value in values]
    return base64.urlsafe_b64encode(json.dumps([list(terms), told]).encode()).decode().rstrip("=")


def rows_after(rows: QuerySet, terms: Sequence[str], cursor: str) -> QuerySet:
    """Return the rows behind a place in the list. Code bad_cursor for what is no place in this one."""
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
    """Return what the cursor holds. Raises ValueError, TypeError or OverflowError."""
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
