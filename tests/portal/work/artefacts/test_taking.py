"""What a node tells and sends of a job's files: pieces, resumption, quotas, and what a hostile node may try."""

import time
from datetime import timedelta

import pytest
from django.utils import timezone

from portal.people.tenants.models import Tenant
from portal.work.artefacts import store
from portal.work.artefacts.models import Artefact, JobArtefacts, TenantArtefacts
from portal.work.artefacts.selectors import artefact_bytes, artefact_get, artefacts_of, artefacts_summary, tenant_use
from portal.work.artefacts.services import removing
from portal.work.artefacts.services.removing import artefacts_expire, artefacts_remove, artefacts_sweep
from portal.work.jobs.models import Job, JobInput
from portal.work.jobs.states import JobState
from tests.portal import given
from tests.portal.work.artefacts.sending import NS, Sender
from tests.smalldisk import small_disk

pytestmark = pytest.mark.django_db


@pytest.fixture
def sender(cluster):
    return Sender(cluster, cluster.running())


def stored(job):
    folder = store.folder(job.key)
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


def test_a_file_in_two_pieces_is_kept(sender):
    job = sender.attempt.job
    assert sender.tell(("out/a.pt", 6, NS))[1]["files"] == [
        {"path": "out/a.pt", "state": "send", "offset": 0, "detail": ""}
    ]
    assert sender.piece("out/a.pt", b"abcdef", stop=4) == (200, {"next_offset": 4, "kept": False})
    assert artefacts_summary(job).state == "uploading"
    assert sender.tell(("out/a.pt", 6, NS))[1]["files"][0]["offset"] == 4  # an agent that was killed asks
    assert sender.piece("out/a.pt", b"abcdef", start=4) == (200, {"next_offset": 6, "kept": True})
    row = artefact_get(job, "out/a.pt")
    assert artefact_bytes(job, row, most=100) == b"abcdef"
    assert (row.state, row.size, row.counted, TenantArtefacts.objects.get().counted) == ("kept", 6, 6, 6)
    assert sender.tell(("out/a.pt", 6, NS))[1]["files"][0]["state"] == "kept"


def test_a_piece_at_another_offset_is_answered_with_the_right_one(sender):
    sender.tell(("a", 6, NS))
    sender.piece("a", b"abcdef", stop=2)
    status, answer = sender.piece("a", b"abcdef", start=4)
    assert (status, answer["next_offset"]) == (409, 2)


def test_a_piece_that_was_spoilt_on_the_way_is_refused(sender):
    sender.tell(("a", 3, NS))
    status, answer = sender.piece("a", b"abc", piece="0" * 64)
    assert (status, answer["error"]["code"]) == (409, "checksum")
    assert stored(sender.attempt.job) == []


def test_a_whole_that_is_not_what_was_sent_begins_anew(sender):
    sender.tell(("a", 3, NS))
    status, answer = sender.piece("a", b"abc", whole="0" * 64)
    assert (status, answer["next_offset"]) == (409, 0)
    assert (artefact_get(sender.attempt.job, "a").state, stored(sender.attempt.job)) == ("uploading", [])


def test_a_newer_content_takes_the_older_ones_place_once_it_is_whole(sender):
    job = sender.attempt.job
    sender.send("a", b"old")
    sender.tell(("a", 5, NS + 1))
    row = artefact_get(job, "a")
    assert (row.state, row.told_size, row.counted) == ("kept", 5, 8)
    assert artefact_bytes(job, row, most=9) == b"old"
    sender.piece("a", b"newer", ns=NS + 1)
    assert artefact_bytes(job, artefact_get(job, "a"), most=9) == b"newer"
    assert (TenantArtefacts.objects.get().counted, len(stored(job))) == (5, 1)


def test_a_content_that_nobody_told_of_is_refused(sender):
    assert sender.piece("a", b"abc")[1]["error"]["code"] == "not_told"
    sender.tell(("a", 3, NS))
    assert sender.piece("a", b"abc", ns=NS + 1)[1]["error"]["code"] == "not_told"
    assert sender.piece("a", b"abcdef", size=3)[1]["error"]["code"] == "too_long"


