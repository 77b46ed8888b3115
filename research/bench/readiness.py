"""Whether this Berth's database has the tables that this version of the code reads."""

from __future__ import annotations

from django.db import OperationalError, connection
from django.db.migrations.executor import MigrationExecutor

from research.bench.errors import BenchError

REMEDY = "Make them with `./berth up`, or `./berth manage migrate`; BERTH_DATA_DIR and DATABASE_URL say which Berth is meant."


def database_ready() -> None:
    """BenchError when the database cannot be opened, or when migrations wait to be applied: it says how many."""
    try:
        executor = MigrationExecutor(connection)
    except OperationalError as error:
        raise BenchError(f"The database of this Berth cannot be opened: {error}") from error
    plan = executor.migration_plan(executor.loader.graph.leaf_nodes())
    if not plan:
        return
    if not executor.loader.applied_migrations:
        raise BenchError(f"The database of this Berth has no tables yet. {REMEDY}")
    first = plan[0][0]
    missing = "a migration is" if len(plan) == 1 else f"{len(plan)} migrations are"
    raise BenchError(
        f"The tables of this Berth are older than its code: {missing} missing, from {first.app_label} {first.name} on. {REMEDY}"
    )
