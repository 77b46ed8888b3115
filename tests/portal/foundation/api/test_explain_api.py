"""GET /jobs/{number}/explain: the whole answer of section 7, and nothing of other tenants."""

from datetime import timedelta

import pytest
from django.core.cache import cache
from django.utils import timezone

from portal.planning.rounds.planning.run import planning_run
from portal.planning.rounds.services import settings_update
from portal.work.jobs.models import Job

pytestmark = pytest.mark.django_db


@pytest.fixture
def told(world):
    """A job of 4 that lost to a foreign one of 4 on the last free node."""
    cache.clear()
    settings_update(actor=None, policy="berth", arrays="off")
    world.outsider.submit(gpus=4, name="foreign-name", cores_per_gpu=1)
    planning_run()
    for caller in (world.outsider, world.owner):
        caller.submit(gpus=4, name="foreign-name" if caller is world.outsider else "own", cores_per_gpu=1)
        caller.submit(gpus=4, name="foreign-name" if caller is world.outsider else "own", cores_per_gpu=1)
    planning_run()
    return world


def test_it_holds_every_figure_of_section_7(told):
    jobs = told.owner.get("/jobs", ordering="id").json()["results"]
    waiting = next(job for job in jobs if job["state"] == "PENDING")
    answer = told.owner.get(f"/jobs/{waiting['number']}/explain", what_if="true").json()
    assert answer["wait_s"] >= 0
    assert answer["age_s"] > 0
    assert answer["latency_ratio"] >= 0
    assert answer["rank"] >= 1
    assert (answer["queue"], answer["place"], answer["ahead"]) == ("gpu", answer["ahead"] + 1, answer["place"] - 1)
    assert 1 <= answer["place"] <= answer["queue_length"]
    assert answer["sentence"].startswith("It would have fitted, but the room went to ")
    assert (answer["array"], answer["side"]) == ("gpu-small", "outside")
    assert (answer["window"]["capacity"], answer["window"]["counted"]) == (8, 8)
    assert answer["tenant_share"]["capacity"] == 8
    assert answer["what_would_start"]
    assert {"starts", "held", "median_error_s", "by_horizon"} == set(answer["past_predictions"])
    assert answer["predicted_start"] is None
    placed = next(job for job in jobs if job["state"] == "STARTING")
    chosen = told.owner.get(f"/jobs/{placed['number']}/explain").json()
    assert chosen["chosen"]["gpus"] == 4
    assert chosen["candidates"][0]["value"] > 0
    assert chosen["what_would_start"] is None
    for text in (str(answer), str(chosen)):
        assert "foreign-name" not in text
        assert "speech-lab" not in text


def test_what_if_must_be_a_flag(told):
    number = told.owner.get("/jobs").json()["results"][0]["number"]
    answer = told.owner.get(f"/jobs/{number}/explain", what_if="perhaps")
    assert (answer.status_code, answer.json()["error"]["field"]) == (400, "what_if")


def test_a_job_kept_smaller_says_what_the_larger_size_would_add_and_who_waits(world):
    """Two nodes of 4: an elastic job of 2 or 4 has 2, three rigid ones of 2 the others, and an array's tasks of 2 wait."""
    settings_update(actor=None, policy="berth", arrays="off")
    first = world.owner.submit(gpus=[2, 4], checkpointable=True, cores_per_gpu=1)
    for _ in range(3):
        world.owner.submit(gpus=2, cores_per_gpu=1)
    tasks = world.owner.submit(gpus=2, cores_per_gpu=1, array={"size": 2})
    Job.objects.update(waiting_since=timezone.now() - timedelta(minutes=10))  # all equal, to a thousandth
    planning_run()
    answer = world.owner.get(f"/jobs/{first['number']}/explain").json()
    waits = f"{tasks['number']}_0"
    assert answer["chosen"]["larger"] == {
        "gpus": 4,
        "adds": pytest.approx(2**0.9 - 1),
        "job": Job.objects.get(array_id=tasks["id"], array_index=0).pk,
    }
    assert (
        answer["larger_sentence"] == f"2 GPUs rather than 4: the other 2 would add 87 % speed while job {waits} waits."
    )