@pytest.mark.parametrize(
    "path", ["../a", "/a", "a//b", "a/./b", "a\\b", "a\nb", "a\u202eb", "x/" * 40 + "x", "é" * 200]
)
def test_a_path_that_unpacks_elsewhere_is_not_taken(sender, path):
    status, answer = sender.tell((path, 3, NS))
    assert (status, answer["files"][0]["state"]) == (200, "refused")
    assert not Artefact.objects.exists()


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("tab\tname", "tab\\tname"),
        ("two\nlines", "two\\nlines"),
        ("C:\\out", "C:\\out"),
        ("zero\u200bwidth", "zero\\u200bwidth"),
        ("right\u202eleft", "right\\u202eleft"),
        ("half\x85", "half\\x85"),
    ],
)
def test_a_name_that_cannot_be_kept_stands_in_the_list_with_its_reason(sender, name, shown):
    sender.tell((name, 3, NS), ("fine", 3, NS))
    why = "its path has a backslash or a character that cannot be seen"
    assert artefacts_summary(sender.attempt.job).notes == ((shown, why),)


def test_long_names_that_are_refused_are_told_by_both_their_ends(sender):
    sender.tell(*(("d" * 290 + f"/{number}\t.pt", 3, NS) for number in range(2)))
    assert [path[-7:] for path, _ in artefacts_summary(sender.attempt.job).notes] == [
        "d/0\\t.pt"[-7:],
        "d/1\\t.pt"[-7:],
    ]


def test_what_a_node_does_not_send_is_told_without_what_cannot_be_seen(sender):
    sender.tell(notes=[["a\tb\u202e", "it is a link"]])
    assert artefacts_summary(sender.attempt.job).notes == (("a\\tb\\u202e", "it is a link"),)


def test_each_refusal_is_listed_until_the_file_is_taken_and_only_so_many(sender, monkeypatch):
    job = sender.attempt.job
    monkeypatch.setenv("BERTH_ARTEFACT_FILES", "1")
    sender.send("a", b"first")
    sender.tell(*((f"more-{number}", 1, NS) for number in range(60)))
    found = artefacts_summary(job)
    assert (len(found.notes), found.notes_more) == (50, 10)
    assert found.notes[0] == ("more-0", "the job has 1 files already, and may have no more")
    sender.tell(*((f"more-{number}", 2, NS) for number in range(60)), notes=[], notes_more=7)
    assert artefacts_summary(job).notes_more == 17, "told again, none is counted again"
    monkeypatch.setenv("BERTH_ARTEFACT_FILES", "2")
    sender.tell(("more-0", 1, NS))
    assert "more-0" not in dict(artefacts_summary(job).notes)
    monkeypatch.setenv("BERTH_ARTEFACT_FILES", "3")
    sender.tell(("more-59", 1, NS))
    assert artefacts_summary(job).notes_more == 16
    Artefact.objects.filter(path="a").update(epoch=2)
    sender.tell(("a", 6, NS + 5))
    assert dict(artefacts_summary(job).notes)["a"] == "a later attempt wrote it again"


@pytest.mark.parametrize(
    ("odd", "why"),
    [
        (("", 3, NS), "empty name"),
        (("x" * 5000, 3, NS), "longer than"),
        (("a", 2**62 + 1, NS), "its size is impossible"),
        (("a", -1, NS), "its size is impossible"),
        (("a", 10**100, NS), "its size is impossible"),
        (("a", 3, 2**63), "its time is impossible"),
        (("a", 3, -5), "its time is impossible"),
    ],
)
def test_an_odd_file_is_refused_alone(sender, odd, why):
    status, answer = sender.tell(("before", 3, NS), odd, ("after", 3, NS), notes=[[" ", "it is a link"]])
    assert (status, [each["state"] for each in answer["files"]]) == (200, ["send", "refused", "send"])
    assert why in answer["files"][1]["detail"]
    assert sorted(Artefact.objects.values_list("path", flat=True)) == ["after", "before"]
    assert JobArtefacts.objects.get().notes["0"] == [[" ", "it is a link"]]
    assert any(why in reason for _, reason in artefacts_summary(sender.attempt.job).notes)


