"""A job's detail in a planning (algorithms.md section 7): share, window, candidates, chosen, best rejected, binding."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.estimator.estimator import estimator_for
from scheduler.explaining.detail import CANDIDATES_SHOWN, NODES_NAMED, Details
from scheduler.model import Promise, Ranked, Reason, Running, Share, Tenant
from scheduler.model.speeds import Knowledge
from scheduler.placement.configurations import generate
from scheduler.placement.ledger import Ledger
from scheduler.placement.outcome import DraftPlan, Outcome
from tests.scheduler.builders import decisions_of, job, make_plan, node, running
from tests.scheduler.planning.test_plan import clusters, queues

BERTH = {"policy": "berth", "arrays": "off"}
CANDIDATE_KEYS = {
    "gpu_type",
    "gpus",
    "cores",
    "memory_mib",
    "spread",
    "nodes",
    "throughput",
    "source",
    "gain",
    "factor",
    "value",
}


def detail(made, number):
    found = decisions_of(made)[number].detail
    assert json.loads(json.dumps(found)) == found
    return found


def test_no_detail_for_a_job_that_is_not_in_the_queue():
    made = make_plan([node(1)], [job(1, 1, eligible=False, ineligible_reason=Reason.HELD), job(2, 2, 1)])
    assert (detail(made, 1), detail(made, 2)) == ({}, {})


def test_the_chosen_and_the_best_rejected_candidate_with_what_bound_it():
    """Job 1 would be worth most on 4 GPUs, but job 2 needs 2 of them."""
    made = make_plan([node(1, 4)], [job(1, 2, 4, wait_s=60), job(2, 2, wait_s=600)])
    found = detail(made, 1)
    assert found["chosen"]["nodes"] == {"n1": {"gpus": 2, "cores": 2, "memory_mib": 0}}
    assert found["chosen"]["gpus"] == 2
    rejected = found["best_rejected"]
    assert (rejected["gpus"], rejected["nodes"], rejected["ways"]) == (4, ["n1"], 1)
    assert rejected["binding"] == {"resource": "gpus", "node": "n1", "needed": 4, "available": 2}
    assert rejected["value"] == pytest.approx(0.1 * 2**0.9)
    assert set(rejected) == CANDIDATE_KEYS | {"ways", "binding"}
    assert found["weight"] == pytest.approx(0.1)
    assert [each["gpus"] for each in found["candidates"]] == [4, 2]
    assert (found["classes"], found["formulation"]) == (2, "located")
    assert set(found["chosen"]) == CANDIDATE_KEYS | {"larger"}


def test_a_smaller_size_is_rejected_for_its_value():
    found = detail(make_plan([node(1, 4)], [job(1, 2, 4)]), 1)
    binding = found["best_rejected"]["binding"]
    assert (found["chosen"]["gpus"], found["best_rejected"]["gpus"], binding["resource"]) == (4, 2, "value")
    assert binding["needed"] == found["chosen"]["value"] > binding["available"] == found["best_rejected"]["value"]


def one_binding(nodes, jobs, number=2, **more):
    return detail(make_plan(nodes, jobs, **more), number)["best_rejected"]["binding"]


FULL = node(9, 8, idle=0)  # widens the window


def test_cores_bind():
    jobs = [job(1, 2, wait_s=900, cores=4), job(2, 2, wait_s=9, cores=1)]
    binding = one_binding([node(1, 4, cores=9), FULL], jobs)
    assert binding == {"resource": "cores", "node": "n1", "needed": 2, "available": 1}


def test_memory_binds():
    jobs = [job(1, 2, wait_s=900, memory_mib=700), job(2, 2, wait_s=9, memory_mib=400)]
    binding = one_binding([node(1, 4, memory_mib=1000), FULL], jobs)
    assert binding == {"resource": "memory_mib", "node": "n1", "needed": 400, "available": 300}


def test_a_quota_binds():
    nodes, tenants = [node(1, 8), FULL], [Tenant(1, gpu_quota=5)]
    binding = one_binding(nodes, [job(1, 3, wait_s=900), job(2, 1, 4, wait_s=9)], tenants=tenants)
    assert binding == {"resource": "gpu_quota", "node": None, "needed": 4, "available": 2}


def test_trust_binds():
    nodes = [node(1, 4, single_account=True, trusts_tenants=False), FULL]
    binding = one_binding(nodes, [job(1, 2, wait_s=900), job(2, 2, tenant=2, wait_s=9)])
    assert binding == {"resource": "trust", "node": "n1", "needed": 1, "available": 0}


def test_a_node_kept_for_another_job_binds():
    nodes = [node(1, 4, idle=2), node(2, 4, idle=0), node(3, 1, gpu_type="t4"), node(4, 8, gpu_type="t4", idle=0)]
    live = [Running(91, 2, running(0, 2, 1, 2).pieces, 0.0, (1,), expected_end_s=1_000_300.0)]
    jobs = [job(1, 4, wait_s=5000, age_s=1000, gpu_types=frozenset({"a100"})), job(2, 2, wait_s=5, age_s=900)]
    made = make_plan(nodes, jobs, running=live, **BERTH)
    assert decisions_of(made)[2].reason is Reason.RESERVED
    assert decisions_of(made)[2].figures["keepers"][0]["until_s"] == 1_000_300.0
    rejected = detail(made, 2)["best_rejected"]
    assert (rejected["nodes"], rejected["binding"]["resource"]) == (["n1"], "kept")


def test_a_candidate_that_would_fit_after_all_was_left_by_the_search():
    ledger = Ledger([node(1, 4)], (), ())
    (found,) = generate(job(1, 2), ledger, estimator_for(Knowledge(), {}, ledger.nodes))
    outcome = Outcome(DraftPlan(candidates={1: (found,)}))
    details = Details(ledger, ledger, outcome, [Ranked(job(1, 2), 1, 1.0, 1.0, 60.0, "")], None)
    assert details(1)["best_rejected"]["binding"]["resource"] == "solver"


def test_alike_candidates_are_one_class_and_the_answer_is_bounded():
    nodes = [node(number, 8, cores=40) for number in range(1, 13)]
    found = detail(make_plan(nodes, [job(1, 1, 2, 3, 4, 5, 6, 7, 8, cores=5)]), 1)
    assert len(found["candidates"]) == CANDIDATES_SHOWN < found["classes"]
    assert all(len(each["nodes"]) <= NODES_NAMED for each in found["candidates"])
    assert max(each["ways"] for each in found["candidates"]) == 12
    values = [each["value"] for each in found["candidates"]]
    assert values == sorted(values, reverse=True)
    assert len(json.dumps(found)) < 4000


def test_the_share_when_picked_front_backfill_and_the_boundary():
    """Section 4: tenant 1 holds 4 of 8 GPUs, so tenant 2's job goes first; 4 idle GPUs end the front."""
    nodes = [node(1, 4, idle=0), node(2, 4)]
    jobs = [job(1, 2, wait_s=900), job(2, 2, tenant=2, wait_s=5), job(3, 2, tenant=2, wait_s=4), job(4, 2, wait_s=3)]
    jobs.append(job(5, 2, wait_s=2))
    made = make_plan(nodes, jobs, running=[running(9, 1, 1, gpus=4)], **BERTH)
    shares = {number: detail(made, number)["share"] for number in (1, 2, 3, 4, 5)}
    assert shares == {1: 0.5, 2: 0.0, 3: 0.25, 4: 0.75, 5: 1.0}
    windows = {number: detail(made, number)["window"] for number in (1, 2, 3, 4, 5)}
    assert {n: (w["turn"], w["side"]) for n, w in windows.items()} == {
        1: (3, "backfill"),
        2: (1, "front"),
        3: (2, "front"),
        4: (4, "backfill"),
        5: (None, "outside"),
    }
    assert windows[5] == {
        "side": "outside",
        "turn": None,
        "jobs": 4,
        "front_jobs": 2,
        "asked_gpus": 8,
        "capacity_gpus": 8,
        "idle_gpus": 4,
        "last_rank": 4,
    }
    assert {detail(made, n)["array"] for n in windows} == {"gpu-small"}


