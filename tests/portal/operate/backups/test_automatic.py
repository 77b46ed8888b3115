"""Backups by themselves: when one is due, how many are kept, and that an overdue one is named."""

from datetime import timedelta
from types import SimpleNamespace

import pytest
from django.utils import timezone

from portal.cluster.models import Node
from portal.operate.backups import automatic
from portal.operate.backups.automatic import backup_if_due, backup_problems
from portal.operate.backups.contents import BackupError
from portal.operate.backups.models import Backup
from portal.operate.health.problems import problems_of
from portal.planning.rounds.models import ErrandLease
from tests.portal import given

pytestmark = pytest.mark.django_db
HOUR = timedelta(hours=1)


def made(ago):
    row = {"path": "x", "size_bytes": 1, "took_s": 1.0, "proof": Backup.Proof.RESTORED}
    return Backup.objects.create(at=timezone.now() - ago, **row)


@pytest.fixture
def making(monkeypatch, tmp_path, settings):
    """Files in place of real backups, which the commands' tests make; counts them."""
    settings.DATA_DIR, settings.DEMO = tmp_path, False
    (tmp_path / "backups").mkdir()
    done = []

    def make(**flags):
        done.append(flags)
        (tmp_path / "backups" / f"berth-automatic-{len(done):03}.berth-backup").touch()
        return made(timedelta())

    monkeypatch.setattr(automatic, "backup_make", make)
    return SimpleNamespace(done=done, directory=tmp_path / "backups")


def test_the_first_is_due_at_once_and_the_next_after_the_interval(making):
    assert backup_if_due() is not None
    assert backup_if_due() is None
    Backup.objects.update(at=timezone.now() - 24 * HOUR)
    assert backup_if_due() is not None
    assert [flags["automatic"] for flags in making.done] == [True, True]


def test_one_made_by_hand_counts(making):
    made(HOUR)
    assert backup_if_due() is None


@pytest.mark.parametrize("how", ["0 hours", "demo"])
def test_none_is_made_where_none_is_wanted(making, settings, monkeypatch, how):
    if how == "demo":
        settings.DEMO = True
    else:
        monkeypatch.setenv("BERTH_BACKUP_HOURS", "0")
    assert backup_if_due() is None
    made(1000 * HOUR)
    assert backup_problems(timezone.now()) == []


def test_the_newest_are_kept_and_what_a_person_made_is_never_removed(making, monkeypatch):
    (making.directory / "berth-20200101T000000Z.berth-backup").touch()
    (making.directory / "notes.txt").touch()
    monkeypatch.setenv("BERTH_BACKUP_KEEP", "2")
    for _ in range(4):
        Backup.objects.all().delete()
        backup_if_due()
    left = sorted(path.name for path in making.directory.iterdir())
    assert left == [
        "berth-20200101T000000Z.berth-backup",
        "berth-automatic-003.berth-backup",
        "berth-automatic-004.berth-backup",
        "notes.txt",
    ]


def test_two_workers_do_not_make_one_at_once(making):
    ErrandLease.objects.create(name="backups.make", holder="another", until=timezone.now() + HOUR)
    assert backup_if_due() is None
    assert making.done == []


def test_a_failure_is_logged_keeps_the_old_ones_and_is_tried_again(making, monkeypatch, caplog):
    kept = making.directory / "berth-automatic-000.berth-backup"
    kept.touch()
    monkeypatch.setattr(
        automatic, "backup_make", lambda **_: (_ for _ in ()).throw(BackupError("No room.", "Make some."))
    )
    assert backup_if_due() is None
    assert "no backup was made: No room. Make some." in caplog.text
    assert kept.exists()
    assert ErrandLease.objects.get().until is None


def test_an_overdue_backup_is_named(making):
    made(47 * HOUR)
    assert backup_problems(timezone.now()) == []
    Backup.objects.update(at=timezone.now() - 49 * HOUR)
    (said,) = backup_problems(timezone.now())
    assert said.startswith("backup: the newest is of 20")
    assert said in problems_of(timezone.now())


def test_nodes_that_jobs_wait_for_since_a_restore_are_named(cluster):
    given.node_make("n2")
    Node.objects.filter(name="n2").update(unsettled_since=timezone.now())
    assert [
        said for said in problems_of(timezone.now()) if said.startswith("nodes: 1 silent since a backup was restored")
    ]
