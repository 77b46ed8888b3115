"""MIG instances (algorithms.md section 5): sizes above 1 never lie on them, a whole GPU is preferred, a slice is that slice."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.estimator.estimator import estimator_for
from scheduler.explaining.sentences import sentence
from scheduler.fairness.arrays import gpu_units
from scheduler.model import ClusterState, LinkWish, Promise, Share, Tenant
from scheduler.model.placements import is_instance, serves, share_of_gpu
from scheduler.model.speeds import Cell, CellKey, Knowledge
from scheduler.parameters import Parameters
from scheduler.planning import leftovers
from scheduler.planning.plan import plan
from scheduler.policies.registry import POLICIES as OURS
from scheduler.simulator.rivals import RIVALS
from tests.scheduler.builders import NOW_S, check_invariants, job, make_plan, node, ticking, where, why
from tests.scheduler.replan.test_replans import beside, elastic

WHOLE, OTHER = "NVIDIA A100-SXM4-80GB", "NVIDIA T4"
SMALL, LARGE = f"{WHOLE} MIG 1g.10gb", f"{WHOLE} MIG 3g.40gb"
EVERY = (WHOLE, OTHER, SMALL, LARGE)
POLICIES = {**OURS, **RIVALS}


def test_an_instance_is_told_by_the_profile_at_the_end_of_its_name(subtests):
    for name, share in [
        ("NVIDIA A100-SXM4-40GB MIG 1g.5gb", 1 / 7),
        ("NVIDIA H100 80GB HBM3 MIG 1g.10gb+me", 1 / 7),
        ("NVIDIA H200 MIG 7g.141gb", 1.0),
        ("NVIDIA A100-SXM4-40GB MIG 1c.3g.20gb", 1 / 7),
        ("NVIDIA A30 MIG 2g.12gb", 2 / 4),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition MIG 1g.24gb+me.all", 1 / 4),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition MIG 1g.24gb-me", 1 / 4),
        ("a100_3g.20gb", 3 / 7),
        ("mig-2g.10gb", 2 / 7),
        ("1G.5GB", 1 / 7),
    ]:
        with subtests.test(name=name, share=share):
            assert is_instance(name)
            assert share_of_gpu(name) == pytest.approx(share)


def test_other_names_are_whole_gpus(subtests):
    for name in [WHOLE, OTHER, "", None, "A100 80 GB", "a100_80gb", "NVIDIA MIG", "5g", "RTX 30g"]:
        with subtests.test(name=name):
            assert not is_instance(name)
            assert share_of_gpu(name) == 1.0


@pytest.mark.parametrize("policy", sorted(OURS))
class TestWhereJobsGo:
    def test_two_gpus_are_never_two_instances(self, policy):
        made = make_plan([node(1, 7, gpu_type=SMALL)], [job(1, 2), job(2, 2, 4)], policy=policy)
        assert where(made) == {}
        assert set(why(made).values()) == {"no-node-with-type"}

    def test_nor_one_of_each_of_two_nodes(self, policy):
        nodes = [node(1, 1, gpu_type=SMALL), node(2, 1, gpu_type=SMALL), node(3, 1)]
        assert where(make_plan(nodes, [job(1, 2, gpu_types=frozenset())], policy=policy)) == {}

    def test_an_elastic_job_has_one_gpu_of_an_instance(self, policy):
        nodes = [node(1, 7, gpu_type=SMALL)]
        assert where(make_plan(nodes, [job(1, 1, 2, 4)], policy=policy)) == {1: {1: 1}}
        asking = job(1, 1, 2, 4, gpu_types=frozenset({SMALL}))
        assert where(make_plan(nodes, [asking], policy=policy)) == {1: {1: 1}}

    def test_a_whole_gpu_is_preferred(self, policy):
        nodes = [node(1, 7, gpu_type=SMALL), node(2, 2, gpu_type=WHOLE)]
        made = where(make_plan(nodes, [job(1, 1), job(2, 1), job(3, 1)], policy=policy))
        assert made == {1: {2: 1}, 2: {2: 1}, 3: {1: 1}}, "the third takes what is left"

    def test_a_slice_is_that_slice(self, policy):
        nodes = [node(1, 8, gpu_type=WHOLE), node(2, 3, gpu_type=LARGE), node(3, 1, gpu_type=SMALL)]
        jobs = [job(1, 1, gpu_types=frozenset({SMALL})), job(2, 1, gpu_types=frozenset({SMALL}))]
        made = make_plan(nodes, jobs, policy=policy)
        assert where(made) == {1: {3: 1}}
        assert set(why(made)) == {2}

    def test_a_model_is_not_its_slice(self, policy):
        nodes = [node(1, 7, gpu_type=SMALL), node(2, 1, gpu_type=WHOLE, idle=0)]
        made = make_plan(nodes, [job(1, 1, gpu_types=frozenset({WHOLE}))], policy=policy)
        assert where(made) == {}

    def test_who_accepts_both_gets_the_whole_one_and_only_there_more_than_one(self, policy):
        both = frozenset({WHOLE, SMALL})
        nodes = [node(1, 7, gpu_type=SMALL), node(2, 2, gpu_type=WHOLE)]
        assert where(make_plan(nodes, [job(1, 2, gpu_types=both)], policy=policy)) == {1: {2: 2}}
        full = [nodes[0], replace(nodes[1], idle_gpus=())]
        assert where(make_plan(full, [job(1, 1, 2, gpu_types=both)], policy=policy)) == {1: {1: 1}}
        other = [node(1, 7, gpu_type=LARGE), full[1]]
        assert where(make_plan(other, [job(1, 1, gpu_types=both), job(2, 1, gpu_types=frozenset({LARGE}))])) == {
            2: {1: 1}
        }


def test_quotas_hold_on_instances():
    made = make_plan([node(1, 7, gpu_type=SMALL)], [job(1, 1), job(2, 1)], tenants=[Tenant(1, gpu_quota=1)])
    assert where(made) == {1: {1: 1}}


def test_a_slice_for_several_gpus_is_refused_with_words():
    made = make_plan([node(1, 7, gpu_type=SMALL)], [job(1, 2, 4, gpu_types=frozenset({SMALL}))])
    (decision,) = made.decisions
    assert str(decision.reason) == "invalid"
    assert "each takes jobs of one GPU" in sentence(decision.reason, decision.figures)


def test_who_fits_no_instance_of_a_cluster_of_instances_is_told_why():
    made = make_plan([node(1, 7, gpu_type=SMALL)], [job(1, 4)])
    (decision,) = made.decisions
    assert "each takes jobs of one GPU" in sentence(decision.reason, decision.figures)


def test_an_instance_is_kept_for_who_waits_for_it():
    """What is reserved for a job that asked for the slice goes to nobody who would take any GPU."""
    waiting = job(1, 1, gpu_types=frozenset({SMALL}), promise=Promise((Share(1, 1, 1, 0),), NOW_S, "growth"))
    made = make_plan([node(1, 1, gpu_type=SMALL)], [waiting, job(2, 1)])
    assert where(made) == {1: {1: 1}}


@pytest.mark.parametrize("policy", ["hops", "berth"])
def test_a_running_job_does_not_grow_on_instances(policy):
    live = [elastic(9, 1, 2, 4, gpus=1)]
    made = make_plan([beside(1, live, gpus=7, gpu_type=SMALL)], [], running=live, replan=True, policy=policy)
    assert made.stops == ()


@pytest.mark.parametrize("policy", ["hops", "berth"])
def test_a_running_job_leaves_its_instance_where_whole_gpus_pay(policy):
    live = [elastic(9, 1, 2, 4, gpus=1)]
    nodes = [beside(1, live, gpus=7, gpu_type=SMALL), node(2, 4, gpu_type=WHOLE)]
    made = make_plan(nodes, [], running=live, replan=True, policy=policy)
    assert [(each.job, {share.node: share.gpus for share in each.shares}) for each in made.promises] == [(9, {2: 4})]


def test_links_between_instances_are_not_measured():
    wish = [LinkWish(SMALL, between, 1) for between in (True, False)]
    nodes = [node(k, 7, gpu_type=SMALL) for k in (1, 2)]
    state = ClusterState(nodes, [job(1, 8)], tenants=[Tenant(1)], links_wanted=wish)
    made = plan(state, NOW_S, Parameters(), np.random.default_rng(1), ticking())
    assert made.probes == ()


def test_a_whole_gpus_speed_is_not_taken_for_an_instances():
    small, whole = node(1, 7, gpu_type=SMALL), node(2, 8, gpu_type=WHOLE)
    measured = Knowledge({CellKey("tenant:1:m", WHOLE, gpus=1): Cell(9, 70.0, 0.1)}, {}, {})
    estimator = estimator_for(measured, {}, [small, whole])
    own = job(1, 1, model_label="m")
    assert estimator.per_gpu(own, whole, 1, 1).per_gpu == pytest.approx(70.0)
    told = estimator.per_gpu(own, small, 1, 1)
    assert told.per_gpu < 70.0 / 2
    assert str(told.source) != str(estimator.per_gpu(own, whole, 1, 1).source), "nobody measured it there"
    unmeasured = estimator_for(Knowledge(), {}, [small, whole])
    assert unmeasured.per_gpu(own, small, 1, 1).per_gpu == pytest.approx(
        unmeasured.per_gpu(own, whole, 1, 1).per_gpu / 7
    )
    by_operator = estimator_for(Knowledge(), {SMALL: 0.25, WHOLE: 1.0}, [small, whole])
    assert by_operator.per_gpu(own, small, 1, 1).per_gpu == pytest.approx(
        by_operator.per_gpu(own, whole, 1, 1).per_gpu / 4
    )


def test_an_instance_counts_in_shares_by_its_slices_unless_the_operator_says_otherwise():
    assert gpu_units(SMALL, 7, {}) == pytest.approx(1.0)
    assert gpu_units(LARGE, 1, {LARGE: 0.5}) == 0.5
    assert gpu_units(WHOLE, 7, {}) == 7


kinds = st.sampled_from(EVERY)
machines = st.lists(st.tuples(kinds, st.integers(1, 8), st.integers(0, 8), st.integers(1, 32)), min_size=1, max_size=6)
asked = st.tuples(
    st.sets(st.sampled_from([1, 2, 3, 4, 8]), min_size=1, max_size=3),
    st.sets(kinds, max_size=3),
    st.integers(1, 3),
    st.integers(0, 3600),
)


@settings(max_examples=150, deadline=None)
@given(machines, st.lists(asked, min_size=1, max_size=12), st.sampled_from(sorted(POLICIES)), st.booleans(), st.data())
def test_no_plan_puts_more_than_one_gpu_on_instances_nor_a_slice_elsewhere(given_nodes, queue, policy, replan, data):
    nodes = [
        node(number, gpus, gpu_type=name, idle=min(idle, gpus), cores=cores)
        for number, (name, gpus, idle, cores) in enumerate(given_nodes, start=1)
    ]
    known = frozenset(each.gpu_type for each in nodes)
    jobs = [
        job(k, *sorted(sizes), gpu_types=frozenset(types) & known, tenant=tenant, wait_s=float(wait_s))
        for k, (sizes, types, tenant, wait_s) in enumerate(queue, start=1)
    ]
    live = []
    for each in nodes:
        held = tuple(range(each.gpus_total - len(each.idle_gpus)))
        if held and len(each.idle_cores) > 1 and data.draw(st.booleans()):
            ran = elastic(1000 + each.id, 1, 2, 4, on=each.id, gpus=1)
            cores = each.idle_cores[:1]
            nodes[each.id - 1] = replace(each, idle_cores=each.idle_cores[1:])
            live.append(replace(ran, pieces=(replace(ran.pieces[0], gpus=held[:1], cores=cores),)))
    state = ClusterState(nodes, jobs, live, [Tenant(1), Tenant(2, gpu_quota=3), Tenant(3)], links_wanted=[])
    rng = np.random.default_rng(1)
    made = plan(state, NOW_S, Parameters(), rng, ticking(), replan=replan, policy=POLICIES[policy])
    check_invariants(made, state)
    types = {each.id: each.gpu_type for each in nodes}
    wanted = {each.id: each for each in jobs} | {each.job: each.description for each in live}
    got = [(each.job, [(piece.node, len(piece.gpus)) for piece in each.pieces]) for each in made.placements]
    got += [(each.job, [(share.node, share.gpus) for share in each.shares]) for each in made.promises]
    for number, pieces in got:
        on = {types[place] for place, _ in pieces}
        own = wanted[number].gpu_types
        if any(map(is_instance, on)):
            assert sum(gpus for _, gpus in pieces) == 1
        assert not own or on <= own, "neither a slice is another, nor a model its slice"


def test_which_gpus_are_looked_at_first(subtests):
    for asked, gpu_type, whether in [
        (frozenset(), WHOLE, True),
        (frozenset(), SMALL, False),
        (frozenset({SMALL}), SMALL, True),
        (frozenset({SMALL}), LARGE, False),
        (frozenset({SMALL}), WHOLE, False),
        (frozenset({SMALL, WHOLE}), WHOLE, True),
        (frozenset({SMALL, WHOLE}), SMALL, False),
        (frozenset({WHOLE}), OTHER, False),
    ]:
        with subtests.test(asked=asked, gpu_type=gpu_type):
            assert serves(asked, gpu_type) is whether


def test_what_is_kept_to_explain_a_job_on_an_instance_does_not_grow_with_the_cluster(monkeypatch):
    outcomes, real = [], leftovers.hand_out
    monkeypatch.setattr(leftovers, "hand_out", lambda *given: (real(*given), outcomes.append(given[2])))
    nodes = [node(number, 1, gpu_type=SMALL) for number in range(1, 201)]
    made = make_plan(nodes, [job(number, 1) for number in (1, 2)])
    assert where(made) == {1: {1: 1}, 2: {2: 1}}
    for number, kept in outcomes[0].draft.candidates.items():
        assert 2 < len(kept) < 100
        assert outcomes[0].draft.chosen[number].configuration in kept
