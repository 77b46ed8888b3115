"""Migrations back to older states and forward again, back to nothing and forward again; the triggers stand afterwards.

It is one test, for each way costs many seconds. What it carries along tells of itself in travellers.py. That no migration
is missing is a rule of the house (tests/house.py).
"""

from types import SimpleNamespace

import pytest
from django.core.management import call_command
from django.core.management.sql import emit_pre_migrate_signal
from django.db import connection
from django.db.migrations import Migration
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.loader import MigrationLoader
from django.db.models import Field

from portal.backups.migrating import migrating
from portal.jobs.services.placing import attempts_start
from portal.jobs.services.placings import Placing, Profile
from portal.jobs.triggers import QUEUE_SQLITE, SQLITE
from tests.portal import given
from tests.portal.travellers import TRAVELLERS, Means

APPS = ("rounds", "jobs", "cluster", "events", "tenants")
FIRST = ("admin", "axes", *APPS)
"""What the others need goes back to nothing, and takes the others along."""


def triggers_present():
    """Return the names of our triggers that the database has."""
    query = (
        "SELECT name FROM sqlite_master WHERE type = 'trigger'"
        if connection.vendor == "sqlite"
        else "SELECT tgname FROM pg_trigger WHERE NOT tgisinternal"
    )
    with connection.cursor() as cursor:
        cursor.execute(query)
        return {row[0] for row in cursor.fetchall()} & {*SQLITE, *QUEUE_SQLITE}


def tables():
    names = connection.introspection.table_names()
    return {name for name in names if name.split("_")[0] in APPS}


def migrate(*arguments):
    call_command("migrate", *arguments, verbosity=0)


def profile_started(cluster):
    """A profile: the kind of attempt that was not always there."""
    placing = Placing(cluster.submit().pk, [given.free_part(cluster.node)], profile=Profile("x", "A100", 60))
    assert attempts_start(placings=[placing], planning_number=1) == {}


@pytest.mark.django_db(transaction=True)
def test_there_and_back(shared_cluster):
    profile_started(shared_cluster)
    shared_cluster.started()
    travellers = [each(shared_cluster) for each in TRAVELLERS]
    before = tables()
    assert triggers_present() == {*SQLITE, *QUEUE_SQLITE}
    try:
        for each in travellers:
            migrate(*each.STOP)
            each.back()
        migrate()
        for each in travellers:
            each.forward()
        migrate(*Means.STOP)
        travellers[TRAVELLERS.index(Means)].back_again()
        emit_pre_migrate_signal(verbosity=0, interactive=False, db="default")
        with migrating():
            MigrationExecutor(connection).migrate([(app, None) for app in FIRST])
        assert tables() == set()
    finally:
        migrate()
    assert tables() == before
    assert triggers_present() == {*SQLITE, *QUEUE_SQLITE}


def test_fields_between_migrations_are_made_quickly_as_django_makes_them():
    """Each field of the newest state, those of other packages too; what is made from one changes nothing in it."""
    state, djangos = MigrationLoader(None).project_state(), Field.clone
    fields = [field for model in state.models.values() for field in model.fields.values()]
    assert len(fields) > 300
    for field in fields:
        plain, before = field.clone(), field.deconstruct()
        with migrating():
            quick = field.clone()
        assert quick.creation_counter > plain.creation_counter or field.auto_created
        assert type(quick) is type(plain)
        assert quick.deconstruct() == plain.deconstruct()
        assert field.deconstruct() == before
        assert not hasattr(quick, "model")
    assert Field.clone is djangos


def test_the_states_of_a_way_back_are_kept_and_are_those_that_django_makes(monkeypatch):
    loader = MigrationLoader(None)
    nodes = [node for node in loader.graph.nodes if node[0] == "jobs"]
    node = max(nodes, key=lambda each: len(loader.get_migration(*each).operations) if each[1] > "0002" else 0)
    migration, state, editor = loader.get_migration(*node), loader.project_state(node, at_end=False), SimpleNamespace()
    editor.atomic_migration = True
    seen, made = [], []
    for operation in migration.operations:
        back, forwards = (lambda *states, of=operation: seen.append((of, *states[2:]))), operation.state_forwards
        monkeypatch.setattr(operation, "reversible", True)
        monkeypatch.setattr(operation, "database_backwards", back)
        monkeypatch.setattr(operation, "state_forwards", lambda *of, done=forwards: (made.append(of), done(*of)))
    count = len(migration.operations)
    migration.unapply(state, editor)
    plain, after = seen[:], migration.mutate_state(state)
    seen.clear()
    made.clear()
    with migrating():
        assert migration.mutate_state(state) == after
        migration.unapply(state, editor)
        assert (len(seen), len(made)) == (count, count), "each state is made once"
        assert seen == plain
        migration.unapply(state, editor)
        assert (len(seen), len(made)) == (2 * count, 2 * count), "nothing is kept of what was undone"
    assert count > 3
    assert (migration.mutate_state(state), Migration.mutate_state.__module__) == (after, Migration.__module__)
