"""Migrations back to nothing and forward again: tables and triggers are the same. First migrations do what Django's do.

That no migration is missing is a rule of the house (tests/test_house.py).
"""

import re
from types import SimpleNamespace

import pytest
from django.core.management import call_command
from django.db import connection
from django.db.migrations import Migration
from django.db.migrations.loader import MigrationLoader

from portal.foundation.events.first_migration import FirstMigration
from portal.operate.backups.older import NAMED_BEFORE
from portal.work.jobs.triggers import QUEUE_SQLITE, SQLITE

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
    "SELECT tgname, pg_get_triggerdef(oid) FROM pg_trigger WHERE NOT tgisinternal",
)


def schema():
    """Return the database's own account of its tables, columns, indexes, constraints and triggers. SQLite's SQL is in words."""
    with connection.cursor() as cursor:
        if connection.vendor == "sqlite":
            cursor.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL")
            return {name: sorted(re.findall(r"\w+|[^\w\s]", sql)) for name, sql in cursor.fetchall()}
        found = set()
        for query in SCHEMA_OF_POSTGRES:
            cursor.execute(query)
            found.update(cursor.fetchall())
        return found


def triggers_present():
    """Return the names of our triggers that the database has."""
    names = {
        "sqlite": "SELECT name FROM sqlite_master WHERE type = 'trigger'",
        "postgresql": "SELECT tgname FROM pg_trigger WHERE NOT tgisinternal",
    }
    with connection.cursor() as cursor:
        cursor.execute(names[connection.vendor])
        return {row[0] for row in cursor.fetchall()} & {*SQLITE, *QUEUE_SQLITE}


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
def test_there_and_back():
    made = schema()
    assert triggers_present() == {*SQLITE, *QUEUE_SQLITE}
    try:
        call_command("migrate", "jobs", "zero", verbosity=0)
        assert not [name for name in connection.introspection.table_names() if name.startswith(("jobs_", "rounds_"))]
    finally:
        call_command("migrate", verbosity=0)
    assert schema() == made


def test_a_database_from_before_0_1_is_told_by_a_name_that_is_free():
    assert NAMED_BEFORE not in MigrationLoader(None).disk_migrations


@pytest.mark.parametrize("app", ["tenants", "jobs"])
def test_a_first_migration_does_what_djangos_does(app):
    """The same models reach the editor in the same order. Afterwards all models know the same of each other."""
    loader, found = MigrationLoader(None), []
    migration = loader.get_migration(app, "0001_initial")
    assert isinstance(migration, FirstMigration)
    for apply in (Migration.apply, FirstMigration.apply):
        state, tables = loader.project_state((app, "0001_initial"), at_end=False), []
        assert state.apps, "models were made before"
        editor = SimpleNamespace(
            create_model=lambda model, to=tables: to.append(model._meta.label),
            connection=SimpleNamespace(vendor="sqlite", alias="default"),
            atomic_migration=True,
            add_field=lambda model, field: None,
        )
        after = apply(migration, state, editor).apps
        links = {
            (model._meta.label, field.name, field.related_model._meta.label)
            for model in after.get_models()
            for field in model._meta.get_fields()
            if field.related_model
        }
        assert all(after.get_model(to) for _, _, to in links)
        fields = {model._meta.label: [field.name for field in model._meta.local_fields] for model in after.get_models()}
        found.append((tables, links, fields))
    assert found[0] == found[1]
    assert len(found[0][0]) >= 5
