"""Many rows in one statement, whatever their number: conditions on many ids, and many different values written at once.

Django's own `pk__in=[...]` sends one parameter an id, which SQLite refuses above 32 766, and its `bulk_update` a CASE a
row, whose cost grows with the square. Here the ids or rows travel as one array (Postgres) or one JSON text (SQLite).
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from django.db import connection
from django.db.models import JSONField
from django.db.models.expressions import RawSQL

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from django.db.models import Field, Model


def among(ids: Iterable[int]) -> RawSQL:
    """Return what `pk__in` (or any `..._id__in`) takes: one parameter for all the ids."""
    every = [int(each) for each in ids]
    if connection.vendor == "postgresql":
        return RawSQL("SELECT unnest(%s::bigint[])", [every])
    return RawSQL("SELECT value FROM json_each(%s)", [json.dumps(every)])


def rows_update(*, model: type[Model], fields: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> None:
    """Write each row's values; a row is (primary key, *values in the order of `fields`). One statement for all rows."""
    if not rows:
        return
    columns = [model._meta.get_field(name) for name in fields]  # noqa: SLF001 - Django's documented Meta API
    table, key = connection.ops.quote_name(model._meta.db_table), model._meta.pk.column  # noqa: SLF001
    names = [connection.ops.quote_name(field.column) for field in columns]
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            arrays = ", ".join(f"%s::{_array_type(field)}" for field in columns)
            sets = ", ".join(f"{name} = v.c{place}" for place, name in enumerate(names))
            aliases = ", ".join(f"c{place}" for place in range(len(names)))
            cursor.execute(
                f"UPDATE {table} SET {sets} FROM unnest(%s::bigint[], {arrays}) AS v(id, {aliases}) "  # noqa: S608 - names
                f"WHERE {table}.{key} = v.id",
                [
                    [row[0] for row in rows],
                    *(_array(field, [r[n] for r in rows]) for n, field in enumerate(columns, 1)),
                ],
            )
        else:
            sets = ", ".join(f"{name} = %s" for name in names)
            cursor.executemany(
                f"UPDATE {table} SET {sets} WHERE {key} = %s",  # noqa: S608 - names of columns
                [(*_values(columns, row[1:]), row[0]) for row in rows],
            )


def _array_type(field: Field) -> str:
    if isinstance(field, JSONField):
        return "text[]::jsonb[]"
    kind = str(field.db_type(connection)).partition("(")[0]
    return {"serial": "integer", "bigserial": "bigint"}.get(kind, kind) + "[]"


def _array(field: Field, values: Sequence[Any]) -> list[Any]:
    if isinstance(field, JSONField):
        return [json.dumps(value, cls=field.encoder) for value in values]
    return [field.get_db_prep_save(value, connection) for value in values]


def _values(columns: Sequence[Field], values: Sequence[Any]) -> list[Any]:
    return [field.get_db_prep_save(value, connection) for field, value in zip(columns, values, strict=True)]