def test_what_is_over_the_quota_is_listed_with_the_reason(sender):
    job = sender.attempt.job
    Tenant.objects.update(artefact_quota_gib=1)
    assert sender.tell(("big", 2**30 + 1, NS), ("small", 3, NS))[1]["files"][0]["state"] == "refused"
    row = artefact_get(job, "big")
    assert (row.state, row.counted) == ("not_kept", 0)
    assert "over the tenant's 1 GiB" in row.reason
    assert sender.send("small", b"abc")["state"] == "send"
    Tenant.objects.update(artefact_quota_gib=2)
    assert sender.tell(("big", 2**30 + 1, NS))[1]["files"][0]["state"] == "send"


def test_two_files_at_once_do_not_both_fit_a_quota_for_one(sender):
    Tenant.objects.update(artefact_quota_gib=1)
    answers = sender.tell(("a", 2**29 + 1, NS), ("b", 2**29 + 1, NS))[1]["files"]
    assert [each["state"] for each in answers] == ["send", "refused"]


def test_more_files_than_a_job_may_have_are_refused(sender, monkeypatch):
    monkeypatch.setenv("BERTH_ARTEFACT_FILES", "1")
    answers = sender.tell(("a", 1, NS), ("b", 1, NS))[1]["files"]
    assert [each["state"] for each in answers] == ["send", "refused"]
    assert Artefact.objects.count() == 1


def test_a_full_disk_refuses_clearly_and_changes_nothing(sender, monkeypatch):
    monkeypatch.setenv("BERTH_ARTEFACT_DISK_LOW_MIB", "1000000")
    status, answer = sender.tell(("a", 3, NS))
    assert (status, answer["error"]["code"]) == (507, "disk_low")
    assert not Artefact.objects.exists()


def test_a_file_that_went_before_it_was_sent_leaves_nothing(sender):
    sender.tell(("a", 6, NS))
    sender.piece("a", b"abcdef", stop=3)
    sender.tell(gone=["a"])
    assert (Artefact.objects.count(), TenantArtefacts.objects.get().counted, stored(sender.attempt.job)) == (0, 0, [])


def test_another_node_or_epoch_is_not_heard(cluster, sender):
    other = Sender(cluster, cluster.running(given.node_make("n2")), secret="berthnode_other")
    other.attempt = sender.attempt
    assert other.tell(("a", 3, NS))[0] == 404
    sender.attempt.epoch += 1
    assert sender.tell(("a", 3, NS))[0] == 404


def test_parts_of_several_nodes_have_folders_of_their_own(cluster):
    attempt = cluster.running(cluster.node, given.node_make("n2"))
    Sender(cluster, attempt).send("a", b"zero")
    Sender(cluster, attempt, rank=1, secret="berthnode_2").send("a", b"one")
    assert [(row.path, row.size) for row in artefacts_of(attempt.job)] == [("part-0/a", 4), ("part-1/a", 3)]


def test_a_later_attempt_writes_over_and_an_older_one_does_not(cluster, sender):
    sender.send("a", b"first")
    Artefact.objects.update(epoch=2)
    assert sender.tell(("a", 6, NS + 5))[1]["files"][0]["state"] == "refused"


def test_what_a_user_removed_is_not_sent_again(cluster, sender):
    job = sender.attempt.job
    sender.send("runs/a", b"abc")
    sender.send("b", b"abc")
    assert artefacts_remove(job=job, actor=cluster.owner, path="runs") == 1
    assert sender.tell(("runs/a", 3, NS))[1]["files"][0]["state"] == "refused"
    later = int((timezone.now() + timedelta(hours=1)).timestamp() * 1e9)
    assert sender.tell(("runs/a", 3, later))[1]["files"][0]["state"] == "send"
    assert (len(stored(job)), TenantArtefacts.objects.get().counted) == (1, 6)


