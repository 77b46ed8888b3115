"""Stories of a database older than the nodes: restored from a backup, put back by hand, or robbed of its last seconds."""

import os
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import pytest

from tests.system.helpers.client import Tenant, leaks
from tests.system.helpers.ledger import Ledger, pids_running
from tests.system.helpers.story import AFTER, ENVIRONMENT, LIMIT_S, Story, backup, killed, restore

pytestmark = [pytest.mark.system, pytest.mark.slow]


def database_copy(source, target):
    with closing(sqlite3.connect(source)) as one, closing(sqlite3.connect(target)) as other:
        one.backup(other)


def database_put_back(berth, copy):
    for path in berth.layout.root.glob("berth.sqlite3*"):
        path.unlink()
    shutil.copy(copy, berth.layout.database)


HOLD = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
while connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]:
    pass
connection.execute("BEGIN").execute("SELECT count(*) FROM jobs_job").fetchone()
print("held", flush=True)
sys.stdin.read()
"""
"""Reads the database as it is now until it is killed. Meanwhile SQLite writes no later page into the file, nor begins the
write-ahead log anew, which it otherwise does after a thousand pages: on a busy machine before the test has cut its end."""


@contextmanager
def log_kept(database):
    """Whatever is written meanwhile stands in the write-ahead log alone, in its order."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(database)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as reader:
        try:
            assert reader.stdout.readline() == "held\n"
            yield
        finally:
            reader.kill()  # it must not close its connection: the last to do so writes the log into the database


def users_of(database):
    """Processes that have it or its index open. While one has, the index is not made anew from a log that was cut.

    Who has a database open that was put away since is none of them.
    """
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has just ended
            for link in list((process / "fd").iterdir()):
                with suppress(FileNotFoundError):  # closed since: of this very process, what the list was read from
                    name = str(link.readlink())
                    if name.startswith(str(database)) and not name.endswith(" (deleted)"):
                        found.append(int(process.name))
    return found


def jobs_in(berth, directory, ledger):
    """How many of a ledger's jobs the database knows. Asked of a copy: it is left for Berth as it is."""
    for path in (berth.layout.database, berth.layout.root / "berth.sqlite3-wal"):
        shutil.copy(path, directory)
    with closing(sqlite3.connect(directory / berth.layout.database.name)) as copy:
        query = "SELECT count(*) FROM jobs_jobpayload WHERE instr(command, ?)"
        return copy.execute(query, [f"{ledger.directory} "]).fetchone()[0]


@pytest.fixture
def berth(berth_once):
    return berth_once(demo=True, workload=False, environment=ENVIRONMENT)


def test_a_copy_of_the_file_put_back_by_hand_and_then_a_backup_restored(berth, tmp_path):
    """After the first nobody tells Berth that its database is an older one; what the nodes say is enough.

    The second knows nothing of that life either: some of what ran when it was made has ended meanwhile.
    """
    story, file = Story(berth, tmp_path), tmp_path / "all.berth-backup"
    story.until_backup()
    backup(story, file)
    database_copy(berth.layout.database, tmp_path / "copy.sqlite3")
    story.after_backup()
    killed(berth)
    database_put_back(berth, tmp_path / "copy.sqlite3")
    berth.up()
    story.goes_on("after-copy", story.told, story.ends)
    story.some_end()
    killed(berth)
    restore(story, file)
    story.goes_on("after-backup")
    story.had_ended()
    story.all_end()


def test_a_database_that_lost_its_last_seconds(berth, tmp_path):
    """The end of the write-ahead log is gone, as after a power cut on a disk that lied: jobs began, and it knows nothing."""
    tenant = Tenant(berth)
    before, lost, after = (Ledger(tmp_path / name, tenant) for name in ("before", "lost", "after"))
    finish, wal = tmp_path / "finish", berth.layout.root / "berth.sqlite3-wal"
    with log_kept(berth.layout.database):
        anchors = [before.submit(3000, "--until", finish, gpus=2, **kind) for kind in ({}, {"restartable": True})]
        berth.wait(lambda: len(before.running()) >= 2, limit_s=LIMIT_S, what="the anchors")
        kept = wal.stat().st_size
        numbers = [lost.submit(0.1) for _ in range(AFTER)]
        tenant.ends(numbers[: AFTER // 2], limit_s=LIMIT_S)
        killed(berth)
        assert wal.stat().st_size > kept
        os.truncate(wal, kept)
    berth.wait(lambda: not users_of(berth.layout.database), what="the end of all who have it open")
    assert [jobs_in(berth, tmp_path, ledger) for ledger in (before, lost)] == [len(anchors), 0]
    berth.up()
    new = [after.submit(0.1) for _ in range(AFTER)]
    assert set(tenant.ends(new, limit_s=LIMIT_S).values()) == {"COMPLETED"}
    finish.touch()
    states = tenant.ends(anchors, limit_s=LIMIT_S)
    assert set(states.values()) == {"COMPLETED"}, states
    before.check(states)
    berth.wait(lambda: not pids_running(tmp_path), limit_s=LIMIT_S, what="the end of all processes")
    assert leaks(berth) == []