def test_arrays_and_the_factor_on_what_is_borrowed():
    nodes = [node(1, 4, idle=2), node(2, 4)]  # node 1 is gpu-large's
    made = make_plan(nodes, [job(1, 2), job(2, 4, movable=True, gpu_types=frozenset()), job(3)], policy="berth")
    assert [detail(made, n)["array"] for n in (1, 2, 3)] == ["gpu-small", "gpu-large", "cpu"]
    assert detail(made, 2)["candidates"][0]["factor"] == 0.95
    assert detail(made, 1)["chosen"]["factor"] == 1.0
    assert detail(made, 3)["share"] == 0.0
    assert detail(made, 3)["weight"] is None


def test_hops_has_a_window_but_neither_arrays_nor_shares_and_fifo_those_it_looked_at():
    nodes, jobs = [node(1, 2)], [job(1, 2), job(2, 1)]
    found = detail(make_plan(nodes, jobs), 2)
    assert (found["array"], found["share"], found["window"]["last_rank"]) == (None, None, 1)
    assert found["candidates"] == []
    strict = detail(make_plan(nodes, [*jobs, job(3, 1), job(4)], policy="fifo"), 3)["window"]
    assert (strict["side"], strict["jobs"], strict["last_rank"]) == ("outside", 2, 2)
    assert detail(make_plan(nodes, [job(4)]), 4)["window"] == {"side": "front", "turn": None}


def by_class(jobs, **more):
    """Twenty nodes: the aggregated formulation."""
    nodes = [node(number, 4, cores=12, idle=4 if number < 9 else 0) for number in range(1, 21)]
    return make_plan(nodes, jobs, **more)


