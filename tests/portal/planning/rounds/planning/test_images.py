"""An image that an operator takes from a tenant's list starts no more jobs, whenever these were submitted."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from portal.cluster.models import Node
from portal.people.tenants.models import Tenant
from portal.planning.rounds.planning import memory as memories
from portal.planning.rounds.planning.aside import images_refused
from portal.planning.rounds.planning.queued import queue_load
from portal.planning.rounds.planning.run import planning_run
from portal.planning.rounds.read.explained import explanation
from portal.work.jobs.models import Job
from tests.portal import given

IMAGE, OTHER = "docker.io/team/train:1", "docker.io/team/serve:1"


@pytest.fixture
def images(cluster):
    """A full node that runs images, and a tenant with a list of two."""
    memories.memory_lose()
    Node.objects.update(software={"images": "apptainer"})
    allow(f"{IMAGE}\n{OTHER}")
    cluster.running(gpus=4)
    yield cluster
    memories.memory_lose()


def allow(text):
    Tenant.objects.update(images=text)


def planned(*jobs):
    planning_run()
    return [Job.objects.values_list("state", "reason").get(pk=job.pk) for job in jobs]


def test_a_waiting_job_is_set_aside_when_its_image_leaves_the_list_and_comes_back_with_it(images):
    job = images.submit(software={"image": IMAGE})
    other = images.submit(software={"image": OTHER})
    assert planned(job, other) == [("PENDING", "not-enough-idle-gpus")] * 2
    allow(OTHER)
    assert planned(job, other) == [("PENDING", "invalid"), ("PENDING", "not-enough-idle-gpus")]
    assert planned(job) == [("PENDING", "invalid")], "in a planning that kept its jobs too"
    job.refresh_from_db()
    assert f"may no longer use the image {IMAGE}" in explanation(job)["sentence"]
    allow("docker.io/team/*")
    assert planned(job) == [("PENDING", "not-enough-idle-gpus")]


def test_tasks_of_an_array_follow_its_image(images):
    images.submit(software={"image": IMAGE}, array={"size": 3})
    allow(OTHER)
    planning_run()
    tasks = Job.objects.exclude(array=None)
    assert set(tasks.values_list("state", "reason")) == {("PENDING", "invalid")}


def test_it_does_not_start_on_idle_gpus(images):
    job = images.submit(software={"image": IMAGE})
    given.node_make("n2", software={"images": "apptainer"})
    allow("")
    assert planned(job) == [("PENDING", "invalid")]
    allow(IMAGE)
    assert planned(job) == [("STARTING", "")]


@pytest.mark.parametrize(("image", "queries"), [(None, 0), (IMAGE, 2)])
def test_who_wants_no_image_costs_no_query(images, image, queries):
    for _ in range(3):
        images.submit(**({"software": {"image": image}} if image else {}))
    rows = queue_load()
    with CaptureQueriesContext(connection) as asked:
        assert images_refused(rows) == {}
    assert len(asked) == queries
