"""A job that there is can be changed: while it waits what it asks for, while it runs its time limit, within limits; or nothing."""

import pytest

from portal.foundation.errors import BerthError
from portal.work.jobs.models import Job, JobEvent, JobPayload, JobText
from portal.work.jobs.selectors import parts_wanted
from portal.work.jobs.services.asked.editing import changes_parse, job_edit
from portal.work.jobs.services.control import job_cancel
from tests.portal import given

pytestmark = pytest.mark.django_db
R_NUM = 8


def edit(job, actor, **body):
    return job_edit(job=job, actor=actor, changes=changes_parse(body, r_num=R_NUM))


def test_a_waiting_job_is_changed_in_all_that_can_be(cluster):
    job = cluster.submit(name="old", gpus=1, time_limit_s=60)
    edit(job, cluster.owner, name="new", labels={"team": "blue"}, time_limit_s=7200, gpus=[1, 2], priority=-5)
    job.refresh_from_db()
    assert (job.name, job.labels, job.time_limit_s, job.gpus, job.priority, job.gpus_least) == (
        "new",
        {"team": "blue"},
        7200,
        [1, 2],
        -5,
        1,
    )
    assert JobText.objects.get(job=job).text == "new\nteam=blue"
    assert JobPayload.objects.get(job=job).description["gpus"] == [1, 2], "a relaunch begins with it"
    assert JobEvent.objects.filter(job=job, kind="edited", text__contains="old -> new").exists()
    edit(job, cluster.owner, time_limit_s=None)
    assert Job.objects.get(pk=job.pk).time_limit_s is None


@pytest.mark.parametrize(
    ("body", "field", "code"),
    [
        ({}, "priority", "required"),
        ({"command": "x"}, "command", "not_changeable"),
        ({"state": "RUNNING"}, "state", "read_only"),
        ({"colour": 1}, "colour", "unknown_field"),
        ({"name": "new", "gpus": 0}, "gpus", "not_changeable"),
        ({"name": "new", "gpus": "many"}, "gpus", None),
        ({"name": "new", "time_limit_s": 0}, "time_limit_s", "out_of_range"),
        ({"name": "a\nb"}, "name", "control_character"),
        ({"name": "new", "priority": 5}, "priority", None),
        ({"labels": 3}, "labels", "wrong_type"),
    ],
)
def test_what_is_wrong_names_its_field_and_changes_nothing(cluster, body, field, code):
    job = cluster.submit(name="old")
    before = Job.objects.filter(pk=job.pk).values().get()
    with pytest.raises(BerthError) as refused:
        edit(job, cluster.owner, **body)
    assert refused.value.field == field
    assert code in {None, refused.value.code}
    assert Job.objects.filter(pk=job.pk).values().get() == before


def test_a_running_jobs_limit_grows_as_far_as_the_knob_allows(cluster):
    attempt = cluster.running(time_limit_s=3600)
    job, revision = attempt.job, cluster.node.revision
    edit(job, cluster.owner, time_limit_s=7200)
    cluster.node.refresh_from_db()
    assert cluster.node.revision > revision, "its node is woken"
    [wanted] = parts_wanted(node_id=cluster.node.pk)["attempts"]
    assert wanted["time_limit_s"] == 7200
    for limit_s, code in ((7201, "out_of_range"), (3600, "not_waiting"), (None, "not_waiting")):
        with pytest.raises(BerthError) as refused:
            edit(job, cluster.owner, time_limit_s=limit_s)
        assert (refused.value.field, refused.value.code) == ("time_limit_s", code)
    edit(job, given.operator(), time_limit_s=36000)
    assert Job.objects.get(pk=job.pk).time_limit_s == 36000


def test_a_running_job_is_not_resized_so(cluster):
    job = cluster.running(name="old").job
    for body in ({"gpus": [1, 2]}, {"priority": -1}, {"time_limit_s": 60}):
        with pytest.raises(BerthError) as refused:
            edit(job, cluster.owner, name="new", **body)
        assert refused.value.code == "not_waiting"
    assert Job.objects.get(pk=job.pk).name == "old"
    edit(job, cluster.owner, name="new")
    assert Job.objects.get(pk=job.pk).name == "new"


def test_an_ended_job_stays_as_it_is(cluster):
    job = job_cancel(job=cluster.submit(), actor=cluster.owner)
    with pytest.raises(BerthError) as refused:
        edit(job, cluster.owner, name="new")
    assert refused.value.code == "terminal_state"


def test_an_arrays_waiting_tasks_follow_it(cluster):
    array = cluster.submit(name="old", array={"size": 3}, time_limit_s=60)
    first = Job.objects.get(array=array, array_index=0)
    cluster.start(first)
    edit(array, cluster.owner, time_limit_s=120)
    limits = list(Job.objects.filter(array=array).order_by("array_index").values_list("time_limit_s", flat=True))
    assert limits == [60, 120, 120]
    with pytest.raises(BerthError):
        edit(array, cluster.owner, gpus=[1, 2])


def test_more_time_is_offered_on_the_page(cluster, client):
    job = cluster.running(time_limit_s=3600).job
    client.force_login(cluster.owner, backend="django.contrib.auth.backends.ModelBackend")
    assert "More time" in client.get(f"/jobs/{job.number}/").content.decode()
    client.post(f"/jobs/{job.number}/extend", {"by": "1800"})
    assert Job.objects.get(pk=job.pk).time_limit_s == 5400
    for by in ("x", "-5", "999999"):
        client.post(f"/jobs/{job.number}/extend", {"by": by})
    assert Job.objects.get(pk=job.pk).time_limit_s == 5400
