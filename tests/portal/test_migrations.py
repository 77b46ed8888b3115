"""Migrations back to older states and forward again, back to nothing and forward again; the triggers stand afterwards.

It is one test, for each way costs many seconds. What it carries along tells of itself in travellers.py.
"""

import copy

import pytest
from django.core.management import call_command
from django.core.management.sql import emit_pre_migrate_signal
from django.db import connection
from django.db.migrations.executor import MigrationExecutor
from django.db.models import Field

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


def clone_quickly(field):
    """As `Field.clone`, with which migrations spend half their time: they clone each field some thousand times."""
    if field.is_relation:
        if not hasattr(field, "apart"):
            field.apart = field.deconstruct()
        _, _, arguments, keywords = field.apart
        return type(field)(*arguments, **keywords)
    made = copy.copy(field)
    if not field.auto_created:  # the order of a model's fields
        made.creation_counter = Field.creation_counter
        Field.creation_counter += 1
    return made


def profile_started(cluster):
    """A profile: the kind of attempt that was not always there."""
    placing = Placing(cluster.submit().pk, [given.free_part(cluster.node)], profile=Profile("x", "A100", 60))
    assert attempts_start(placings=[placing], planning_number=1) == {}


@pytest.mark.django_db(transaction=True)
def test_there_and_back(shared_cluster, monkeypatch):
    monkeypatch.setattr(Field, "clone", clone_quickly)
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
        MigrationExecutor(connection).migrate([(app, None) for app in FIRST])
        assert tables() == set()
    finally:
        migrate()
    assert tables() == before
    assert triggers_present() == {*SQLITE, *QUEUE_SQLITE}


@pytest.mark.django_db
def test_none_is_missing():
    call_command("makemigrations", check=True, dry_run=True, verbosity=0)
