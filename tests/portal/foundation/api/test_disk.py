"""The portal on a disk without room: a real small file system, real errors of SQLite and of Postgres' kind."""

import json
import sqlite3

import pytest
from django.contrib.sessions.models import Session
from django.db import OperationalError, connection
from django.test import Client
from django.urls import reverse

from portal.foundation import disk
from portal.planning.rounds.models import Planning
from portal.planning.rounds.planning.run import planning_run
from portal.work.jobs.models import Job, LogChunk
from tests.portal.foundation.api.conftest import refusal
from tests.smalldisk import small_disk

pytestmark = pytest.mark.django_db


@pytest.fixture
def small(settings, monkeypatch):
    """DATA_DIR on a disk of 32 MiB with a mark of 16 MiB."""
    monkeypatch.setenv("BERTH_DISK_LOW_MIB", "16")
    with small_disk(32) as found:
        settings.DATA_DIR = found.path
        yield found


@pytest.fixture
def no_room():
    """SQLite's own limit on a database's pages: each write that needs a new page is "database or disk is full"."""
    if connection.vendor != "sqlite":
        pytest.skip("SQLite's error")
    with connection.cursor() as cursor:
        cursor.execute("PRAGMA page_count")
        cursor.execute(f"PRAGMA max_page_count = {cursor.fetchone()[0]}")
        yield
        cursor.execute("PRAGMA max_page_count = 4294967294")


def test_no_job_is_accepted_below_the_mark_and_again_above_it(world, small):
    small.fill(leave_mib=8)
    before = Job.objects.count()
    error = refusal(world.owner("POST", "/jobs", {"command": "true"}), 507, "disk_low")
    assert "of 32 MiB are free, and it needs 16 MiB" in error["detail"]
    assert "operator" in error["detail"]
    assert Job.objects.count() == before
    assert world.owner.get("/jobs").status_code == 200, "readers go on"
    small.give_back()
    world.owner.submit()


def test_a_repeated_submission_is_answered_even_without_room(world, small):
    key = {"Idempotency-Key": "once"}
    first = world.owner("POST", "/jobs", {"command": "true"}, headers=key).json()
    small.fill()
    again = world.owner("POST", "/jobs", {"command": "true"}, headers=key)
    assert (again.status_code, again.json()["id"]) == (201, first["id"])


def test_says_when_to_come_again(world, small):
    small.fill(leave_mib=8)
    assert int(world.owner("POST", "/jobs", {"command": "true"}).headers["Retry-After"]) > 0


def test_no_trace_is_kept_and_no_simulation_queued_below_the_mark(world, small):
    small.fill(leave_mib=8)
    csv = b"submitted_s,tenant,gpus,duration_s\n0,vision-lab,1,60\n"
    lab = world.caller("lena", scopes=["simulations:read", "simulations:write"])
    upload = lab(
        "POST",
        f"{reverse('api-traces')}?tenant=vision-lab&name=t&format=berth-csv",
        raw=csv,
        content_type="application/octet-stream",
    )
    refusal(upload, 507, "disk_low")


def test_nothing_is_placed_below_the_mark(world, small):
    world.owner.submit()
    small.fill(leave_mib=8)
    assert planning_run() is None
    assert not Planning.objects.exists()
    small.give_back()
    assert planning_run().placed == 1


def test_the_form_and_every_page_say_it(world, small):
    browser = Client()
    browser.force_login(world.users["lena"])
    small.fill(leave_mib=8)
    page = browser.get("/jobs/").content.decode()
    assert "Berth&#x27;s disk is almost full" in page
    answer = browser.post("/jobs/new", {"command": "true", "gpus": "0"})
    assert answer.status_code in {200, 400, 507}
    assert "no job is taken in" in answer.content.decode().lower()
    assert not Job.objects.exists()


def test_a_mark_of_nought_never_refuses(world, small, monkeypatch):
    monkeypatch.setenv("BERTH_DISK_LOW_MIB", "0")
    small.fill()
    world.owner.submit()


@pytest.mark.django_db(transaction=True)
class TestFullDatabase:
    """Whatever writes meets the database's own error; it is never a 500, and changes nothing."""

    def test_rest(self, world, no_room):
        before = Job.objects.count()
        big = {"command": "true # " + "x" * 60_000}
        refusal(world.owner("POST", "/jobs", big), 507, "disk_low")
        assert Job.objects.count() == before

    def test_a_page(self, world, no_room):
        browser = Client()
        browser.force_login(world.users["lena"])
        answer = browser.post("/jobs/new", {"command": "true # " + "x" * 60_000, "gpus": "0"})
        assert answer.status_code == 507
        assert "No room on Berth" in answer.content.decode()

    def test_what_fails_outside_a_view(self, world, no_room, monkeypatch):
        """A session is stored after the view has answered: no view can catch that."""
        user = world.users["lena"]
        user.set_password("a long password for this test")
        user.save()

        def full(*_arguments, **_options):
            error = sqlite3.OperationalError("database or disk is full")
            raise OperationalError(str(error)) from error

        monkeypatch.setattr(Session, "save", full)
        browser = Client(raise_request_exception=False)
        answer = browser.post("/login", {"username": user.username, "password": "a long password for this test"})
        assert answer.status_code == 507, answer.content[:300]


@pytest.mark.parametrize(
    ("error", "is_full"),
    [
        (OSError(28, "No space left on device"), True),
        (OSError(122, "Disk quota exceeded"), True),
        (OSError(13, "Permission denied"), False),
        (OperationalError("database or disk is full"), True),
        (OperationalError("database is locked"), False),
        (ValueError("disk is full"), False),
    ],
)
def test_which_errors_are_a_full_disk(error, is_full):
    assert (disk.disk_full_error(error) is not None) == is_full


def test_postgres_own_code():
    class DiskFull(Exception):
        sqlstate = "53100"

    wrapped = OperationalError("could not extend file")
    wrapped.__cause__ = DiskFull()
    assert disk.disk_full_error(wrapped).code == "disk_low"


def test_sqlites_input_error_is_a_full_disk_only_on_one(small):
    class Failed(sqlite3.OperationalError):
        sqlite_errorname = "SQLITE_IOERR_WRITE"

    assert disk.disk_full_error(Failed("disk I/O error")) is None
    small.fill()
    assert disk.disk_full_error(Failed("disk I/O error")).code == "disk_low"


def test_nodes_keep_what_does_not_fit(world, small, node_caller):
    """Output, figures and records wait on the nodes; reports, which end jobs, are taken as long as there is any room."""
    small.fill(leave_mib=8)
    refusal(node_caller("POST", "logs?attempt=1&epoch=1&rank=0&stream=stdout&offset=0", b"x"), 507, "disk_low")
    answer = node_caller("POST", "report", {"boot_id": "boot-1", "reports": [], "holding": []})
    assert answer.status_code == 200, answer.content
    assert not LogChunk.objects.exists()


@pytest.fixture
def node_caller(world):
    from portal.cluster.models import Node
    from portal.people.tenants.services import secret_digest

    Node.objects.filter(pk=world.nodes[0].pk).update(token_digest=secret_digest("berthnode_x"), boot_id="boot-1")

    def call(method, path, body):
        raw = isinstance(body, bytes)
        return Client().generic(
            method,
            f"/api/agent/v1/{path}",
            body if raw else json.dumps(body),
            content_type="application/octet-stream" if raw else "application/json",
            headers={"Authorization": "Bearer berthnode_x"},
        )

    return call
