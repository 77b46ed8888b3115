"""Migrations back to older states and forward again, back to nothing and forward again; the triggers stand afterwards.

It is one test, for each way costs many seconds. It begins with a database that the squashed migrations made, and goes
through those that they replace. What it carries along tells of itself in travellers.py. That no migration is missing is a
rule of the house (tests/test_house.py).
"""

import re
from contextlib import nullcontext
from types import SimpleNamespace

import pytest
from django.core.management import call_command
from django.core.management.sql import emit_pre_migrate_signal
from django.db import connection
from django.db.migrations import CreateModel, Migration
from django.db.migrations.autodetector import MigrationAutodetector
from django.db.migrations.loader import MigrationLoader
from django.db.models import Field

from portal.backups.migrating import EachOne, OneByOne, migrating
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


SCHEMA_OF_POSTGRES = (
    (
        "SELECT table_name, column_name, data_type, character_maximum_length, is_nullable, column_default, is_identity, "
        "generation_expression FROM information_schema.columns WHERE table_schema = 'public'"
    ),
    "SELECT tablename, indexdef FROM pg_indexes WHERE schemaname = 'public'",
    (
        "SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid) FROM pg_constraint "
        "WHERE connamespace = 'public'::regnamespace AND contype <> 'n'"
    ),
)


def schema():
    """What the database says of its tables, columns, indexes and constraints, whatever the order of columns."""
    with connection.cursor() as cursor:
        if connection.vendor == "sqlite":
            cursor.execute("SELECT name, sql FROM sqlite_master WHERE type IN ('table', 'index') AND sql IS NOT NULL")
            return {name: sorted(re.findall(r"\w+|[^\w\s]", sql)) for name, sql in cursor.fetchall()}
        found = set()
        for query in SCHEMA_OF_POSTGRES:
            cursor.execute(query)
            found.update(cursor.fetchall())
        return found


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
    before, made = tables(), schema()
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
            OneByOne(connection).migrate([(app, None) for app in FIRST])
            assert tables() == set()
            forward = OneByOne(connection)
            forward.migrate(forward.loader.graph.leaf_nodes())
        assert schema() == made, "squashed migrations make what those make that they replace"
    finally:
        migrate()
    assert tables() == before
    assert triggers_present() == {*SQLITE, *QUEUE_SQLITE}


def test_squashed_migrations_end_where_those_end_that_they_replace():
    squashed, each = MigrationLoader(None), EachOne(None)
    assert squashed.replacements
    assert not {*squashed.graph.nodes} & {key for it in squashed.replacements.values() for key in it.replaces}
    assert not {*each.graph.nodes} & {*squashed.replacements}
    ends = squashed.project_state(), each.project_state()
    assert {*ends[0].models} == {*ends[1].models}
    assert MigrationAutodetector(*ends).changes(squashed.graph) == {}


def test_tables_of_one_migration_are_made_together_as_django_makes_them():
    """The same models reach the editor, in the same order, and at the end all models know the same of each other."""
    migration = MigrationLoader(None).get_migration("jobs", "0001_squashed_0050")
    told = []
    for context in (nullcontext(), migrating()):
        state, tables, rows = (
            MigrationLoader(None).project_state([("cluster", "0001_squashed_0022"), ("uploads", "0001_uploads")]),
            [],
            [],
        )
        assert state.apps, "they are made, so that they are made anew"
        editor = SimpleNamespace(
            create_model=lambda model, to=tables: to.append(model._meta.label),
            connection=SimpleNamespace(vendor="sqlite", alias="default"),
            atomic_migration=True,
        )
        with context:
            after = migration.apply(state, editor)
        for model in after.apps.get_models():
            links = [
                (field.name, field.related_model._meta.label)
                for field in model._meta.get_fields()
                if field.related_model
            ]
            rows.append((model._meta.label, sorted(links), [field.name for field in model._meta.local_fields]))
            assert all(
                field.related_model is after.apps.get_model(to)
                for field in model._meta.get_fields()
                if field.related_model
                for to in [field.related_model._meta.label]
            )
        told.append((tables, sorted(rows)))
    assert told[0] == told[1]
    assert len(told[0][0]) == sum(type(each) is CreateModel for each in migration.operations) > 20


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
    loader = EachOne(None)
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
