"""Database triggers for what no constraint can say: an attempt ends once, and an allocation's mode is its GPU's.

SQLite rebuilds a table when a later migration changes it, which loses its triggers and fails on those of other tables
that refer to it; so they are not in a migration but dropped before and made again after every `migrate` (pre_migrate,
post_migrate), and a test asks the database for them.
"""

from __future__ import annotations

from typing import Any

from django.db import connections

SQLITE = {
    "attempt_ends_once": """
        CREATE TRIGGER attempt_ends_once BEFORE UPDATE ON jobs_attempt
        WHEN OLD.ended_at IS NOT NULL AND (NEW.state <> OLD.state OR NEW.ended_at IS NOT OLD.ended_at)
        BEGIN SELECT RAISE(ABORT, 'attempt_ends_once'); END""",
    "allocation_mode_matches": """
        CREATE TRIGGER allocation_mode_matches BEFORE INSERT ON jobs_gpuallocation
        WHEN NEW.released_at IS NULL AND NEW.mode <> (SELECT mode FROM cluster_gpu WHERE id = NEW.gpu_id)
        BEGIN SELECT RAISE(ABORT, 'allocation_mode_matches'); END""",
    "gpu_mode_when_free": """
        CREATE TRIGGER gpu_mode_when_free BEFORE UPDATE OF mode ON cluster_gpu
        WHEN NEW.mode <> OLD.mode
         AND EXISTS (SELECT 1 FROM jobs_gpuallocation WHERE gpu_id = OLD.id AND released_at IS NULL)
        BEGIN SELECT RAISE(ABORT, 'gpu_mode_when_free'); END""",
}

_FUNCTION = """
CREATE OR REPLACE FUNCTION {name}() RETURNS trigger AS $$
BEGIN
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
        table="jobs_attempt",
        event="UPDATE",
        condition="OLD.ended_at IS NOT NULL AND (NEW.state, NEW.ended_at) IS DISTINCT FROM (OLD.state, OLD.ended_at)",
    ),
    # The GPU's row is locked, so that its mode cannot change between this look and the insert's commit.
    "allocation_mode_matches": _FUNCTION.format(
        name="allocation_mode_matches",
        table="jobs_gpuallocation",
        event="INSERT",
        condition="NEW.released_at IS NULL AND NEW.mode <> "
        "(SELECT mode FROM cluster_gpu WHERE id = NEW.gpu_id FOR SHARE)",
    ),
    "gpu_mode_when_free": _FUNCTION.format(
        name="gpu_mode_when_free",
        table="cluster_gpu",
        event="UPDATE",
        condition="NEW.mode <> OLD.mode AND EXISTS "
        "(SELECT 1 FROM jobs_gpuallocation WHERE gpu_id = OLD.id AND released_at IS NULL)",
    ),
}


def triggers_make(using: str = "default", **_: Any) -> None:
    """Make all triggers anew; nothing where the tables are gone (migrated back to zero)."""
    connection = connections[using]
    if not {"jobs_attempt", "jobs_gpuallocation", "cluster_gpu"} <= set(connection.introspection.table_names()):
        return
    with connection.cursor() as cursor:
        if connection.vendor == "sqlite":
            for name, statement in SQLITE.items():
                cursor.execute(f"DROP TRIGGER IF EXISTS {name}")
                cursor.execute(statement)
        elif connection.vendor == "postgresql":
            for statement in POSTGRES.values():
                cursor.execute(statement)


def triggers_drop(using: str = "default", **_: Any) -> None:
    """Take the triggers away before a `migrate`: SQLite renames no table that another table's trigger refers to."""
    connection = connections[using]
    if connection.vendor == "sqlite":
        with connection.cursor() as cursor:
            for name in SQLITE:
                cursor.execute(f"DROP TRIGGER IF EXISTS {name}")


def triggers_present(using: str = "default") -> set[str]:
    """Return the names of our triggers that the database has."""
    connection = connections[using]
    query = (
        "SELECT name FROM sqlite_master WHERE type = 'trigger'"
        if connection.vendor == "sqlite"
        else "SELECT tgname FROM pg_trigger WHERE NOT tgisinternal"
    )
    with connection.cursor() as cursor:
        cursor.execute(query)
        return {row[0] for row in cursor.fetchall()} & set(SQLITE)
