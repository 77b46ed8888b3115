"""A planning as a whole (algorithms.md sections 6 and 7): given(cluster, jobs) -> decisions."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.model import Ended, Reason, Result, Tenant
from tests.scheduler.builders import decisions_of, job, make_plan, node, past_of, running, ticking, where, why

HOPS_AND_FIFO = pytest.mark.parametrize("policy", ["fifo", "hops"])
JOINT_AND_GREEDY = pytest.mark.parametrize("placement", ["ilp", "greedy"])


@HOPS_AND_FIFO
def test_nothing_waits(policy):
    made = make_plan([node(1)], [], policy=policy)
    assert made.decisions == ()
    assert made.solver.incumbent == "none"


@HOPS_AND_FIFO
def test_nothing_to_run_on(policy):
    assert why(make_plan([], [job(1, 1)], policy=policy)) == {1: "no-node-with-type"}


@HOPS_AND_FIFO
def test_one_job_on_one_node(policy):
    made = make_plan([node(1, 4, idle=3)], [job(1, 2, cores=3, memory_mib=500)], policy=policy)
    (placement,) = made.placements
    (piece,) = placement.pieces
    assert (piece.node, piece.gpus, piece.cores, piece.memory_mib) == (1, (1, 2), (0, 1, 2, 3, 4, 5), 500)


@JOINT_AND_GREEDY
def test_an_elastic_job_takes_what_is_idle(placement):
    assert where(make_plan([node(1, 4)], [job(1, 1, 2, 4)], placement=placement)) == {1: {1: 4}}
    assert where(make_plan([node(1, 4, idle=3)], [job(1, 1, 2, 4)], placement=placement)) == {1: {1: 2}}


def test_jobs_are_placed_so_that_all_fit():
    """Greedily job 1 would leave 1 + 3 GPUs; the ILP sees that 3 fits one node and 2 + 2 the other."""
    nodes = [node(1, 4), node(2, 4, idle=3)]
    jobs = [job(1, 2, wait_s=90), job(2, 3, wait_s=80), job(3, 2, wait_s=70)]
    assert where(make_plan(nodes, jobs)) == {1: {1: 2}, 2: {2: 3}, 3: {1: 2}}


def test_a_faster_type_goes_to_the_job_that_waited_longer_for_its_length():
    nodes = [node(1, 1, gpu_type="slow"), node(2, 1, gpu_type="fast")]
    jobs = [job(1, 1, wait_s=60), job(2, 1, wait_s=600)]
    assert where(make_plan(nodes, jobs, gpu_speeds={"fast": 3.0})) == {1: {1: 1}, 2: {2: 1}}


def test_lambda_0_looks_at_throughput_alone_and_lambda_4_at_the_queue():
    """One job of weight 0.9 that gains nothing from size, and one of 1 with the whole node as its only size."""
    nodes = [node(1, 2), node(2, 2, idle=0)]
    jobs = [job(1, 2, wait_s=600), job(2, 1, wait_s=350), job(3, 1, wait_s=350)]
    assert where(make_plan(nodes, jobs, lambda_=0)) == {2: {1: 1}, 3: {1: 1}}
    assert where(make_plan(nodes, jobs, lambda_=1)) == {2: {1: 1}, 3: {1: 1}}
    assert where(make_plan(nodes, jobs, lambda_=4)) == {1: {1: 2}}


def test_greedy_placement_is_strict_queue_order_without_blocking():
    nodes = [node(1, 2), node(2, 2, idle=0)]
    jobs = [job(1, 2, wait_s=600), job(2, 1, wait_s=350), job(3, 1, wait_s=350)]
    made = make_plan(nodes, jobs, placement="greedy")
    assert where(made) == {1: {1: 2}}
    assert made.solver.incumbent == "greedy"
    assert where(make_plan([node(1, 1), node(2, 2, idle=0)], jobs, placement="greedy")) == {2: {1: 1}}


def test_the_window_keeps_the_tail_out_even_when_it_would_fit():
    made = make_plan([node(1, 4, idle=1)], [job(1, 4), job(2, 1)])
    assert why(made) == {1: "not-enough-idle-gpus", 2: "outside-window"}
    assert [decision.inside_window for decision in made.decisions] == [True, False]
    assert (made.window_jobs, made.window_gpus) == (1, 4)
    assert where(make_plan([node(1, 4, idle=1)], [job(1, 4), job(2, 1)], window_size=2)) == {2: {1: 1}}


def test_the_next_planning_follows_at_once_only_where_a_job_outside_fits_what_is_idle():
    def ran_out(*outside, **more):
        return make_plan([node(1, 4)], [job(1, 2), *outside], window_size=0.5, **more).window_ran_out

    assert ran_out(job(2, 2))
    assert ran_out(job(2, 4), job(3, 1))
    assert not ran_out(job(2, 4)), "two GPUs are idle"
    assert not ran_out()


def test_jobs_that_no_node_could_hold_do_not_fill_the_window():
    made = make_plan([node(1, 4)], [job(1, 16), job(2, 16), job(3, 4)])
    assert where(made) == {3: {1: 4}}
    assert decisions_of(made)[1].rank is None


def test_fifo_stops_at_the_first_job_that_does_not_fit():
    jobs = [job(1, 2), job(2, 4), job(3, 1), job(4)]
    made = make_plan([node(1, 4)], jobs, policy="fifo")
    assert where(made) == {1: {1: 2}}
    assert why(made) == {2: "lost-to-higher-priority", 3: "outside-window", 4: "outside-window"}


def test_fifo_is_not_blocked_by_a_tenants_own_quota_nor_by_what_no_node_can_hold():
    jobs = [job(1, 2, tenant=2), job(2, 2, tenant=2), job(3, 99), job(4, 1)]
    made = make_plan([node(1, 4)], jobs, policy="fifo", tenants=[Tenant(2, gpu_quota=2)])
    assert where(made) == {1: {1: 2}, 4: {1: 1}}
    assert why(made) == {2: "tenant-quota", 3: "not-enough-idle-gpus"}


@JOINT_AND_GREEDY
@HOPS_AND_FIFO
def test_jobs_placed_in_one_planning_respect_the_quota_together(policy, placement):
    jobs = [job(number, 2) for number in (1, 2, 3)]
    made = make_plan(
        [node(1, 8, idle=6)],
        jobs,
        policy=policy,
        placement=placement,
        tenants=[Tenant(1, gpu_quota=6)],
        running=[running(9, 1, 1, gpus=2)],
    )
    assert where(made) == {1: {1: 2}, 2: {1: 2}}
    figures = decisions_of(made)[3].figures
    assert (figures["quota"], figures["held"], figures["left"], figures["needed"]) == (6, 6, 0, 2)


def test_equal_jobs_are_placed_in_the_order_of_their_submission():
    jobs = [job(number, 1, tenant=1 + number % 3, wait_s=0.0) for number in range(1, 9)]
    made = make_plan([node(1, 3), node(2, 8, idle=0)], jobs)
    assert sorted(where(made)) == [1, 2, 3]
    assert made.solver.gap == 0.0


@HOPS_AND_FIFO
def test_one_tenant_at_a_time_on_a_node_without_trust(policy):
    shy = {"single_account": True, "trusts_tenants": False}
    jobs = [job(1, 1, wait_s=90), job(2, 1, tenant=2), job(3, 1)]
    assert where(make_plan([node(1, 4, **shy)], jobs)) == {1: {1: 1}, 3: {1: 1}}
    made = make_plan([node(1, 2, **shy), node(2, 2, **shy)], jobs, policy=policy)
    assert len(made.placements) == 3 if policy == "hops" else 2


def test_a_job_larger_than_any_node_is_spread():
    made = make_plan([node(1, 4), node(2, 4)], [job(1, 6, cores=5)])
    assert where(made) == {1: {1: 4, 2: 2}}
    assert [len(piece.cores) for piece in made.placements[0].pieces] == [8, 4]


def test_a_tenants_priority_decides_between_its_own_jobs():
    jobs = [job(1, 2, wait_s=500), job(2, 2, wait_s=5, priority=9)]
    assert where(make_plan([node(1, 2), node(2, 2, idle=0)], jobs)) == {2: {1: 2}}


def test_no_time_at_all_is_said_and_nothing_is_lost():
    jobs = [job(1, 1), job(2)]
    for policy in ("hops", "fifo"):
        made = make_plan([node(1)], jobs, clock=ticking(100.0), policy=policy)
        assert made.placements == ()
        assert why(made) == {1: "solver-limit", 2: "not-planned-yet"}


def test_a_solve_without_time_leaves_the_greedy_plan_and_its_gap():
    """At 1.0 s a reading generation ends in time, and nothing is left for the solver."""
    made = make_plan([node(1, 4)], [job(1, 1, 2)], clock=ticking(1.0), time_limit_s=15)
    assert where(made) == {1: {1: 2}}
    assert (made.solver.status, made.solver.incumbent) == ("time-limit", "greedy")
    assert made.solver.gap == 0.0  # the knapsack bound alone proves it here


def test_bad_jobs_and_nodes_are_set_aside_and_the_planning_goes_on():
    nodes = [node(1, 2), node(2, -1), node(3, 2, idle_memory_mib=-5)]
    jobs = [job(1, 1), job(2, wait_s=float("nan")), job(3, 1, -1), job(4, 1, gpu_types=frozenset({"x9"}))]
    made = make_plan(nodes, jobs)
    assert where(made) == {1: {1: 1}}
    assert {number for number, each in decisions_of(made).items() if each.result is Result.INVALID} == {2, 3, 4}
    assert [(fault.subject, fault.key) for fault in made.faults] == [("node", "n2"), ("node", "n3")] + [
        ("job", number) for number in (2, 3, 4)
    ]
    assert "unknown GPU type x9; known types: a100" in decisions_of(made)[4].figures["detail"]


def test_ages_and_latency_ratios_stand_in_the_decisions():
    past = past_of((300.0, 2, "cv"))
    jobs = [job(1, 1, age_s=None, category="cv", wait_s=600), job(2, 1, eligible=False, ineligible_reason=Reason.HELD)]
    first, held = make_plan([node(1)], jobs, history=past).decisions
    assert (first.age_s, first.age_source, first.latency_ratio, first.rank) == (300, "jobs of the size", 2.0, 1)
    assert (held.latency_ratio, held.rank, held.eligible) == (0.1, None, False)


def test_metrics_of_the_plan():
    ended = [Ended(999_000.0, 60.0, 600.0), Ended(999_500.0, 300.0, 600.0), Ended(1.0, 9.0, 1.0)]
    nodes = [node(1, 8, idle=4, cores=10), node(2, 4, idle=1, cores=6)]
    jobs = [job(1, 4, wait_s=900), job(2, 2, wait_s=300), job(3, 1, eligible=False, ineligible_reason=Reason.HELD)]
    figures = make_plan(nodes, jobs, ended=ended, raqlr_hours=1).metrics
    assert (figures.gpus_total, figures.gpus_allocated, figures.gpus_idle) == (12, 11, 1)
    assert figures.gpu_active_rate == pytest.approx(11 / 12)
    assert figures.cpu_active_rate == pytest.approx(4 / 16)
    assert (figures.queue_length, figures.live_lr_mean, figures.live_lr_max) == (1, 0.5, 0.5)
    assert figures.waiting_by_reason == {"held": 1, "lost-to-higher-priority": 1}
    assert (figures.raqlr, figures.raqlr_jobs) == (pytest.approx(0.3), 2)
    assert (figures.fragments_cores, figures.fragments_scattered) == (0, 0)


def mixed(seed, count, sizes=((1,), (2,), (1, 2, 4), (4,), (8,), (2, 4, 8), (0,))):
    """A reproducible queue of mixed jobs of three tenants."""
    return [
        job(
            number,
            *sizes[(number * 5 + seed) % len(sizes)],
            tenant=1 + (number * 5 + seed) % 3,
            wait_s=float(number * 7919 % 5000),
            age_s=float(60 + number * 104_729 % 9000),
            cores=1 + (number * 3 + seed) % 8,
            memory_mib=number * 611 % 16_000,
        )
        for number in range(1, count + 1)
    ]


ONES_TO_FOUR = ((1,), (2,), (1, 2, 4), (4,), (1, 2), (2, 4), (3,))

DEMO = [node(1, 8), node(2, 8), node(3, 4, gpu_type="t4"), node(4, 4, gpu_type="t4")]


@HOPS_AND_FIFO
def test_the_same_input_gives_the_same_bytes(policy):
    plans = {make_plan(DEMO, mixed(1, 40), policy=policy, seed=7).as_json() for _ in range(2)}
    assert len(plans) == 1


def test_the_order_of_the_input_does_not_matter():
    straight, turned = make_plan(DEMO, mixed(1, 40)), make_plan(DEMO[::-1], mixed(1, 40)[::-1])
    assert straight.as_json() == turned.as_json()


def test_the_demo_cluster_is_planned_to_the_optimum():
    for seed in range(3):
        assert make_plan(DEMO, mixed(seed, 40)).solver.gap == 0.0


def test_256_gpus_are_planned_with_a_proven_gap():
    """By class. How long that takes `./berth bench planning` says."""
    made = make_plan([node(number, 8) for number in range(1, 33)], mixed(3, 200, ONES_TO_FOUR))
    assert made.window_jobs >= 100
    assert made.solver.formulation == "aggregated"
    assert made.solver.gap is not None
    assert made.metrics.gpus_allocated > 215


@st.composite
def clusters(draw):
    """Up to five nodes of two types, partly busy, some down, some untrusted."""
    return [
        node(
            number,
            (gpus := draw(st.sampled_from([0, 1, 2, 4, 8]))),
            gpu_type=draw(st.sampled_from(["a", "b"])),
            idle=draw(st.integers(0, gpus)),
            cores=(cores := draw(st.sampled_from([2, 8, 16]))),
            idle_cores=draw(st.integers(0, cores)),
            idle_memory_mib=draw(st.integers(0, 4000)),
            storage_domain=draw(st.sampled_from(["", "nfs"])),
            offers=frozenset(draw(st.sets(st.sampled_from(["build", "environment:a"])))),
            schedulable=draw(st.sampled_from([True, True, True, False])),
            single_account=(single := draw(st.booleans())),
            trusts_tenants=not single or draw(st.booleans()),
        )
        for number in range(1, draw(st.integers(1, 5)) + 1)
    ]


@st.composite
def queues(draw):
    """Up to fourteen jobs of three tenants."""
    sizes = st.sampled_from([(0,), (1,), (2,), (1, 2), (1, 2, 4), (3,), (8,), (6, 12), (16,)])
    return [
        job(
            number,
            *draw(sizes),
            tenant=draw(st.integers(1, 3)),
            cores=draw(st.integers(1, 6)),
            memory_mib=draw(st.integers(0, 3000)),
            wait_s=draw(st.floats(0, 10_000)),
            priority=draw(st.integers(-2, 2)),
            gpu_types=draw(st.sampled_from([frozenset(), frozenset({"a"})])),
            checkpoint_domain=draw(st.sampled_from([None, None, None, "nfs", "node:1"])),
            software=draw(st.sampled_from(["", "", "", "build", "environment:a"])),
        )
        for number in range(1, draw(st.integers(0, 14)) + 1)
    ]


@st.composite
def quotas(draw):
    """Quotas for some of the tenants."""
    limit = st.none() | st.integers(0, 12)
    return [Tenant(number, gpu_quota=draw(limit), core_quota=draw(limit)) for number in (1, 2)]


@settings(max_examples=16, deadline=None)
@given(
    clusters(),
    queues(),
    quotas(),
    st.sampled_from(
        [("fifo", "ilp"), ("hops", "ilp"), ("hops", "greedy"), ("drf", "ilp"), ("coda", "ilp"), ("berth", "ilp")]
    ),
)
def test_every_plan_is_feasible_and_every_job_has_its_reason(nodes, jobs, tenants, policy):
    made = make_plan(
        nodes, jobs, tenants=tenants, policy=policy[0], placement=policy[1], gpu_speeds={"a": 2.0, "b": 1.0}
    )
    for decision in made.decisions:
        assert decision.reason not in {Reason.SOLVER_LIMIT, Reason.INVALID, Reason.NOT_PLANNED_YET}


@settings(max_examples=10, deadline=None)
@given(clusters(), queues())
def test_the_ilp_is_never_worse_than_greedy_and_its_bound_holds(nodes, jobs):
    speeds = {"a": 2.0, "b": 1.0}
    joint = make_plan(nodes, jobs, gpu_speeds=speeds).solver
    greedy = make_plan(nodes, jobs, gpu_speeds=speeds, placement="greedy").solver
    if joint.objective is None:
        assert greedy.objective is None
        return
    assert joint.objective >= greedy.objective - 1e-9
    assert joint.bound >= joint.objective - 1e-6
    assert greedy.bound >= joint.objective - 1e-6
