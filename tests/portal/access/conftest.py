"""The world of the casts, built once a module for tests that take every change back."""

import copy

import pytest
from django.conf import settings
from django.db import transaction
from django.test import override_settings
from django.utils import timezone

from portal.cluster.models import Node
from portal.cluster.services.operating import node_drain
from portal.planning.rounds.planning.run import planning_run
from portal.work.jobs.models import Allocation
from portal.work.jobs.services.logs import log_append
from portal.work.jobs.services.submission import job_submit
from tests.portal.access.committed import Committed
from tests.portal.access.safe import BREAK_OUT, SHOUT
from tests.portal.access.world import build, offers_keep, running


@pytest.fixture(scope="module", autouse=True)
def _no_broker():
    """No broker."""
    with override_settings(REDIS_URL="redis://127.0.0.1:1/0"):
        yield


@pytest.fixture(scope="module")
def built(django_db_setup, django_db_blocker, _no_broker):
    """The world once a module, in a transaction around those of the tests: to build it takes a third of a second."""
    assert settings.REDIS_URL.endswith(":1/0")
    with django_db_blocker.unblock(), transaction.atomic():
        yield build()
        transaction.set_rollback(True)


@pytest.fixture(scope="session")
def committed(tmp_path_factory):
    """The same for tests whose application reads in threads of its own: to build it takes as long as most of them."""
    return Committed(tmp_path_factory.mktemp("committed"))


@pytest.fixture(scope="module")
def offers_known(built, django_db_blocker):
    """What would start the waiting jobs sooner is kept for all who ask."""
    with django_db_blocker.unblock():
        offers_keep(built)


@pytest.fixture
def world(built, db):
    """The same for each test, as of now: its objects are copies, its rows are put back when the test ends."""
    Node.objects.exclude(name="silent").update(last_contact_at=timezone.now())
    return copy.deepcopy(built)


@pytest.fixture
def loud(world):
    """A running, a waiting and a held job with markup wherever a tenant, a node or an operator may write text."""
    words = {
        "name": SHOUT,
        "command": f"echo {SHOUT} {BREAK_OUT}",
        "labels": {"note": SHOUT + BREAK_OUT, "second": BREAK_OUT},
        "environment": {"LOUD": SHOUT + BREAK_OUT},
        "working_directory": "out/<script>alert('zz')",
    }
    owner = world.users["owner"]
    for gpus, need in (([0], {"gpus": 0, "cores": 1}), ([8], {"gpus": [8]})):
        job = job_submit(user=owner, description={**words, **need})
        world.names[f"loud-{gpus[0]}"] = job.pk
    planning = planning_run()
    world.names["planning"] = planning.number
    part = Allocation.objects.select_related("node", "attempt").get(attempt__job_id=world.names["loud-0"])
    running(world, part.node)
    log_append(
        node=part.node,
        key=part.attempt.key,
        epoch=part.attempt.epoch,
        rank=0,
        stream="stdout",
        offset=0,
        data=(SHOUT + BREAK_OUT).encode() + b"\n",
    )
    node_drain(node=world.nodes["silent"], actor=world.users["operator"], reason=SHOUT)
    world.names["zebra-name"] = world.names["running"] = world.names["loud-0"]
    offers_keep(world)
    return world
