"""Whatever a job tells of itself, within what a node passes on, no page and no answer fails for it: its tenant's or others'."""

import json

import pytest
from django.db import transaction

from portal.nodes.serializers import LONGEST_S, MOST_SAMPLES, SMALL
from portal.planning.estimation.records import records_apply
from portal.work.jobs.models import Allocation, Job
from tests.portal.access.routes import path_of
from tests.portal.access.rows import PAGES, REST
from tests.portal.access.world import CASTS

pytestmark = [pytest.mark.django_db, pytest.mark.slow]

LEAST = 1e-300


def record(**more):
    """A record of a training's iterations as a node sends it."""
    plain = {"iterations": 1, "samples": 1.0, "seconds": 1.0, "done": 1.0, "total": None, "saved": None}
    return plain | {"batch": 1, "world": 1, "parameters": None, "rows": []} | more


ABSURD = {
    "next to nothing": record(samples=LEAST, seconds=LONGEST_S, done=1.0, total=MOST_SAMPLES, saved=LEAST),
    "nothing of much": record(samples=0.0, seconds=0.0, done=0.0, total=MOST_SAMPLES, saved=MOST_SAMPLES, iterations=0),
    "everything": record(
        samples=MOST_SAMPLES, seconds=LEAST, done=MOST_SAMPLES, total=LEAST, saved=0.0, iterations=SMALL
    ),
    "much unsaved": record(samples=LEAST, seconds=LONGEST_S, done=MOST_SAMPLES, total=MOST_SAMPLES, saved=0.0),
}


def tell(turn):
    """Each running part tells one of them, the next with the next turn; twice, so that there is something to compare."""
    parts = Allocation.objects.filter(released_at=None).select_related("attempt", "node").order_by("pk")
    kinds = [*ABSURD.values()]
    for number, part in enumerate(parts):
        sent = {"attempt": part.attempt.key, "epoch": part.attempt.epoch, "rank": part.rank, "dropped": 0}
        told = [kinds[(number + turn) % len(kinds)]]
        for offset in (0, 100):
            sent |= {"offset": offset, "next_offset": offset + 100, "records": told}
            assert [each["code"] for each in records_apply(node=part.node, parts=[sent])] == [None]
    return len(parts)


def no_constant(name):
    raise ValueError(name)


def test_no_page_and_no_answer_fails_for_what_jobs_tell(world, offers_known):
    told = 0
    Job.objects.exclude(started_at=None).update(age_s=8e19)  # as it was kept before it had a bound
    while told < len(ABSURD):
        with transaction.atomic():
            told += tell(told)
            look(world)
            transaction.set_rollback(True)


def look(world):
    """Ask for every page and every answer, as the jobs' owner and as an operator."""
    for row in (row for row in [*PAGES, *REST] if row.method == "GET"):
        for cast in ("owner", "operator"):
            answer = world.ask(cast, row.door, "GET", path_of(row, world.names))
            assert answer.status_code == row.expected[CASTS.index(cast)], (row.route, cast)
            if not answer.streaming and answer.headers.get("Content-Type", "").startswith("application/json"):
                json.loads(answer.content, parse_constant=no_constant)
