"""A database that is read-only for a while, with real processes, files and mounts: later all can write again."""

import contextlib
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time

import pytest

from portal.foundation.alive import MARK
from portal.foundation.layout import SOURCE, unwritable
from portal.foundation.read_only import says_read_only
from portal.foundation.try_write import refusal
from portal.launch.processes.supervisor import REFUSED_S
from tests.portal.launch.test_supervisor import clock, pid_of, program, supervisor, told  # noqa: F401 - fixtures
from tests.smalldisk import elsewhere, in_namespace, needs_mounts, read_only

pytestmark = pytest.mark.impure  # processes of their own

LIMIT_S = 60.0
SERVICE = """
import os, sys, threading, time
import django
django.setup()
from django.db import OperationalError, close_old_connections, connection
from portal.foundation import read_only

read_only.PATIENCE_S, read_only.YOUNG_S, read_only.LOOK_S = 0.5, 1.0, 0.1
read_only.service_begin()

def ask(words):
    with connection.cursor() as cursor:
        cursor.execute(words)

def read_for_ever(begun):
    ask("SELECT count(*) FROM notes")
    begun.set()
    threading.Event().wait()

if "fork" in sys.argv and (pid := os.fork()):
    sys.exit(os.waitpid(pid, 0)[1])
if "alone" not in sys.argv:
    begun = threading.Event()
    threading.Thread(target=read_for_ever, args=(begun,), daemon=True).start()
    begun.wait()
while True:
    close_old_connections()
    try:
        ask("INSERT INTO notes VALUES ('x')")
        print("wrote", flush=True)
    except OperationalError as error:
        print(error, flush=True)
    time.sleep(0.05)
"""
REFUSED = "attempt to write a readonly database"


@pytest.fixture
def database(layout):
    """SQLite's file of the data directory. A writer of before keeps it open, so that -wal and -shm are there."""
    with contextlib.closing(sqlite3.connect(layout.database)) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("CREATE TABLE notes (words)")
        yield layout.database


class Service:
    """A process that writes again and again, and what it printed so far."""

    def __init__(self, layout, *arguments, supervised=True):
        environment = {"BERTH_DATA_DIR": str(layout.root), "DJANGO_SETTINGS_MODULE": "portal.settings"}
        environment |= {MARK: str(layout.root)} if supervised else {}
        self.process = subprocess.Popen(
            [sys.executable, "-c", SERVICE, *arguments],
            cwd=SOURCE,
            env=os.environ | environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self.said = []
        self.reader = threading.Thread(target=lambda: self.said.extend(self.process.stdout), daemon=True)
        self.reader.start()

    def says(self, words, times=1):
        """Wait until it has said this a number of times from now on."""
        before, deadline = len(self.said), time.monotonic() + LIMIT_S
        while sum(words in line for line in self.said[before:]) < times:
            assert time.monotonic() < deadline, self.said[-20:]
            time.sleep(0.02)

    def kill(self):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


@pytest.fixture
def begin(layout):
    begun = []

    def begin(*arguments, **options):
        begun.append(Service(layout, *arguments, **options))
        return begun[-1]

    yield begin
    for each in begun:
        each.kill()


@needs_mounts
class TestReadOnlyForAWhile:
    @pytest.mark.parametrize("kind", ["threads", "fork"])
    def test_a_process_that_cannot_write_any_more_ends_with_its_group(self, layout, database, begin, kind):
        """With `fork` a child cannot, as in Celery's pool: its parent goes too, for the next child would be no better."""
        with read_only(layout.root):
            service = begin(kind)
            service.says(REFUSED, times=60)  # nobody can write: it waits, far longer than its patience
            assert service.process.poll() is None
        assert service.process.wait(timeout=LIMIT_S) == -signal.SIGKILL
        service.reader.join(LIMIT_S)  # its last words may still be in the pipe
        assert "in this process alone; it ends, and is started again" in "".join(service.said)
        assert refusal(database) is None

    def test_one_that_nobody_starts_again_goes_on(self, layout, database, begin):
        with read_only(layout.root):
            service = begin(supervised=False)
            service.says(REFUSED)
        service.says(REFUSED, times=60)
        assert service.process.poll() is None

    def test_a_connection_of_that_time_is_closed_and_the_next_one_writes(self, layout, database, begin):
        with read_only(layout.root):
            service = begin("alone")
            service.says(REFUSED)
        service.says("wrote")
        assert service.process.poll() is None

    def test_nothing_is_started_on_files_that_cannot_be_written(self, layout, database, supervisor, clock, told):  # noqa: F811
        with read_only(layout.root):
            supervisor.start(program(database=database))
            for _ in range(3):
                clock.now += REFUSED_S
                supervisor.tick()
            assert supervisor.children["one"].process is None
            refused = [line for line in told if "is not started" in line]
            assert len(refused) == 1, "not each time"
            assert f"{database} cannot be written (Read-only file system); it must be writable" in refused[0]
        supervisor.tick()
        assert supervisor.children["one"].process is None
        clock.now += REFUSED_S
        supervisor.tick()
        assert pid_of(layout) is not None
        assert supervisor.children["one"].restarts == 0


@pytest.mark.slow
@elsewhere
def test_in_a_namespace_of_its_own():
    """The same without root."""
    in_namespace(__file__)


@pytest.mark.parametrize("ending", ["", "-wal", "-shm"])
def test_each_of_the_files_counts(database, ending):
    assert unwritable(database) is None
    other = database.with_name("other.sqlite3")
    other.with_name(f"other.sqlite3{ending}").mkdir()
    assert f"other.sqlite3{ending} cannot be written (Is a directory)" in unwritable(other)


def test_a_lock_a_full_disk_and_no_file_are_not_read_only(database, tmp_path, monkeypatch):
    monkeypatch.setattr("portal.foundation.try_write.WAIT_S", 0.01)
    holder = sqlite3.connect(database)
    holder.execute("BEGIN IMMEDIATE")
    assert refusal(database).sqlite_errorname == "SQLITE_BUSY"
    assert not says_read_only(refusal(database))
    holder.close()
    assert not says_read_only(refusal(tmp_path / "none.sqlite3"))
    assert not (tmp_path / "none.sqlite3").exists()
    with contextlib.closing(sqlite3.connect(database)) as writer:
        writer.execute("PRAGMA max_page_count = 1")
        with pytest.raises(sqlite3.OperationalError) as full:
            writer.execute("INSERT INTO notes SELECT hex(randomblob(99999))")
    assert full.value.sqlite_errorname == "SQLITE_FULL"
    assert not says_read_only(full.value)
    with contextlib.closing(sqlite3.connect(database)) as reader:
        reader.execute("PRAGMA query_only = ON")
        with pytest.raises(sqlite3.OperationalError) as refused:
            reader.execute("INSERT INTO notes VALUES ('x')")
    assert says_read_only(refused.value)
