"""Another policy is asked what the acting one was: on the very same input, beside it, and without a trace in the plan."""

import numpy as np

from scheduler.model import PairSeen
from scheduler.planning.shadowing import compared
from tests.scheduler.builders import make_plan
from tests.scheduler.planning.test_sharing import GIB, holder, host, running_part, shared, small

USE = {"memory_mib": list(np.linspace(0, GIB, 16)), "gpu": [0.25] * 16, "pcie_mb_s": list(np.linspace(0, 1, 16))}
THERE = "tenant:1:there"
OWN = "tenant:1:own"


def planned(jobs, gpus, **more):
    """A plan beside those on the GPUs, and what the shadow says of it; None without a shadow."""
    live = [running_part(each, 1, gpu.index) for gpu in gpus for each in gpu.holders]
    made = make_plan([host(1, *gpus)], jobs, running=live, **more)
    return made, made.sharing and compared(made.sharing.asked, made.sharing)


def test_the_shadow_refuses_what_the_acting_policy_admits_and_nothing_changes():
    """Two that rise together: res-ag is blind to it, cbp is not."""
    jobs, gpus = [small(1, model_label="own")], [shared(0, holder(9, signature=THERE))]
    uses = {THERE: USE, OWN: USE}
    made, found = planned(jobs, gpus, uses=uses, sharing_shadow="cbp")
    alone, nothing = planned(jobs, gpus, uses=uses)
    assert nothing is None
    assert made.placements == alone.placements
    assert "shadow" not in made.as_json()
    (row,) = found["rows"]
    assert (found["acting"], found["shadow"], found["totals"]["agreed"]) == ("res-ag", "cbp", 0)
    assert (row["acting"]["rule"], row["acting"]["beside"]) == ("fits", [[9, THERE]])
    assert row["shadow"] == {"admits": False, "closed": {"correlated": 1}}
    assert found["totals"]["use"]["acting"] == {"gpus": 1, "taken": 1, "jobs": 2, "use": 50.0, "alone": 25.0}
    assert found["totals"]["use"]["shadow"]["use"] == 25.0


def test_it_is_asked_before_the_acting_policy_took_anything():
    """One place on the GPU: the shadow would give it to the same job, and finds it still there."""
    made, found = planned([small(1, compute=600), small(2, compute=600)], [shared(0)], sharing_shadow="cbp")
    assert [(row["acting"]["admits"], row["shadow"]["admits"]) for row in found["rows"]] == [
        (True, True),
        (False, False),
    ]
    assert found["totals"]["agreed"] == 2
    assert made.sharing.asked.ledger is not None


def test_what_an_admission_would_cost_follows_from_the_measured_pairs():
    gpus = [shared(0, holder(9, signature=THERE))]
    pairs = {(THERE, OWN, "a100"): PairSeen(1.18, 50)}
    _, found = planned([small(1, model_label="own")], gpus, pairs=pairs, sharing_shadow="cbp-pp")
    assert found["rows"][0]["acting"]["slowdown"] == 1.18
    _, unmeasured = planned([small(1, model_label="own")], gpus, sharing_shadow="cbp-pp")
    assert unmeasured["rows"][0]["acting"]["slowdown"] is None


def test_of_a_long_queue_the_rest_is_counted(monkeypatch):
    monkeypatch.setattr("scheduler.planning.shadowing.MOST_JOBS", 3)
    _, found = planned([small(n) for n in range(1, 8)], [shared(0)], sharing_shadow="cbp")
    assert (len(found["rows"]), found["totals"]["left_out"]) == (3, 4)
