"""Many rows in one statement, for any number of them: conditions on many ids, and many different values written at once.

Django's own `pk__in=[...]` sends one parameter an id, which SQLite refuses above 32 766, and its `bulk_update` a CASE a
row, whose cost grows with the square. Here the ids or rows travel as one array (Postgres) or one JSON text (SQLite).
"""

from __future__ import annotations

import json
from datetime import datetime
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from django.db import connection, transaction
from django.db.models import FloatField, Func, JSONField
from django.db.models.expressions import RawSQL

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from django.db.models import Field, Model, QuerySet

    Ask = Callable[[bool, int, int], list[Any]]


def among(ids: Iterable[int]) -> RawSQL:
    """Return the value of `pk__in` (or any `..._id__in`): one parameter for all the ids."""
    every = [int(each) for each in ids]
    if connection.vendor == "postgresql":
        return RawSQL("SELECT unnest(%s::bigint[])", [every])
    return RawSQL("SELECT value FROM json_each(%s)", [json.dumps(every)])


def rows_between(
    rows: QuerySet, first: int, count: int, *, total: int | None = None, ask: Ask | None = None
) -> list[Any]:
    """Return `count` rows from place `first` on, in their order. Two queries: the keys, then only those rows.

    A database walks over all rows before a late page. So it does that with keys only, and neither reads the wide rows nor
    joins what is fetched along with them; and where `total`, the number of all rows, is known it comes from the nearer end.
    `ask` finds the keys where a query of another form does so sooner: from one place to another, and where its first argument
    says so both counted from the end, in that order.
    """
    if count <= 0 or (total is not None and first >= total):
        return []

    def plainly(back: bool, start: int, stop: int) -> list[Any]:
        keys = rows.values_list("pk", flat=True)
        return list((keys.reverse() if back else keys)[start:stop])

    asked = ask or plainly
    if total is None or first + count <= total / 2:
        wanted = asked(False, first, first + count)
    else:
        wanted = asked(True, max(0, total - first - count), total - first)[::-1]
    found = {row.pk: row for row in rows.order_by().filter(pk__in=among(wanted))} if wanted else {}
    return [found[key] for key in wanted if key in found]


class Epoch(Func):
    """A moment as Unix seconds, made by the database; NULL stays NULL. SQLite keeps milliseconds of it."""

    arity = 1
    output_field = FloatField()
    template = "((julianday(%(expressions)s) - 2440587.5) * 86400.0)"

    def as_postgresql(self, compiler: Any, connection: Any, **context: Any) -> Any:
        return self.as_sql(
            compiler, connection, template="EXTRACT(EPOCH FROM %(expressions)s)::double precision", **context
        )


COPIED_FROM = 2000
"""From this number of rows on Postgres is sent them by COPY into a temporary table: it takes JSON apart five times as slowly."""


def rows_update(*, model: type[Model], fields: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> None:
    """Write each row's values; a row is (primary key, *values in the order of `fields`). One UPDATE for all rows."""
    if not rows:
        return
    columns = [model._meta.get_field(name) for name in fields]  # noqa: SLF001 - Django's documented Meta API
    table, key = connection.ops.quote_name(model._meta.db_table), model._meta.pk.column  # noqa: SLF001
    names = [connection.ops.quote_name(field.column) for field in columns]
    if connection.vendor != "postgresql":
        sets = ", ".join(f"{name} = %s" for name in names)
        with connection.cursor() as cursor:
            cursor.executemany(
                f"UPDATE {table} SET {sets} WHERE {key} = %s",  # noqa: S608 - names of columns
                [(*_values(columns, row[1:]), row[0]) for row in rows],
            )
        return
    sets = ", ".join(f"{name} = v.c{place}" for place, name in enumerate(names))
    kinds = ", ".join(f"c{place} {field.db_type(connection)}" for place, field in enumerate(columns))
    update = f"UPDATE {table} SET {sets} FROM"  # noqa: S608 - names of columns
    where = f"AS v WHERE {table}.{key} = v.id"
    if len(rows) < COPIED_FROM:
        with connection.cursor() as cursor:
            sent = f"(SELECT * FROM json_to_recordset(%s::json) AS r(id bigint, {kinds}))"  # noqa: S608 - names and types
            cursor.execute(
                f"{update} {sent} {where}", [_records(["id", *(f"c{place}" for place in range(len(columns)))], rows)]
            )
        return
    with transaction.atomic(savepoint=False), connection.cursor() as cursor:
        cursor.execute(f"CREATE TEMPORARY TABLE rows_sent (id bigint, {kinds}) ON COMMIT DROP")
        _copy(cursor, columns, rows)
        cursor.execute(f"{update} rows_sent {where}")
        cursor.execute("DROP TABLE rows_sent")


INSERTED_FROM = 50
"""From this number of rows on Postgres is sent them as one text: Django's `bulk_create` works a while on each value."""


def rows_insert(*, model: type[Model], fields: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> None:
    """Insert rows; a row is its values in the order of `fields`, the others get the same defaults in all. One INSERT."""
    columns = [model._meta.get_field(name) for name in fields]  # noqa: SLF001 - Django's documented Meta API
    if connection.vendor != "postgresql" or len(rows) < INSERTED_FROM:
        attributes = [field.attname for field in columns]
        model._default_manager.bulk_create(model(**dict(zip(attributes, row, strict=True))) for row in rows)  # noqa: SLF001
        return
    others = [each for each in model._meta.concrete_fields if each not in columns and not each.primary_key]  # noqa: SLF001
    quote = connection.ops.quote_name
    names = ", ".join(quote(field.column) for field in (*columns, *others))
    kinds = ", ".join(f"c{place} {field.db_type(connection)}" for place, field in enumerate(columns))
    values = ", ".join([*(f"c{place}" for place in range(len(columns))), *("%s" for _ in others)])
    sent = f"INSERT INTO {quote(model._meta.db_table)} ({names}) SELECT {values}"  # noqa: SLF001 - names of columns
    defaults = [field.get_db_prep_save(field.get_default(), connection) for field in others]
    with connection.cursor() as cursor:
        cursor.execute(
            f"{sent} FROM json_to_recordset(%s::json) AS r({kinds})",
            [*defaults, _records([f"c{place}" for place in range(len(columns))], rows)],
        )


def _copy(cursor: Any, columns: Sequence[Field], rows: Sequence[tuple[Any, ...]]) -> None:
    """Send the rows in the order of their keys: neighbours in the table and its indexes are then written together."""
    encode = json.JSONEncoder(default=_moment, allow_nan=False, separators=(",", ":")).encode
    texts: dict[int, str] = {}  # of documents, by identity: many rows share theirs
    documents = [place for place, field in enumerate(columns, start=1) if isinstance(field, JSONField)]
    with cursor.copy("COPY rows_sent FROM STDIN") as copy:
        for row in sorted(rows, key=itemgetter(0)):
            values = list(row)
            for place in documents:
                if row[place] is not None:
                    text = texts.get(id(row[place]))
                    values[place] = text if text is not None else texts.setdefault(id(row[place]), encode(row[place]))
            copy.write_row(values)


def _records(keys: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> str:
    records = [dict(zip(keys, row, strict=True)) for row in rows]
    return json.dumps(records, default=_moment, allow_nan=False, separators=(",", ":"))


def _moment(value: object) -> str:
    if isinstance(value, datetime):
        return value.isoformat()
    raise TypeError(f"{value!r} cannot be written in bulk")


def _values(columns: Sequence[Field], values: Sequence[Any]) -> list[Any]:
    return [field.get_db_prep_save(value, connection) for field, value in zip(columns, values, strict=True)]
