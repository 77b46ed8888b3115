"""Migrations forward, back to nothing, and forward again; the triggers stand afterwards."""

import pytest
from django.core.management import call_command
from django.db import connection

from portal.jobs.services.placing import attempts_start
from portal.jobs.services.placings import Placing, Profile
from portal.jobs.triggers import QUEUE_SQLITE, SQLITE
from tests.portal import given

APPS = ("rounds", "jobs", "cluster", "events", "tenants")


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


@pytest.mark.django_db(transaction=True)
def test_there_and_back(shared_cluster):
    profile = Placing(
        shared_cluster.submit().pk, [given.free_part(shared_cluster.node)], profile=Profile("x", "A100", 60)
    )
    assert attempts_start(placings=[profile], planning_number=1) == {}  # the kind of attempt that was not always there
    shared_cluster.started()
    before = tables()
    assert triggers_present() == {*SQLITE, *QUEUE_SQLITE}
    try:
        for app in ("admin", "axes", "jobs", "rounds", "cluster", "events", "tenants"):
            call_command("migrate", app, "zero", verbosity=0)
        assert tables() == set()
    finally:
        call_command("migrate", verbosity=0)
    assert tables() == before
    assert triggers_present() == {*SQLITE, *QUEUE_SQLITE}


@pytest.mark.django_db
def test_none_is_missing():
    call_command("makemigrations", check=True, dry_run=True, verbosity=0)
