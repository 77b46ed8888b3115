"""How many wait: tiles, notice, next, queue page, cluster page, job list, REST and Prometheus count the same on one database."""

import re
from datetime import timedelta

import pytest
from django.utils import timezone

from portal.people.tenants.models import Tenant
from portal.people.tenants.services import token_create
from portal.planning.rounds.planning.run import planning_run
from portal.work.jobs.models import Job
from portal.work.jobs.services.control import job_hold
from tests.portal import given
from tests.portal.scraping import scraper

pytestmark = pytest.mark.django_db
ELIGIBLE, QUOTA, DEPENDENT, HELD, TASKS, AWAY, INVALID = 9, 2, 1, 1, 4, 1, 1
SET_ASIDE = QUOTA + DEPENDENT + INVALID


@pytest.fixture
def crowd(cluster):
    """A full node of 4 GPUs: two single jobs, an array of 4, a job for a node that is away, two CPU jobs, and others."""
    cluster.started(gpus=4, cores=8)
    small = Tenant.objects.create(name="speech-lab", gpu_quota=4)
    otto = given.member("otto", small)
    away = given.node_make("n2", gpus=8, cores=64)
    cluster.started(away, user=otto)
    cluster.submit(gpus=8)
    away.last_contact_at = timezone.now() - timedelta(hours=1)
    away.save()
    first = [cluster.submit(gpus=1), cluster.submit(gpus=4)]
    cluster.submit(gpus=1, array={"size": TASKS})
    for _ in range(2):
        cluster.submit(gpus=0, cores=2)
    for _ in range(QUOTA):
        cluster.submit(gpus=4, user=otto)
    cluster.submit(gpus=1, depends_on=[first[0].pk])
    typed = cluster.submit(gpus=1)
    Job.objects.filter(pk=typed.pk).update(gpu_types=["H900"])
    job_hold(job=cluster.submit(gpus=1), actor=cluster.owner)
    planning_run()
    assert not Job.objects.filter(state="STARTING").exclude(attempts__planning_number=1).exists()
    return cluster


def text(client, path):
    answer = client.get(path)
    assert answer.status_code == 200, path
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", answer.content.decode()))


def samples(client, name):
    lines = scraper().get("/metrics").content.decode().splitlines()
    return {line.rsplit(" ", 1)[0]: float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(name)}


def test_every_surface_counts_the_same(client, crowd):
    operator = given.operator()
    client.force_login(operator, backend="django.contrib.auth.backends.ModelBackend")
    waiting = ELIGIBLE + SET_ASIDE

    tiles = text(client, "/fragments/overview/tiles")
    assert f" {ELIGIBLE} jobs " in tiles
    aside = "1 waits for another job, 2 wait for their tenants' quotas, 1 cannot be planned, 1 held."

    queue = text(client, "/queue/").replace("&#x27;", "'")
    assert f"{waiting} jobs wait" in queue
    assert f"Not counted: {aside}" in queue
    assert "In no queue: 1 needs nodes that take no jobs now." in queue
    assert sum(map(int, re.findall(r": (\d+) waits?\.", queue))) == ELIGIBLE - AWAY

    secret = token_create(user=operator, name="t", scopes=["cluster:read", "jobs:read"], actor=None)[1]
    rest = client.get("/api/v1/metrics", headers={"Authorization": f"Bearer {secret}"}).json()
    told = {"dependency": DEPENDENT, "tenant-quota": QUOTA, "invalid": INVALID}
    assert rest["queue"] == {"waiting": waiting, "eligible": ELIGIBLE, "set_aside": told, "held": HELD}
    assert rest["now"]["queue_length"] == ELIGIBLE
    assert rest["series"][-1]["metrics"]["queue_length"] == ELIGIBLE

    assert samples(client, "berth_queue_length") == {"berth_queue_length": ELIGIBLE}
    assert samples(client, 'berth_jobs{state="PENDING"}') == {'berth_jobs{state="PENDING"}': waiting}
    pending = samples(client, "berth_jobs_pending")
    assert sum(pending.values()) == waiting
    assert pending['berth_jobs_pending{reason="tenant-quota"}'] == QUOTA

    listed = text(client, "/jobs/")
    chip = int(re.search(r"Waiting (\d+)", listed)[1])
    assert chip + TASKS - 1 == waiting, "an array is one row there"
    assert int(re.search(r"Held (\d+)", listed)[1]) == HELD
