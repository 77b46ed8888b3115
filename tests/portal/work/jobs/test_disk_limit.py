"""`disk_gib`: from the description to the node, and what becomes of a job that had more."""

import pytest
from django.http import QueryDict

from portal.foundation.errors import BerthError
from portal.pages.dashboard.jobs.ended import remedy_for
from portal.pages.dashboard.submit.form import initial_of
from portal.pages.dashboard.submit.reading import description_read
from portal.work.jobs.description import description_parse
from portal.work.jobs.models import Job
from portal.work.jobs.selectors import part_spec
from portal.work.jobs.services.ending import attempt_end_state
from portal.work.jobs.states import AttemptState, JobState

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    ("value", "code"),
    [
        (0, "out_of_range"),
        (-1, "out_of_range"),
        ("5", "wrong_type"),
        (True, "wrong_type"),
        (1e9, "out_of_range"),
        (float("inf"), None),
        ([1], "wrong_type"),
    ],
)
def test_what_is_no_size_is_refused_by_name(value, code):
    with pytest.raises(BerthError) as error:
        description_parse({"command": "true", "disk_gib": value})
    assert (error.value.status, error.value.field) == (400, "disk_gib")
    assert code is None or error.value.code == code


@pytest.mark.parametrize("value", [1, 0.5, 1_000_000])
def test_sizes_and_parts_of_a_gib(value):
    assert description_parse({"command": "true", "disk_gib": value}).disk_gib == value


def spec(cluster, **description):
    attempt = cluster.running(**description)
    return part_spec(node=cluster.node, key=attempt.key)


def test_the_jobs_own_limit_reaches_the_node(cluster):
    assert spec(cluster, disk_gib=0.5)["disk_mib"] == 512
    assert Job.objects.get().disk_gib == 0.5


@pytest.mark.parametrize(("default", "mib"), [("7", 7168), ("0", None)])
def test_without_one_the_operators_holds(cluster, monkeypatch, default, mib):
    monkeypatch.setenv("BERTH_JOB_DISK_GIB", default)
    assert spec(cluster)["disk_mib"] == mib


def test_an_arrays_tasks_have_its_limit(cluster):
    array = cluster.submit(array={"size": 2}, disk_gib=3)
    assert set(Job.objects.filter(array=array).values_list("disk_gib", flat=True)) == {3}


@pytest.mark.parametrize("others", [[], [("stopped", None)], [("exit", 0)]])
def test_the_attempt_fails_whatever_its_partners_did(others):
    assert attempt_end_state(parts=[("disk_limit", None), *others], stop_reason="") == AttemptState.FAILED


def test_the_job_says_why_and_its_page_what_to_do(cluster):
    attempt = cluster.running()
    cluster.end(
        attempt,
        reason="disk_limit",
        exit_code=None,
        detail="it used 1100 MiB of disk; its limit is 1024 MiB (disk_gib)",
    )
    job = Job.objects.get()
    assert (job.state, job.end_detail) == (
        JobState.FAILED,
        "it used 1100 MiB of disk; its limit is 1024 MiB (disk_gib)",
    )
    assert "how much disk" in remedy_for(job)


def test_the_form_takes_and_gives_it_back():
    post = QueryDict("command=true&gpu_mode=cpu&disk_gib=1.5 TiB")
    assert description_read(post).description["disk_gib"] == 1536
    assert initial_of({"command": "true", "disk_gib": 0.5})["disk_gib"] == "0.5 GiB"
    (problem,) = description_read(QueryDict("command=true&gpu_mode=cpu&disk_gib=much")).problems
    assert (problem.field, "24 GiB" in problem.detail) == ("disk_gib", True)
