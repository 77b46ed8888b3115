"""POST /jobs/plan: what a submission would answer and a planning decide, and nothing changes."""

import pytest
from django.core.cache import cache

from portal.foundation.api.throttles import PlanThrottle
from portal.planning.rounds.planning.run import planning_run
from tests.portal.foundation.api.conftest import WATCHED

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def fresh_counts():
    cache.clear()


def ask(caller, **fields):
    return caller("POST", "/jobs/plan", {"command": "true", **fields})


def rows():
    return [list(model.objects.order_by("pk").values()) for model in WATCHED]


def test_it_says_where_and_how_large(world):
    before = rows()
    answer = ask(world.owner, gpus=[1, 2], category="cv")
    assert answer.status_code == 200, answer.content
    told = answer.json()
    assert told["placeable"] is True
    assert told["reason"] is None
    assert sum(part["gpus"] for part in told["placement"]) in {1, 2}
    assert told["placement"][0]["node"] in told["sentence"]
    assert (told["cores"], told["ahead"]) == (3, None)
    assert told["start"]["latest_at"] == told["at"]
    assert rows() == before


def test_it_says_why_not_and_who_stands_ahead(world):
    while True:
        world.owner.submit(gpus=4, cores_per_gpu=1)
        if not planning_run().placed:
            break
    before = rows()
    assert ask(world.teammate, gpus=4).json()["ahead"] == 1
    told = ask(world.outsider, gpus=4, model="seen-before").json()
    assert told["placeable"] is False
    assert told["placement"] is None
    assert told["reason"] in {"not-enough-idle-gpus", "outside-window", "gpus-scattered"}
    assert told["ahead"] in {0, 1}, "by its tenant's share, or behind the one that waits"
    assert told["at"] < told["start"]["earliest_at"] <= told["start"]["median_at"]
    assert "vision" not in str(told)
    assert rows() == before


@pytest.mark.parametrize(
    "wrong",
    [
        {"gpus": "many"},
        {"colour": "red"},
        {"gpus": 4096},
        {"gpu_types": ["H900"]},
        {"tenant": "nowhere"},
        {"priority": 50},
        {"depends_on": [987654]},
        {"webhook": "http://127.0.0.1/"},
    ],
)
def test_its_errors_are_those_of_a_submission(world, wrong):
    submitted = world.owner("POST", "/jobs", {"command": "true", **wrong})
    planned = ask(world.owner, **wrong)
    assert submitted.status_code >= 400
    assert (planned.status_code, planned.json()) == (submitted.status_code, submitted.json())


def test_quotas_count_as_in_a_submission(world):
    tenant = next(iter(world.tenants.values()))
    tenant.gpu_quota = 2
    tenant.save()
    planned = ask(world.owner, gpus=3)
    assert (planned.status_code, planned.json()["error"]["code"]) == (409, "quota_exceeded")


def test_a_user_has_so_many_a_minute(world, monkeypatch):
    monkeypatch.setattr(PlanThrottle, "rate", "2/min")
    statuses = [ask(world.owner, gpus=1).status_code for _ in range(3)]
    assert statuses == [200, 200, 429]
    refused = ask(world.owner, gpus=1)
    assert refused.json()["error"]["code"] == "too_many_requests"
    assert int(refused.headers["Retry-After"]) > 0
    assert ask(world.outsider, gpus=1).status_code == 200


def test_it_needs_the_scope_of_a_submission(world):
    assert ask(world.caller("lena", scopes=["jobs:read"]), gpus=1).status_code == 403
