"""Stories of a database older than the nodes: restored from a backup, put back by hand, or robbed of its last seconds."""

import os
import shutil
import sqlite3
from contextlib import closing

import pytest

from tests.system.helpers.client import Tenant, leaks
from tests.system.helpers.ledger import Ledger, pids_running
from tests.system.helpers.story import AFTER, ENVIRONMENT, LIMIT_S, Story, backup_and_restore, killed

pytestmark = pytest.mark.system


def database_copy(source, target):
    with closing(sqlite3.connect(source)) as one, closing(sqlite3.connect(target)) as other:
        one.backup(other)


def database_put_back(berth, copy):
    for path in berth.layout.root.glob("berth.sqlite3*"):
        path.unlink()
    shutil.copy(copy, berth.layout.database)


def test_the_story_on_sqlite(berth_once, tmp_path):
    backup_and_restore(berth_once(demo=True, workload=False, environment=ENVIRONMENT), tmp_path)


def test_a_copy_of_the_file_put_back_by_hand(berth_once, tmp_path):
    """Nobody tells Berth that its database is an older one; what the nodes say is enough."""
    berth = berth_once(demo=True, workload=False, environment=ENVIRONMENT)
    story = Story(berth, tmp_path)
    story.until_backup()
    database_copy(berth.layout.database, tmp_path / "copy.sqlite3")
    story.after_backup()
    killed(berth)
    database_put_back(berth, tmp_path / "copy.sqlite3")
    berth.up()
    story.after_restore()


def test_a_database_that_lost_its_last_seconds(berth_once, tmp_path):
    """The end of the write-ahead log is gone, as after a power cut on a disk that lied: jobs began, and it knows nothing."""
    berth = berth_once(demo=True, workload=False, environment=ENVIRONMENT)
    tenant = Tenant(berth)
    before, lost, after = (Ledger(tmp_path / name, tenant) for name in ("before", "lost", "after"))
    with closing(sqlite3.connect(berth.layout.database)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    finish = tmp_path / "finish"
    anchors = [before.submit(3000, "--until", finish, gpus=2, **kind) for kind in ({}, {"restartable": True})]
    berth.wait(lambda: len(before.running()) >= 2, limit_s=LIMIT_S, what="the anchors")
    wal = berth.layout.root / "berth.sqlite3-wal"
    kept = wal.stat().st_size
    numbers = [lost.submit(0.1) for _ in range(AFTER)]
    tenant.ends(numbers[: AFTER // 2], limit_s=LIMIT_S)
    killed(berth)
    assert wal.stat().st_size > kept
    os.truncate(wal, kept)
    berth.up()
    new = [after.submit(0.1) for _ in range(AFTER)]
    assert set(tenant.ends(new, limit_s=LIMIT_S).values()) == {"COMPLETED"}
    finish.touch()
    states = tenant.ends(anchors, limit_s=LIMIT_S)
    assert set(states.values()) == {"COMPLETED"}, states
    before.check(states)
    berth.wait(lambda: not pids_running(tmp_path), limit_s=LIMIT_S, what="the end of all processes")
    assert leaks(berth) == []
