"""Database triggers for rules beyond constraints: an attempt ends once, an allocation's mode is its GPU's, and parts of a
GPU come to no more than it has; and to note which waiting jobs changed, by any statement (`QueueChange`).

SQLite rebuilds a table when a later migration changes it, which loses its triggers and fails on those of other tables
that refer to it; so they are not in a migration but dropped before and made again after every `migrate` (pre_migrate,
post_migrate), and a test asks the database for them.
"""

from __future__ import annotations

from typing import Any

from django.db import connections

_HELD = "FROM jobs_gpuallocation WHERE gpu_id = NEW.gpu_id AND released_at IS NULL"
_TOO_MUCH = f"""
    (SELECT coalesce(sum(compute), 0) {_HELD}) + NEW.compute > 1000
    OR (SELECT coalesce(sum(memory_mib), 0) {_HELD}) + NEW.memory_mib
        > (SELECT memory_mib FROM cluster_gpu WHERE id = NEW.gpu_id)"""  # noqa: S608 - all of it stands here

SQLITE = {
    "attempt_ends_once": """
        CREATE TRIGGER attempt_ends_once BEFORE UPDATE ON jobs_attempt
        WHEN OLD.ended_at IS NOT NULL AND (NEW.state <> OLD.state OR NEW.ended_at IS NOT OLD.ended_at)
        BEGIN SELECT RAISE(ABORT, 'attempt_ends_once'); END""",
    "allocation_mode_matches": """
        CREATE TRIGGER allocation_mode_matches BEFORE INSERT ON jobs_gpuallocation
        WHEN NEW.released_at IS NULL AND NEW.mode <> (SELECT mode FROM cluster_gpu WHERE id = NEW.gpu_id)
        BEGIN SELECT RAISE(ABORT, 'allocation_mode_matches'); END""",
    "gpu_parts_fit": f"""
        CREATE TRIGGER gpu_parts_fit BEFORE INSERT ON jobs_gpuallocation
        WHEN NEW.released_at IS NULL AND NEW.mode = 'shared' AND ({_TOO_MUCH})
        BEGIN SELECT RAISE(ABORT, 'gpu_parts_fit'); END""",
    "gpu_mode_when_free": """
        CREATE TRIGGER gpu_mode_when_free BEFORE UPDATE OF mode ON cluster_gpu
        WHEN NEW.mode <> OLD.mode
         AND EXISTS (SELECT 1 FROM jobs_gpuallocation WHERE gpu_id = OLD.id AND released_at IS NULL)
        BEGIN SELECT RAISE(ABORT, 'gpu_mode_when_free'); END""",
}

_FUNCTION = """
CREATE OR REPLACE FUNCTION {name}() RETURNS trigger AS $$
BEGIN
  {before}
  IF {condition} THEN
    RAISE EXCEPTION '{name}' USING ERRCODE = 'check_violation';
  END IF;
  RETURN NEW;
END $$ LANGUAGE plpgsql;
DROP TRIGGER IF EXISTS {name} ON {table};
CREATE TRIGGER {name} BEFORE {event} ON {table} FOR EACH ROW EXECUTE FUNCTION {name}();
"""
POSTGRES = {
    "attempt_ends_once": _FUNCTION.format(
        name="attempt_ends_once",
        before="",
        table="jobs_attempt",
        event="UPDATE",
        condition="OLD.ended_at IS NOT NULL AND (NEW.state, NEW.ended_at) IS DISTINCT FROM (OLD.state, OLD.ended_at)",
    ),
    # The GPU's row is locked, so that its mode cannot change between this look and the insert's commit.
    "allocation_mode_matches": _FUNCTION.format(
        name="allocation_mode_matches",
        before="",
        table="jobs_gpuallocation",
        event="INSERT",
        condition="NEW.released_at IS NULL AND NEW.mode <> "
        "(SELECT mode FROM cluster_gpu WHERE id = NEW.gpu_id FOR SHARE)",
    ),
    # The GPU's row is locked first: of two who take parts of one at once the second waits, and sees what the first took.
    "gpu_parts_fit": _FUNCTION.format(
        name="gpu_parts_fit",
        table="jobs_gpuallocation",
        event="INSERT",
        before="PERFORM 1 FROM cluster_gpu WHERE id = NEW.gpu_id AND NEW.mode = 'shared' FOR NO KEY UPDATE;",
        condition=f"NEW.released_at IS NULL AND NEW.mode = 'shared' AND ({_TOO_MUCH})",
    ),
    "gpu_mode_when_free": _FUNCTION.format(
        name="gpu_mode_when_free",
        before="",
        table="cluster_gpu",
        event="UPDATE",
        condition="NEW.mode <> OLD.mode AND EXISTS "
        "(SELECT 1 FROM jobs_gpuallocation WHERE gpu_id = OLD.id AND released_at IS NULL)",
    ),
}


