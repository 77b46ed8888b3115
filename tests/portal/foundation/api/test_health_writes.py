"""`/healthz` writes: a database that is only read from is not well; one that another writer holds, or without room, is."""

import contextlib
import sqlite3

import pytest
from django.conf import settings
from django.db import OperationalError, connection

from portal.foundation.disk import Disk
from portal.foundation.events.models import OutboxMessage
from portal.operate.health import health
from tests.portal.foundation.api.test_health import ask, well  # noqa: F401 - a fixture

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    monkeypatch.setattr(health, "_wrote_at", [float("-inf")])


@pytest.fixture
def other():
    """Another program's connection to the same database."""
    if connection.vendor != "sqlite":
        pytest.skip("of SQLite")
    with contextlib.closing(sqlite3.connect(settings.DATABASES["default"]["NAME"], isolation_level=None)) as other:
        yield other


def commits(other):
    return other.execute("PRAGMA data_version").fetchone()


def test_each_look_commits_a_write_that_leaves_nothing_once_a_second_at_most(well, other, monkeypatch):  # noqa: F811
    before = commits(other)
    assert ask()[0] == 200
    assert (after := commits(other)) != before
    assert not OutboxMessage.objects.exists()
    monkeypatch.setattr(health, "EVERY_S", 1000.0)
    assert ask()[0] == 200
    assert commits(other) == after


def test_a_database_that_is_only_read_from_is_not_well(well, other):  # noqa: F811
    with connection.cursor() as cursor:
        cursor.execute("PRAGMA query_only = ON")
    try:
        status, answer = ask()
    finally:
        connection.close()
    assert (status, answer["state"], answer["database"]) == (503, "failing", "unwritable")
    assert answer["problems"] == ["database: it takes no writes (it is read-only)"]
    assert ask()[0] == 200, "the next connection"


def test_another_writers_lock_is_no_problem_and_is_not_waited_for_as_long(well, other, monkeypatch):  # noqa: F811
    monkeypatch.setattr(health, "LOCK_PATIENCE_MS", 10)
    other.execute("BEGIN IMMEDIATE")
    assert ask()[1]["problems"] == []
    with connection.cursor() as cursor:
        usual = 1000 * connection.settings_dict["OPTIONS"]["timeout"]
        assert cursor.execute("PRAGMA busy_timeout").fetchone() == (usual,)


@pytest.mark.parametrize(("low", "state"), [(True, "disk-low"), (False, "failing")])
def test_a_disk_without_room_is_the_disks_problem(well, other, monkeypatch, low, state):  # noqa: F811
    other.execute("PRAGMA max_page_count = 1")
    with pytest.raises(sqlite3.OperationalError) as full:
        other.execute("CREATE TABLE large AS SELECT randomblob(999999)")

    def refuse():
        raise OperationalError(*full.value.args) from full.value

    monkeypatch.setattr(health, "write_try", refuse)
    monkeypatch.setattr(health, "disk_state", lambda: Disk(free_mib=0, total_mib=9, mark_mib=1, low=low))
    assert ask()[1]["state"] == state