@pytest.mark.parametrize(("ahead_min", "again"), [(10, "refused"), (600, "send")])
def test_what_was_removed_stays_so_where_the_node_s_clock_is_ahead(cluster, sender, ahead_min, again):
    written = time.time_ns() + ahead_min * 60 * 10**9
    sender.send("a", b"abc", ns=written)
    assert artefacts_remove(job=sender.attempt.job, actor=cluster.owner, path="a") == 1
    assert sender.tell(("a", 3, written))[1]["files"][0]["state"] == again
    assert sender.tell(("a", 3, written + 1))[1]["files"][0]["state"] == "send", "it was written anew"


def test_time_takes_them_away_and_gives_the_quota_back(cluster, sender):
    job = sender.attempt.job
    sender.send("a", b"abc")
    cluster.end(sender.attempt)
    assert artefacts_expire() == 0
    Job.objects.filter(pk=job.pk).update(ended_at=timezone.now() - timedelta(days=91))
    assert artefacts_expire() == 1
    assert (Artefact.objects.count(), stored(job), tenant_use(job.tenant).counted) == (0, [], 0)


def test_a_tenants_own_time_counts(cluster, sender):
    sender.send("a", b"abc")
    cluster.end(sender.attempt)
    Job.objects.update(ended_at=timezone.now() - timedelta(days=2))
    Tenant.objects.update(artefact_days=0)
    assert artefacts_expire() == 0
    Tenant.objects.update(artefact_days=1)
    assert artefacts_expire() == 1


def over_time(cluster, count):
    """Jobs with artefacts whose time is over."""
    jobs = []
    for _ in range(count):
        sender = Sender(cluster, cluster.running())
        sender.send("a", b"abc")
        cluster.end(sender.attempt)
        jobs.append(sender.attempt.job)
    Job.objects.update(ended_at=timezone.now() - timedelta(days=91))
    return jobs


def test_what_a_waiting_job_begins_with_stays_until_it_has_ended(cluster):
    needed, other = over_time(cluster, 2)
    later = cluster.submit()
    JobInput.objects.create(job=later, source=needed, path="a", target="a")
    JobInput.objects.create(job=later, source=None, path="a", target="b")
    assert artefacts_expire() == 1
    assert (len(stored(needed)), stored(other)) == (1, [])
    Job.objects.filter(pk=later.pk).update(state=JobState.CANCELLED, ended_at=timezone.now())
    assert artefacts_expire() == 1
    assert stored(needed) == []


def test_a_run_takes_all_of_them_or_as_many_as_it_has_time_for_and_says_so(cluster, monkeypatch, caplog):
    monkeypatch.setattr(removing, "AT_ONCE", 2)
    over_time(cluster, 5)
    with monkeypatch.context() as patch:
        patch.setattr(removing, "RUN_S", -1.0)
        assert artefacts_expire() == 0
    assert "the next goes on with the rest" in caplog.text
    assert artefacts_expire() == 5


def test_one_over_which_it_fails_keeps_no_other(cluster, monkeypatch):
    bad, good = over_time(cluster, 2)
    drop = store.drop_job
    monkeypatch.setattr(store, "drop_job", lambda key: 1 / 0 if key == bad.key else drop(key))
    assert artefacts_expire() >= 1
    assert (len(stored(bad)), stored(good)) == (1, [])


def test_what_its_node_never_sent_says_so_after_a_week(cluster, sender):
    sender.tell(("a", 3, NS))
    cluster.end(sender.attempt)
    Job.objects.update(ended_at=timezone.now() - timedelta(days=8))
    artefacts_expire()
    row = artefact_get(sender.attempt.job, "a")
    assert (row.state, row.reason, row.counted) == ("not_kept", "its node did not send it", 0)


def test_a_deleted_job_takes_its_files_along(cluster, sender):
    job = sender.attempt.job
    sender.send("a", b"abc")
    job.delete()
    assert (JobArtefacts.objects.count(), TenantArtefacts.objects.get().counted, store.folder(job.key).exists()) == (
        0,
        0,
        False,
    )


