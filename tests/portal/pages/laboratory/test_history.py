"""Berth's own past as a trace: finished jobs of a real database, replayed on its own cluster."""

import csv
import io
import json
from datetime import timedelta

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from portal.cluster.models import GpuType
from portal.pages.laboratory.checking import description_of
from portal.pages.laboratory.selectors import cluster_described
from portal.pages.laboratory.sources import history
from portal.pages.laboratory.sources.cluster_text import cluster_text
from portal.pages.laboratory.sources.clusters import cluster_parse
from portal.pages.laboratory.sources.history import cluster_registered, history_rows
from portal.people.tenants.models import Tenant
from portal.planning.rounds.models import OperatorSetting
from portal.work.jobs.models import Attempt, Job
from tests.portal.given import Cluster, member, node_make, operator

pytestmark = pytest.mark.django_db
HOUR = timedelta(hours=1)


@pytest.fixture
def past():
    """Two jobs that ended, one that runs, one that waits, and one of long ago; by two tenants."""
    cluster = Cluster.make()
    other = Tenant.objects.create(name="speech", weight=2.0, gpu_quota=3)
    ada = member("ada", other)
    now = timezone.now()
    first = ran(cluster, gpus=2, cores=6, name="first", expected_duration_s=4000)
    dated(first, submitted=now - 2 * HOUR, started=now - HOUR, waited_s=3600.0)
    cluster.end(first)
    second = ran(cluster, gpus=0, cores=2, user=ada, name="second")
    dated(second, submitted=now - 1.75 * HOUR, started=now - 0.5 * HOUR, waited_s=1800.0)
    cluster.end(second, exit_code=1)
    third = ran(cluster, gpus=1, cores=1, name="third")
    dated(third, submitted=now - 0.75 * HOUR, started=now - 0.25 * HOUR, waited_s=1800.0)
    cluster.submit(name="waits")
    old = ran(cluster, gpus=1, name="old")
    dated(old, submitted=now - 30 * 24 * HOUR, started=now - 30 * 24 * HOUR, waited_s=0.0)
    cluster.end(old)
    return cluster


def ran(cluster, **fields):
    attempt = cluster.started(**fields)
    cluster.report(attempt, "running", pid=attempt.pk)
    return attempt


def dated(attempt, *, submitted, started, waited_s):
    """As if it had begun then; an end is fixed by the database."""
    Attempt.objects.filter(pk=attempt.pk).update(started_at=started)
    Job.objects.filter(pk=attempt.job_id).update(submitted_at=submitted, started_at=started, waited_s=waited_s)


def export(tmp_path, name="h.jsonl", *arguments):
    call_command("trace", "export", str(tmp_path / name), *arguments, stderr=io.StringIO())
    return (tmp_path / name).read_text()


def test_jobs_that_ran_are_told_with_what_they_did(past, tmp_path):
    rows = [json.loads(line) for line in export(tmp_path).splitlines()]
    assert [row["name"] for row in rows] == ["first", "second", "third"]
    assert rows[0].pop("duration_s") == pytest.approx(3600, abs=60)
    assert rows[0] == {
        "submitted_s": 0.0,
        "tenant": "vision-lab",
        "gpus": [2],
        "name": "first",
        "owner": "lena",
        "cores": 3,
        "ran_gpus": 2,
        "ran_on": "A100",
        "expected_duration_s": 4000.0,
        "priority": 0,
        "movable": False,
    }
    assert (rows[1]["tenant"], rows[1]["gpus"], rows[1]["cores"]) == ("speech", 0, 2)
    assert [row["duration_s"] for row in rows[1:]] == pytest.approx([1800, 900], abs=60)


def test_time_that_was_no_waiting_is_before_the_arrival(past, tmp_path):
    """The second came a quarter of an hour after the first, and waited half an hour of the hour and a quarter until its start."""
    second = json.loads(export(tmp_path).splitlines()[1])
    assert second["submitted_s"] == pytest.approx(900 + 2700, abs=1)


def test_attempts_of_other_sizes_count_by_the_law_that_replays_them(past):
    """A checkpointable job's half hour on two GPUs is worth 2^0.9 times as much on one."""
    attempt = Attempt.objects.get(job__name="third")
    Job.objects.filter(pk=attempt.job_id).update(checkpointable=True, epoch=2, gpus=[1, 2])
    Attempt.objects.filter(pk=attempt.pk).update(epoch=2)
    began = attempt.started_at - HOUR
    Attempt.objects.create(
        job=attempt.job,
        epoch=1,
        state="PREEMPTED",
        gpus=2,
        cores=1,
        rendezvous_port=1,
        created_at=began,
        started_at=began,
        ended_at=began + HOUR / 2,
    )
    GpuType.objects.update(relative_speed=2.0)
    told = list(history_rows(days=7, now=timezone.now()))[2]
    # On no node that is known it ran at speed 1, half of an A100's.
    assert told["duration_s"] == pytest.approx(900 + 1800 * 0.5 * 2**0.9, abs=60)
    Job.objects.filter(pk=attempt.job_id).update(checkpointable=False)
    assert list(history_rows(days=7, now=timezone.now()))[2]["duration_s"] == pytest.approx(900, abs=60)