TABLES = {"jobs_attempt", "jobs_gpuallocation", "cluster_gpu"}
QUEUE_TABLES = {"jobs_job", "jobs_queuechange"}
_NOTE = "INSERT INTO jobs_queuechange (job_id, stamp, at)"
_QUEUED = "{row}.array_size IS NULL AND {row}.state IN ('PENDING', 'HELD')"
_SQLITE_NOTE = """
    CREATE TRIGGER {name} AFTER {event} ON jobs_job WHEN {condition}
    BEGIN {note} VALUES ({row}.id, 0, strftime('%Y-%m-%d %H:%M:%f', 'now')); END"""
# A statement's rows at once: a planning may write 100 000. Savepoints have their transaction's number here.
_POSTGRES_NOTE = """
CREATE OR REPLACE FUNCTION {name}() RETURNS trigger AS $$
BEGIN
  {note} SELECT {row}.id, txid_current(), clock_timestamp() FROM {rows} WHERE {condition};
  RETURN NULL;
END $$ LANGUAGE plpgsql;
DROP TRIGGER IF EXISTS {name} ON jobs_job;
CREATE TRIGGER {name} AFTER {event} ON jobs_job REFERENCING {tables} FOR EACH STATEMENT EXECUTE FUNCTION {name}();
"""
_OLD, _NEW = _QUEUED.format(row="o"), _QUEUED.format(row="n")
QUEUE_POSTGRES = {
    name: _POSTGRES_NOTE.format(name=name, note=_NOTE, **parts)
    for name, parts in {
        "queue_change_insert": {
            "event": "INSERT",
            "tables": "NEW TABLE AS new_rows",
            "rows": "new_rows n",
            "row": "n",
            "condition": _NEW,
        },
        "queue_change_update": {
            "event": "UPDATE",
            "tables": "OLD TABLE AS old_rows NEW TABLE AS new_rows",
            "rows": "new_rows n JOIN old_rows o USING (id)",
            "row": "n",
            "condition": f"({_OLD}) OR ({_NEW})",
        },
        "queue_change_delete": {
            "event": "DELETE",
            "tables": "OLD TABLE AS old_rows",
            "rows": "old_rows o",
            "row": "o",
            "condition": _OLD,
        },
    }.items()
}
_OLD, _NEW = _QUEUED.format(row="OLD"), _QUEUED.format(row="NEW")
QUEUE_SQLITE = {
    name: _SQLITE_NOTE.format(name=name, note=_NOTE, event=event, row=row, condition=condition)
    for name, event, row, condition in (
        ("queue_change_insert", "INSERT", "NEW", _NEW),
        ("queue_change_update", "UPDATE", "NEW", f"({_OLD}) OR ({_NEW})"),
        ("queue_change_delete", "DELETE", "OLD", _OLD),
    )
}


def triggers_make(using: str = "default", **_: Any) -> None:
    """Make all triggers anew; nothing where the tables are gone (migrated back)."""
    connection = connections[using]
    tables = set(connection.introspection.table_names())
    wanted: dict[str, str] = {}
    for needs, sqlite, postgres in ((TABLES, SQLITE, POSTGRES), (QUEUE_TABLES, QUEUE_SQLITE, QUEUE_POSTGRES)):
        if needs <= tables:
            wanted |= {"sqlite": sqlite, "postgresql": postgres}.get(connection.vendor, {})
    with connection.cursor() as cursor:
        for name, statement in wanted.items():
            if connection.vendor == "sqlite":
                cursor.execute(f"DROP TRIGGER IF EXISTS {name}")
            cursor.execute(statement)


def triggers_drop(using: str = "default", **_: Any) -> None:
    """Take the triggers away before a `migrate`: SQLite renames no table that another table's trigger refers to, and the
    table that takes the queue's changes may go.
    """
    connection = connections[using]
    with connection.cursor() as cursor:
        if connection.vendor == "sqlite":
            for name in (*SQLITE, *QUEUE_SQLITE):
                cursor.execute(f"DROP TRIGGER IF EXISTS {name}")
        elif connection.vendor == "postgresql":
            for name in QUEUE_POSTGRES:
                cursor.execute(f"DROP TRIGGER IF EXISTS {name} ON jobs_job")
