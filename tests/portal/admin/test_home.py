"""The console's home: problems first, capacity against the queue, backups, operators' changes; times in the reader's zone."""

from datetime import timedelta

import pytest
from django.urls import reverse
from django.utils import timezone

from portal.cluster.models import NodeEvent
from portal.operate.backups.models import Backup
from portal.pages.dashboard.console.changes import words_of
from portal.pages.dashboard.console.home import capacity_make
from portal.pages.dashboard.parts.snapshot import Snapshot
from portal.people.tenants.models import AuditEvent
from portal.work.jobs.services.submission import job_submit

HOME = reverse("admin:index")


@pytest.fixture
def backups_made(monkeypatch):
    monkeypatch.setenv("BERTH_BACKUP_HOURS", "24")
    return lambda hours: Backup.objects.create(
        at=timezone.now() - timedelta(hours=hours), path="/x", size_bytes=2_100_000_000, took_s=40, proof="read"
    )


def page(console):
    return console.get(HOME).content.decode()


def test_a_backup_that_is_late_by_its_interval_is_a_problem_with_a_button(console, backups_made, settings):
    settings.DEMO = False
    backups_made(30)
    assert "Back up now" not in page(console)
    assert 'class="b-wait"' in page(console), "late, and no problem yet"
    Backup.objects.update(at=timezone.now() - timedelta(hours=49))
    assert f'formaction="{reverse("console-backup")}"' in page(console)


def test_back_up_now_asks_the_laboratorys_worker_and_is_for_operators(console, member, monkeypatch):
    sent = []
    monkeypatch.setattr(
        "portal.foundation.celery.app.send_task", lambda name, **more: sent.append((name, more["queue"]))
    )
    assert console.post(reverse("console-backup")).url == HOME
    assert sent == [("backups.make", "laboratory")]
    console.force_login(member)
    assert console.post(reverse("console-backup")).status_code == 404
    assert len(sent) == 1


def test_last_changes_are_operators_deeds_in_words_without_submissions(console, operator, member, node, tenant):
    job_submit(user=operator, description={"name": "own", "command": "true", "tenant": tenant.name})
    job_submit(user=member, description={"name": "hers", "command": "true"})
    shown = page(console)
    assert "let n1 join" in shown
    assert "made mia a member of vision-lab" in shown
    assert "job.submit" not in shown


@pytest.mark.parametrize(
    ("action", "target", "detail", "words"),
    [
        ("setting.change", "setting:sigma", {"from": 1.4, "to": 1.3}, "set Spread over nodes from 1.4 to 1.3"),
        ("setting.change", "setting:tick_s", {"from": 30.0, "to": 5.0, "reason": "r"}, "set tick_s from 30 to 5: r"),
        ("tenant.update", "tenant:1", {"gpu_quota": [8, None]}, "changed x: gpu quota 8 to \u2013"),
        ("gpu.cordon", "node:1", {"gpu": 5, "reason": "memory errors"}, "took GPU 5 of x out: memory errors"),
        ("job.cancel", "job:7", {}, "cancelled x"),
        ("link.measure", "gpu-type:1", {"bandwidth": {"a": 1}}, "measured x"),
        ("announcement.make", "announcement:1", {"text": "At 5."}, "announced: At 5."),
        ("node.heartbeat", "node:1", {}, "heartbeat: x"),
        ("node.drained", "node:1", ["odd"], "took x out"),
    ],
)
def test_a_change_is_said_in_words(action, target, detail, words):
    assert words_of(AuditEvent(action=action, target=target, detail=detail), "x") == words


def test_capacity_stands_by_type_against_what_waits_for_it(operator, member, node):
    job_submit(user=member, description={"name": "a", "command": "true", "gpus": 2, "gpu_types": ["V100"]})
    job_submit(user=member, description={"name": "b", "command": "true", "gpus": [1, 2]})
    rows = {row["kind"]: row for row in capacity_make(Snapshot(operator))}
    assert (rows["V100"]["total"], rows["V100"]["held"], rows["V100"]["waits"]) == (4, 0, "1 job waits, 2 GPUs")
    assert rows["any type"]["waits"] == "1 job waits, 1 GPU"


def test_times_are_printed_in_the_readers_zone(console, node, job):
    """Each time of a list or a record stands in a `time` element, which base.js prints."""
    for url in (HOME, reverse("admin:cluster_node_change", args=[node.pk]), reverse("admin:jobs_job_changelist")):
        text = console.get(url).content.decode()
        assert '<time datetime="' in text, url
        assert " UTC" not in text, url


def test_a_range_of_times_narrows_a_list_and_an_odd_one_is_refused(console, node):
    trail = reverse("admin:tenants_auditevent_changelist")
    assert console.get(trail).context["cl"].result_count
    later = (timezone.now() + timedelta(hours=1)).isoformat()
    assert console.get(trail, {"at__gte": later}).context["cl"].result_count == 0
    assert console.get(trail, {"at__lt": later}).context["cl"].result_count
    assert console.get(trail, {"at__gte": "soon"}).status_code == 302


def test_the_home_needs_no_more_queries_with_more_jobs(console, member, node, django_assert_max_num_queries):
    for count in (1, 8):
        for _ in range(count):
            job_submit(user=member, description={"name": "more", "command": "true", "gpus": 1})
        with django_assert_max_num_queries(50):
            console.get(HOME)


def test_rows_of_an_object_come_a_page_at_a_time(console, node):
    NodeEvent.objects.bulk_create(NodeEvent(node=node, kind="noted", detail=f"n{each}") for each in range(45))
    url = reverse("admin:cluster_node_change", args=[node.pk])
    assert "Page 1 of 3" in console.get(url).content.decode()
    assert "Page 3 of 3" in console.get(url, {"nodeevent": "3"}).content.decode()
    assert "Page 1 of 3" in console.get(url, {"nodeevent": "x"}).content.decode()
