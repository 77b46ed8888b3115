"""Sentence, detail, queue page, job page, form and REST say the same place of the same queue, over random clusters."""

import re
from datetime import timedelta

import pytest
from django.db import transaction
from django.test import Client
from django.utils import timezone
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from portal.pages.dashboard.parts.snapshot import Snapshot
from portal.pages.dashboard.queue.page import queue_context
from portal.people.tenants.models import Tenant
from portal.planning.rounds.asking.dryrun import dry_run
from portal.planning.rounds.models import Planning
from portal.planning.rounds.planning.run import planning_run
from portal.planning.rounds.read.explained import explanation
from portal.planning.rounds.read.selectors import planning_decisions, planning_last
from portal.planning.rounds.record.decisions import decisions_read
from portal.planning.rounds.services import settings_update
from portal.work.jobs.description import description_parse
from portal.work.jobs.models import Job
from scheduler.explaining.places import QUEUES
from tests.portal import given as portal

pytestmark = pytest.mark.django_db
PLACE = re.compile(rf"place (\d+) of (\d+) in the queue for ({'|'.join(QUEUES.values())})", re.IGNORECASE)
POLICIES = (
    {"policy": "berth"},
    {"policy": "berth", "arrays": "off"},
    {"policy": "hops"},
    {"policy": "fifo"},
    {"policy": "drf"},
    {"policy": "coda"},
)


@st.composite
def worlds(draw):
    """Sizes of nodes, GPUs held on each, jobs as (tenant, smallest size, minutes waited, whether it may run again)."""
    nodes = draw(st.lists(st.sampled_from([2, 4, 8]), min_size=1, max_size=3))
    held = [draw(st.integers(0, gpus)) for gpus in nodes]
    sizes = st.sampled_from([size for size in (0, 1, 1, 2, 4) if size <= max(nodes)])
    jobs = st.tuples(st.integers(0, 2), sizes, st.integers(0, 300), st.booleans())
    return nodes, held, draw(st.lists(jobs, min_size=3, max_size=14)), draw(st.sampled_from(POLICIES))


def build(world):
    nodes, held, jobs, knobs = world
    settings_update(actor=None, **knobs)
    tenants = [Tenant.objects.create(name=f"tenant-{n}") for n in range(3)]
    people = [portal.member(f"user-{n}", tenant) for n, tenant in enumerate(tenants)]
    cluster = portal.Cluster(tenants[0], people[0], None)
    for number, (gpus, busy) in enumerate(zip(nodes, held, strict=True)):
        node = portal.node_make(f"node-{number}", gpus=gpus, cores=32)
        if busy:
            cluster.started(node, gpus=busy, cores=busy, user=people[number])
    for tenant, gpus, waited, again in jobs:
        job = cluster.submit(user=people[tenant], gpus=gpus, cores=1 if not gpus else None, restartable=again)
        Job.objects.filter(pk=job.pk).update(waiting_since=timezone.now() - timedelta(minutes=waited))
    return cluster, people


@pytest.mark.slow
@settings(
    max_examples=20, deadline=None, suppress_health_check=list(HealthCheck), phases=(Phase.explicit, Phase.generate)
)
@given(worlds())
def test_every_page_says_the_same_place(db, world):
    with transaction.atomic():
        cluster, people = build(world)
        operator = portal.operator()
        first = planning_run()
        assert first.status == Planning.Status.APPLIED
        newest = cluster.submit(user=people[0], gpus=1)
        imagined = asked(people[0], newest)
        planning_run()
        check(operator, imagined, newest)
        transaction.set_rollback(True)


def asked(user, job):
    """The form's words about a job like this one, before the planning that decides on it."""
    Job.objects.filter(pk=job.pk).update(state="CANCELLED", waiting_since=None)
    description = description_parse({"command": "true", "gpus": 1}, r_num=4)
    told = dry_run(description=description, tenant=job.tenant, user=user)
    Job.objects.filter(pk=job.pk).update(state="PENDING", waiting_since=timezone.now())
    return told


def check(operator, imagined, newest):
    planning = planning_last()
    decisions, rows = decisions_read(planning), queue_rows(operator)
    recorded = {each["job"]: each for each in planning_decisions(planning, operator)}
    client = Client()
    client.force_login(operator, backend="django.contrib.auth.backends.ModelBackend")
    for job in Job.objects.filter(state="PENDING"):
        told = explanation(job)
        place = (told["place"], told["queue_length"], told["queue"] and QUEUES[told["queue"]])
        if told["place"] is None:
            assert job.number not in rows
            continue
        assert rows[job.number] == place
        assert told["ahead"] == place[0] - 1
        page = re.sub(r"<[^>]*>|\s+", " ", client.get(f"/jobs/{job.number}/").content.decode())
        assert {said(each) for each in PLACE.findall(re.sub(r"\s+", " ", page))} == {place}
        if told["reason"] == "outside-window":
            assert [said(each) for each in PLACE.findall(told["sentence"])] == [place]
            figures = recorded[job.pk]["figures"]
            assert (figures["place"], figures["queue_length"], QUEUES[figures["queue"]]) == place
            assert figures == told["figures"]
            assert "place" not in job.reason_figures, "it would be old with the next planning"
        if job.pk == newest.pk:
            assert (imagined["place"], imagined["queue_length"], QUEUES[imagined["queue"]]) == place
            assert imagined["ahead"] == told["ahead"]
            assert imagined["reason"] == told["reason"]
            if told["reason"] == "outside-window":
                assert imagined["sentence"] == told["sentence"]
    assert sum(len(line) for line in decisions.order.values()) == len(rows)


def said(found):
    place, length, queue = found
    return int(place), int(length), queue


def queue_rows(user):
    """Number -> (place, jobs, queue) as the queue page's table has them."""
    shown = {row["number"]: row["place"] for row in queue_context(Snapshot(user), {})["rows"] if row["place"]}
    return {job: (at["place"], at["queue_length"], QUEUES[at["queue"]]) for job, at in shown.items()}