def test_classes_of_the_aggregated_formulation_are_named_with_their_nodes():
    """As "8 nodes of type a100: 4 GPUs, 12 cores"."""
    jobs = [job(number, 4, cores=3, wait_s=900) for number in range(1, 9)] + [job(20, 2, 4, cores=3, wait_s=1)]
    made = by_class(jobs)
    found = detail(made, 20)
    assert found["formulation"] == "aggregated"
    best = found["best_rejected"]
    assert (best["gpu_type"], best["gpus"], best["cores"], best["ways"]) == ("a100", 4, 12, 8)
    assert best["nodes"] == ["n1", "n2", "n3", "n4"]
    assert best["binding"] == {"resource": "gpus", "node": "n1", "needed": 4, "available": 0}
    assert detail(made, 1)["chosen"]["value"] == pytest.approx(detail(made, 1)["candidates"][0]["value"])
    assert detail(made, 1)["best_rejected"] is None


def test_the_best_fitting_node_is_the_one_that_comes_nearest():
    jobs = [job(number, 3, cores=3, wait_s=900) for number in range(1, 9)] + [job(20, 2, 4, cores=3, wait_s=1)]
    made = by_class(jobs)
    best = detail(made, 20)["best_rejected"]
    assert (best["binding"]["resource"], best["binding"]["needed"], best["binding"]["available"]) == ("gpus", 4, 1)
    reason = decisions_of(made)[20].figures  # the reason's figures speak of the same candidate
    assert (reason["best_rejected"]["value"], reason["binding"]) == (best["value"], best["binding"])
    assert (reason["candidates"], reason["best_rejected"]["nodes"]["n1"]["gpus"]) == (2, 4)


def test_classes_of_arrays_name_the_nodes_of_their_pool_alone():
    """Section 4 by class: the small job may borrow the idle nodes of gpu-large, at 0.95 of the value."""
    nodes = [node(number, 4, cores=12, idle=4 if number in (1, 2, 20) else 0) for number in range(1, 21)]
    found = detail(make_plan(nodes, [job(1, 2, cores=3)], policy="berth"), 1)
    assert found["formulation"] == "aggregated"
    by_factor = {each["factor"]: (each["ways"], each["nodes"]) for each in found["candidates"] if each["cores"] == 6}
    assert by_factor == {1.0: (1, ["n20"]), 0.95: (2, ["n1", "n2"])}
    assert list(found["chosen"]["nodes"]) == ["n20"]


def test_what_is_kept_for_a_promise_binds():
    promise = Promise((Share(1, 4, 4, 0),), 1_000_000.0, "call-back")
    live = [Running(90, 2, running(0, 2, 1, 2, 2).pieces, 0.0, (2,), movable=True, stopping=True)]
    nodes = [node(1, 4, idle=2, idle_cores=30), node(2, 4, idle=0)]
    made = make_plan(nodes, [job(1, 4, promise=promise), job(2, 1, tenant=3, movable=True)], running=live, **BERTH)
    assert decisions_of(made)[2].reason is Reason.RESERVED
    rejected = detail(made, 2)["best_rejected"]
    assert (rejected["nodes"], rejected["binding"]["resource"]) == (["n1"], "kept")


def test_a_spread_class_is_bound_by_the_pieces_left_in_all():
    jobs = [job(number, 4, cores=3, wait_s=900) for number in range(1, 8)] + [job(20, 6, cores=2, wait_s=1)]
    best = detail(by_class(jobs), 20)["best_rejected"]
    assert (best["spread"], best["nodes"], best["ways"]) == (True, [], None)
    assert best["binding"] == {"resource": "gpus", "node": None, "needed": 6, "available": 4}


def test_nothing_of_other_tenants_stands_in_a_detail():
    jobs = [job(4711, 4, tenant=815, wait_s=900), job(2, 4, wait_s=9)]
    text = json.dumps(detail(make_plan([node(1, 4), FULL], jobs, **BERTH), 2))
    assert "4711" not in text
    assert "815" not in text


@settings(max_examples=8, deadline=None)
@given(clusters(), queues(), st.sampled_from(["hops", "berth"]))
def test_a_binding_resource_is_short_on_its_node_after_the_plan(nodes, jobs, policy):
    """Counted anew from the placements: idle before, less what was placed there, but for the job's own."""
    made = make_plan(nodes, jobs, policy=policy, gpu_speeds={"a": 2.0, "b": 1.0})
    for decision in made.decisions:
        rejected = (decision.detail or {}).get("best_rejected")
        if rejected is None or rejected["binding"]["node"] is None or rejected["binding"]["resource"] == "trust":
            continue
        binding = rejected["binding"]
        host = next(each for each in nodes if each.name == binding["node"])
        taken = [piece for p in made.placements if p.job != decision.job for piece in p.pieces if piece.node == host.id]
        left = {
            "gpus": len(host.idle_gpus) - sum(len(piece.gpus) for piece in taken),
            "cores": len(host.idle_cores) - sum(len(piece.cores) for piece in taken),
            "memory_mib": host.idle_memory_mib - sum(piece.memory_mib for piece in taken),
        }[binding["resource"]]
        limited = policy == "berth" and binding["resource"] == "cores"  # reserved ones alone may be fewer
        assert binding["available"] == left or (limited and binding["available"] < left)
        assert binding["needed"] > binding["available"]