def test_a_tenants_own_history_holds_no_other_tenants_jobs(past):
    speech = Tenant.objects.get(name="speech")
    assert {row["tenant"] for row in history_rows(days=7, now=timezone.now(), tenants=[speech.pk])} == {"speech"}


def test_the_number_of_queries_does_not_grow(past, django_assert_num_queries):
    with django_assert_num_queries(3):
        list(history_rows(days=7, now=timezone.now()))


def test_csv_says_the_same(past, tmp_path):
    rows = list(csv.DictReader(io.StringIO(export(tmp_path, "h.csv"))))
    assert [(row["name"], row["gpus"], row["movable"]) for row in rows] == [
        ("first", "2", "no"),
        ("second", "0", "no"),
        ("third", "1", "no"),
    ]


def test_the_cluster_is_told_as_it_is_registered(past, tmp_path):
    node_make("n2")
    node_make("cpu", gpus=0, cores=4, storage_domain="nfs")
    call_command("trace", "cluster", str(tmp_path / "c.yaml"), stderr=io.StringIO())
    told = cluster_parse((tmp_path / "c.yaml").read_text())
    assert [(node.gpus_total, node.cores_total, node.memory_total_mib) for node in told.world.nodes] == [
        (4, 8, 16000),
        (4, 8, 16000),
        (0, 4, 16000),
    ]
    assert told.world.nodes[2].storage_domain == "nfs"
    assert told.tenants == ("vision-lab", "speech")
    assert [(one.weight, one.gpu_quota) for one in told.world.tenants] == [(1.0, None), (2.0, 3)]
    assert cluster_parse(cluster_text(told)).world.speeds == told.world.speeds
    assert told.world.restart_s == cluster_registered().world.restart_s


def test_what_a_restart_takes_is_what_the_jobs_that_one_may_see_took(past):
    """Else the knob's: the times of other tenants' jobs are not shown."""
    speech, none = Tenant.objects.get(name="speech"), Tenant.objects.create(name="none")
    people = {
        "operator": operator(),
        "lab": past.owner,
        "speech": member("sam", speech),
        "none": member("nina", none),
        "both": member("bob", speech),
    }
    member("bob", past.tenant)

    def told():
        return {name: cluster_described(user=user)["manners"]["restart_s"] for name, user in people.items()}

    assert told() == dict.fromkeys(people, 60.0)
    Job.objects.filter(name="first").update(restart_s=20.0)
    Job.objects.filter(name="third").update(restart_s=40.0)
    Job.objects.filter(name="second").update(restart_s=300.0)
    assert told() == {"operator": 120.0, "lab": 30.0, "speech": 300.0, "none": 60.0, "both": 120.0}
    assert cluster_described(user=people["both"], tenant=speech)["manners"]["restart_s"] == 300.0
    assert cluster_registered().world.restart_s == 120.0
    Job.objects.update(restart_s=1e9)
    assert cluster_parse(description_of(cluster_described(user=people["operator"]))).world.restart_s == 86_400.0


def test_last_week_can_be_replayed_under_other_policies_by_one_command(past):
    OperatorSetting.objects.create(name="policy", value="hops")
    OperatorSetting.objects.create(name="lambda", value=2.0)
    out = io.StringIO()
    call_command("simulate", "--history", "7", "--json", "--knob", "sigma=2", stdout=out, stderr=io.StringIO())
    answer = json.loads(out.getvalue())
    assert list(answer["policies"]) == ["hops"]
    assert answer["knobs"] == {"lambda": 2.0, "sigma": 2.0}
    assert answer["trace"] == "last-7-days.jsonl"
    figures = answer["policies"]["hops"]
    assert (figures["jobs"], figures["jobs_completed"]) == (3, 3)
    assert set(figures["tenants"]) == {"vision-lab", "speech"}
    assert figures["mean_wait_h"] == 0.0  # nobody had to wait on four idle GPUs


def test_what_cannot_be_told_is_refused(subtests):
    for arguments, complaint in [
        (["simulate"], "trace: give one of --trace"),
        (["simulate", "--history", "7", "--trace", "x"], "trace: give one of --trace"),
        (["simulate", "--history", "7", "--format", "philly"], "format: --format goes with --trace alone"),
        (["simulate", "--history", "0"], "days: 0 is not above 0"),
        (["simulate", "--trace", "x"], "format: a trace needs --format"),
        (["simulate", "--trace", "x", "--format", "philly"], "cluster: a trace needs --cluster"),
        (["trace", "export", "out.txt"], r"out: .* ends with neither \.jsonl nor \.csv"),
        (["trace", "export", "out.csv", "--days", "1"], "days: no job that was submitted in the last 1 days has run"),
        (["trace", "cluster", "out.yaml"], "cluster: no node is registered here"),
    ]:
        with subtests.test(arguments=arguments, complaint=complaint), pytest.raises(CommandError, match=complaint):
            call_command(*arguments, stdout=io.StringIO(), stderr=io.StringIO())


def test_what_a_restart_takes_is_told_of_the_newest_jobs(past, monkeypatch):
    monkeypatch.setattr(history, "RESTARTED_JOBS", 2)
    for place, job in enumerate(Job.objects.order_by("pk")[:3]):
        Job.objects.filter(pk=job.pk).update(restart_s=10.0 * 3**place)
    assert history.restart_s_of(Job.objects.all()) == 60.0
