"""Postgres: rows by COPY over the portal's own connection, so that no client program of any version is needed.

The tables are not in a backup: they are made by the migrations, to the very ones that were applied when it was made.
Only Berth's own tables are read, dropped and filled; all others are left as they are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.db import connection, transaction
from django.db.migrations.executor import MigrationExecutor
from psycopg import sql

from portal.operate.backups.contents import BackupError

if TYPE_CHECKING:
    from pathlib import Path

LEDGER = "django_migrations"


def tables_own() -> list[str]:
    """Name the tables of Berth that are there: those of its models, and the ledger of its migrations."""
    with connection.cursor() as cursor:
        there = set(connection.introspection.table_names(cursor))
    return sorted(({LEDGER} | set(connection.introspection.django_table_names())) & there)


def database_dump(directory: Path) -> dict[str, Any]:
    """Write a file of rows for each table, all as of one moment. Returns rows, columns and counters by table."""
    directory.mkdir(mode=0o700)
    facts: dict[str, Any] = {"rows": {}, "columns": {}, "counters": {}}
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        for table in tables_own():
            facts["columns"][table] = columns = _columns(cursor, table)
            facts["rows"][table] = _rows_out(cursor, table, columns, directory / f"{table}.copy")
            facts["counters"][table] = _counters(cursor, table, columns)
        cursor.execute("SELECT app, name FROM django_migrations ORDER BY id")
        facts["migrations"] = [list(row) for row in cursor.fetchall()]
    return facts


def _columns(cursor: Any, table: str) -> list[str]:
    cursor.execute(
        "SELECT attname FROM pg_attribute WHERE attrelid = %s::regclass AND attnum > 0 AND NOT attisdropped "
        "AND attgenerated = '' ORDER BY attnum",
        [connection.ops.quote_name(table)],
    )
    return [row[0] for row in cursor.fetchall()]


def _copy_of(table: str, columns: list[str], direction: str) -> sql.Composed:
    names = sql.SQL(", ").join(map(sql.Identifier, columns))
    return sql.SQL("COPY {} ({}) " + direction).format(sql.Identifier(table), names)


def _rows_out(cursor: Any, table: str, columns: list[str], path: Path) -> int:
    with path.open("wb") as file, cursor.copy(_copy_of(table, columns, "TO STDOUT")) as copy:
        for data in copy:
            file.write(data)
    return cursor.rowcount


def _counters(cursor: Any, table: str, columns: list[str]) -> dict[str, list[Any]]:
    """Return the state of each column's counter of ids: [last value, whether it was used]."""
    found = {}
    for column in columns:
        cursor.execute("SELECT pg_get_serial_sequence(%s, %s)", [connection.ops.quote_name(table), column])
        if sequence := cursor.fetchone()[0]:
            cursor.execute(f"SELECT last_value, is_called FROM {sequence}")  # noqa: S608 - Postgres's own name of it
            found[column] = list(cursor.fetchone())
    return found


def used_elsewhere() -> list[str]:
    """Name the programs that have this database open beside us."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT coalesce(nullif(application_name, ''), 'a program without a name') FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'"
        )
        return [row[0] for row in cursor.fetchall()]


def database_load(directory: Path, facts: dict[str, Any]) -> None:
    """Put what a backup holds in the place of all that Berth's tables hold, in one transaction. Raises BackupError."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET LOCAL lock_timeout = '20s'")
        for table in tables_own():
            cursor.execute(sql.SQL("DROP TABLE {} CASCADE").format(sql.Identifier(table)))
        _tables_make([tuple(each) for each in facts["migrations"]])
        missing = sorted(set(facts["rows"]) - set(tables_own()))
        if missing:
            raise BackupError(f"The migrations of the backup make no table {missing[0]}.", "Take another backup.")
        tables = [connection.ops.quote_name(table) for table in sorted(facts["rows"])]
        cursor.execute(f"TRUNCATE {', '.join(tables)}")  # the rows of migrations stand in the backup too
        cursor.execute("SET CONSTRAINTS ALL DEFERRED")
        for table, count in facts["rows"].items():
            _rows_in(cursor, table, facts["columns"][table], directory / f"{table}.copy", count)
            for column, (value, given) in facts["counters"][table].items():
                name = [connection.ops.quote_name(table), column]
                cursor.execute("SELECT setval(pg_get_serial_sequence(%s, %s), %s, %s)", [*name, value, given])
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")  # a row that refers to a missing one fails here
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")


def _tables_make(applied: list[tuple[str, str]]) -> None:
    """Migrate an empty database to exactly these migrations."""
    executor = MigrationExecutor(connection)
    graph, wanted = executor.loader.graph, set(applied) & set(executor.loader.graph.nodes)
    last = [
        key
        for key in sorted(wanted)
        if not any(child.key in wanted and child.key[0] == key[0] for child in graph.node_map[key].children)
    ]
    executor.migrate(last)


def _rows_in(cursor: Any, table: str, columns: list[str], path: Path, count: int) -> None:
    with path.open("rb") as file, cursor.copy(_copy_of(table, columns, "FROM STDIN")) as copy:
        while data := file.read(1 << 20):
            copy.write(data)
    if cursor.rowcount != count:
        raise BackupError(f"The backup holds {cursor.rowcount} rows of {table}, not {count}.", "Take another backup.")