def test_folders_are_swept_in_many_turns(cluster, monkeypatch):
    monkeypatch.setattr(removing, "FOLDERS_AT_ONCE", 2)
    monkeypatch.setattr("portal.work.artefacts.store.ORPHAN_S", -1)
    jobs = over_time(cluster, 5)
    for job in jobs:
        store.append(job.key, store.name_new(), b"left", at=0)
    assert artefacts_sweep() == 5
    assert [len(stored(job)) for job in jobs] == [1] * 5


def test_what_a_kill_left_without_a_row_is_swept_a_day_later(sender, monkeypatch):
    job = sender.attempt.job
    sender.send("a", b"abc")
    store.append(job.key, store.name_new(), b"left", at=0)
    assert artefacts_sweep() == 0
    monkeypatch.setattr("portal.work.artefacts.store.ORPHAN_S", -1)
    TenantArtefacts.objects.update(counted=999)
    assert artefacts_sweep() == 1
    assert (len(stored(job)), TenantArtefacts.objects.get().counted) == (1, 3)


def test_a_disk_that_fills_in_the_middle_is_told_and_leaves_no_half_piece(sender, tmp_path):
    """A real disk of 1 MiB below the folder of artefacts: it is full before anybody looks at its room again."""
    big, step = bytes(1_500_000), 700_000
    with small_disk(1) as disk:
        (tmp_path / "artefacts").symlink_to(disk.path)
        sender.tell(("big", len(big), NS))
        assert sender.piece("big", big, stop=step)[0] == 200
        status, answer = sender.piece("big", big, start=step, stop=2 * step)
        assert (status, answer["error"]["code"]) == (507, "disk_low")
        assert sender.tell(("big", len(big), NS))[1]["files"][0]["offset"] == step
        sender.tell(gone=["big"])
        assert stored(sender.attempt.job) == []
        sender.send("small", b"abc")  # there is room again


def test_a_portal_from_an_older_backup_is_told_again_and_gets_what_it_lacks(sender):
    """The rows are yesterday's: of a content on its way, of one that is whole since, and of none."""
    job = sender.attempt.job
    for path in ("on-its-way", "whole-since", "new"):
        sender.tell((path, 6, NS))
        sender.piece(path, b"abcdef", stop=4)
    names = dict(Artefact.objects.values_list("path", "incoming"))
    for path in ("whole-since", "new"):
        sender.piece(path, b"abcdef", start=4)
    Artefact.objects.filter(path="new").delete()
    Artefact.objects.filter(path="whole-since").update(size=None, sha256="", blob="", told_size=6, told_ns=NS)
    Artefact.objects.filter(path="whole-since").update(incoming=names["whole-since"])
    (store.folder(job.key) / names["on-its-way"]).unlink()  # and the files were not copied with it
    told = {each["path"]: each for each in sender.tell(*((path, 6, NS) for path in names))[1]["files"]}
    assert {path: (each["state"], each["offset"]) for path, each in told.items()} == {
        "on-its-way": ("send", 0),
        "whole-since": ("send", 6),
        "new": ("send", 0),
    }
    assert sender.piece("on-its-way", b"abcdef")[1]["kept"]
    assert sender.piece("new", b"abcdef")[1]["kept"]
    assert sender.piece("whole-since", b"abcdef", start=6)[1]["kept"]
    for path in names:
        assert artefact_bytes(job, artefact_get(job, path), most=9) == b"abcdef"


def test_a_row_without_its_file_is_sent_again(sender):
    """A backup was restored without the folder of artefacts."""
    job = sender.attempt.job
    sender.send("a", b"abcdef")
    store.drop_job(job.key)
    assert sender.tell(("a", 6, NS))[1]["files"][0]["state"] == "send"
    assert sender.piece("a", b"abcdef")[1]["kept"]
    assert artefact_bytes(job, artefact_get(job, "a"), most=9) == b"abcdef"
    assert TenantArtefacts.objects.get().counted == 6
