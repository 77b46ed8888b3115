"""Activity, RAQLR and fragments (algorithms.md sections 3 and 10)."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scheduler import metrics
from scheduler.model import Ended, Reason, Share, Tenant
from scheduler.placement.ledger import Ledger
from tests.scheduler.builders import job, make_plan, node


def test_raqlr_is_the_mean_over_the_jobs_that_ended_in_h_hours():
    """Hops eq. 7."""
    ended = [Ended(3600.0, 60.0, 600.0), Ended(7000.0, 600.0, 600.0), Ended(0.0, 9999.0, 1.0)]
    assert metrics.raqlr(ended, 7200.0, 1) == (pytest.approx(1.0), 1)
    assert metrics.raqlr(ended, 7200.0, 1.5) == (pytest.approx(0.55), 2)


def test_an_arrays_tasks_weigh_in_raqlr_as_one_job():
    """One array of 200 short tasks that queued behind one another would else be all that the figure tells."""
    tasks = [Ended(100.0 + n, 10.0 * n, 10.0, array=7) for n in range(200)]
    jobs = [Ended(100.0, 0.0, 100.0), Ended(200.0, 50.0, 100.0)]
    found, count = metrics.raqlr([*tasks, *jobs], 3600.0, 1)
    assert (found, count) == (pytest.approx((99.5 + 0.0 + 0.5) / 3), 3)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(
        st.builds(Ended, st.integers(0, 50), st.integers(0, 9), st.integers(1, 9), st.sampled_from([None, None, 1, 2])),
        max_size=25,
    ),
    st.lists(st.integers(0, 60), max_size=8).map(sorted),
)
def test_the_course_of_raqlr_is_raqlr_at_each_moment(ended, moments):
    hours = 10 / 3600
    course = metrics.raqlr_course(ended, moments, hours)
    for moment, (value, count) in zip(moments, course, strict=True):
        expected, jobs = metrics.raqlr(ended, moment, hours)
        assert count == jobs
        assert value == (None if expected is None else pytest.approx(expected))


def test_raqlr_without_jobs_has_no_value():
    assert metrics.raqlr([], 7200.0, 1) == (None, 0)


def test_rates_and_means_of_nothing_have_no_value():
    assert metrics.rate(0, 0) is None
    assert metrics.rate(1, 4) == 0.25
    assert metrics.live_latency_ratio([]) == (None, None)


def counted(jobs, nodes):
    found = metrics.fragments(jobs, Ledger(nodes, (), ()))
    return found.short_of_cores, found.scattered


def test_idle_gpus_that_lack_only_the_cores_asked_as_a_hard_need_are_of_the_first_kind():
    assert counted([job(1, 2, cores=4, least_cores=4)], [node(1, 4, cores=7)]) == (4, 0)
    assert counted([job(1, 2, cores=4)], [node(1, 4, cores=7)]) == (0, 4)


def test_of_jobs_that_differ_in_memory_alone_few_are_asked_about_each_node(monkeypatch):
    """100 000 amounts of memory times the nodes short of cores took a third of recording on a starved core."""
    asked = []
    real = metrics._fits_but_for_cores
    monkeypatch.setattr(metrics, "_fits_but_for_cores", lambda *given_: asked.append(given_) or real(*given_))
    nodes = [node(k, 4, cores=7, memory_mib=100) for k in range(1, 6)]
    jobs = [job(k, 2, cores=4, least_cores=4, memory_mib=2000 - 10 * k) for k in range(1, 51)]
    assert counted(jobs, nodes) == (0, 20), "none of them fits the nodes' memory"
    assert len(asked) == len(nodes)
    assert counted([*jobs, job(51, 2, cores=4, least_cores=4, memory_mib=50)], nodes) == (20, 0)


def test_no_demand_is_no_fragment():
    assert counted([], [node(1, 4)]) == (0, 0)
    assert counted([job(1)], [node(1, 4)]) == (0, 0)
    assert counted([job(1, 8)], [node(1, 4)]) == (0, 0)
    assert counted([job(1, 2, gpu_types=frozenset({"b"}))], [node(1, 4, gpu_type="a", idle_cores=0)]) == (0, 0)


def test_kind_1_is_short_of_cores_on_the_node():
    assert counted([job(1, 2)], [node(1, 4, idle=3, idle_cores=1), node(2, 4, idle=0)]) == (3, 0)


def test_kind_2_is_enough_of_the_type_but_not_where_it_could_be_used():
    nodes = [node(1, 4, idle=1), node(2, 4, idle=1), node(3, 4, idle=3, gpu_type="b")]
    assert counted([job(1, 2, gpu_types=frozenset({"a100"}))], nodes) == (0, 2)


def test_each_idle_gpu_counts_once_in_the_first_kind():
    nodes = [node(1, 4, idle=2, idle_cores=0), node(2, 4, idle=2)]
    assert counted([job(1, 2), job(2, 4)], nodes) == (2, 2)


def test_nodes_that_take_no_jobs_have_no_idle_gpus():
    assert counted([job(1, 2)], [node(1, 4, schedulable=False), node(2, 4, idle=1)]) == (0, 0)


def test_kind_1_asks_any_configuration_of_the_set_not_only_the_smallest():
    """Section 10: of {1, 4} four fit but for cores; nothing is short for {1} alone, which is late, not short."""
    nodes = [node(1, 4, idle_cores=2)]
    assert counted([job(1, 1, 4)], nodes) == (4, 0)
    assert counted([job(1, 1)], nodes) == (0, 4)


def test_kind_1_counts_a_part_of_a_spread_job():
    """Section 10: twelve GPUs go over two nodes of eight; the part on the node without cores is what fails."""
    nodes = [node(1, 8, idle_cores=2), node(2, 8)]
    assert counted([job(1, 12)], nodes) == (8, 8)
    assert counted([job(1, 20)], nodes) == (0, 0)


def test_memory_and_trust_are_not_cores():
    """Section 10: what fails for another want is in the wrong place: kind 2."""
    nodes = [node(1, 4, idle_cores=0, memory_mib=10)]
    assert counted([job(1, 2, memory_mib=100)], nodes) == (0, 4)
    trusting = {"single_account": True, "trusts_tenants": False, "tenants": frozenset({7})}
    assert counted([job(1, 2)], [node(1, 4, idle_cores=0, **trusting)]) == (0, 4)


def test_only_eligible_jobs_make_fragments():
    """Section 10: a held job and one over its quota leave no fragments, the same job eligible does."""
    nodes = [node(1, 4, idle=1), node(2, 4, idle=1)]
    waiting = make_plan(nodes, [job(1, 2)]).metrics
    assert (waiting.fragments_scattered, waiting.fragment_rate) == (2, pytest.approx(2 / 8))
    held = job(1, 2, eligible=False, ineligible_reason=Reason.HELD)
    assert make_plan(nodes, [held]).metrics.fragments_scattered == 0
    capped = make_plan(nodes, [job(1, 2)], tenants=(Tenant(1, gpu_quota=1),)).metrics
    assert (capped.fragments_scattered, capped.queue_length) == (0, 0)


sizes = st.sets(st.integers(1, 6), min_size=1, max_size=3).map(lambda found: tuple(sorted(found)))
types = st.sampled_from([frozenset(), frozenset({"a"}), frozenset({"b"}), frozenset({"a", "b"})])
clusters = st.lists(
    st.tuples(st.sampled_from("ab"), st.integers(0, 4), st.integers(0, 5), st.sampled_from([50, 500])), max_size=4
)
queues = st.lists(st.tuples(sizes, types, st.sampled_from([0, 100])), max_size=4)


def cluster_of(rows):
    return [
        node(number, 4, gpu_type=kind, idle=gpus, cores=8, idle_cores=cores, memory_mib=memory)
        for number, (kind, gpus, cores, memory) in enumerate(rows, start=1)
    ]


def by_the_words(jobs, nodes):
    """Section 10 read aloud, GPU by GPU, for jobs that fit one node: the slow reference."""
    kinds = [0, 0]
    for host in nodes:
        for _ in host.idle_gpus:
            mine = [each for each in jobs if not each.gpu_types or host.gpu_type in each.gpu_types]
            idle = sum(len(other.idle_gpus) for other in nodes if other.gpu_type == host.gpu_type)
            one = any(
                size <= len(host.idle_gpus) and each.memory_mib <= host.idle_memory_mib and size > len(host.idle_cores)
                for each in mine
                for size in each.requirement
            )
            two = any(each.min_gpus <= idle for each in mine)
            kinds[0 if one else 1] += one or two
    return tuple(kinds)


@given(clusters, queues)
@settings(max_examples=24, deadline=None)
def test_fragments_are_as_section_10_says_gpu_by_gpu(rows, asked):
    nodes = cluster_of(rows)
    jobs = [
        job(n, *requirement, gpu_types=kinds, memory_mib=memory)
        for n, (requirement, kinds, memory) in enumerate(asked)
        if requirement[0] <= 4  # larger ones spread: their parts are tested above
    ]
    found = counted(jobs, nodes)
    assert found == by_the_words(jobs, nodes)
    assert sum(found) <= sum(len(host.idle_gpus) for host in nodes)
    for left_out in jobs:  # who waits can only add to them
        assert sum(counted([each for each in jobs if each is not left_out], nodes)) <= sum(found)


def weighted(samples, until_s, **more):
    """One figure's mean over a round."""
    return metrics.over_round([(at_s, {"queue_length": value}) for at_s, value in samples], until_s, **more)[
        "queue_length"
    ]


def test_a_figure_holds_until_the_next_planning():
    """Section 10: 4 fragments for 10 s, then none for 50 s: 0.667 over the round, not 2 as the mean of two plannings."""
    assert weighted([(0.0, 4), (10.0, 0)], 60.0) == pytest.approx(40 / 60)
    assert weighted([(0.0, None), (10.0, 3)], 60.0) == 3
    assert weighted([(0.0, None)], 60.0) is None
    assert weighted([], 60.0) is None
    assert weighted([(60.0, 3)], 60.0) == 3
    assert weighted([(0.0, 4), (10.0, 0)], 60.0, hold_s=30.0) == pytest.approx(40 / 40)


@given(st.dictionaries(st.integers(0, 1000), st.integers(0, 50), min_size=1, max_size=8), st.integers(0, 7))
@settings(max_examples=24, deadline=None)
def test_a_repeated_planning_changes_no_mean(samples, place):
    """Section 10, time-weighted: nudged plannings with the same figures must not weigh more than a tick's."""
    samples = sorted(samples.items())
    mean = weighted(samples, 2000.0)
    assert min(value for _, value in samples) - 1e-9 <= mean <= max(value for _, value in samples) + 1e-9
    at_s, value = samples[place % len(samples)]
    until_s = samples[place % len(samples) + 1][0] if place % len(samples) + 1 < len(samples) else 2000.0
    again = sorted([*samples, ((at_s + until_s) / 2, value)])
    assert weighted(again, 2000.0) == pytest.approx(mean)


def test_a_rounds_figures():
    first = {"fragments_cores": 6, "live_lr_max": 3.0, "live_lr_mean": 1.0, "raqlr": 0.5, "utilisation": None}
    second = {"fragments_cores": 0, "live_lr_max": None, "live_lr_mean": None, "raqlr": 0.7, "utilisation": 80.0}
    found = metrics.over_round([(0.0, first), (20.0, second)], 60.0)
    assert found["fragments_cores"] == pytest.approx(2.0)
    assert (found["live_lr_mean"], found["live_lr_max"], found["raqlr"]) == (1.0, 3.0, 0.7)
    assert found["utilisation"] == 80.0
    assert found["queue_length"] is None
    assert set(metrics.over_round([], 60.0).values()) == {None}


def test_a_faulty_twin_of_a_waiting_job_is_not_measured():
    twins = [job(1, 2), job(1, requirement=())]
    made = make_plan([node(1, 2, idle=1)], twins)
    assert [fault.key for fault in made.faults] == [1]
    assert made.metrics.fragments_scattered == 0


def kept(jobs, nodes, *, promised=(), reserved=None):
    ledger = Ledger(nodes, (), ())
    ledger.withhold(promised)
    found = metrics.fragments(jobs, ledger, reserved or {})
    return found.kept, found.short_of_cores, found.scattered


def test_what_a_reservation_or_a_promise_keeps_from_a_job_that_fits_is_a_kind_of_its_own():
    nodes = [node(1, 4), node(2, 4, idle=1)]
    small, large = job(1, 2), job(9, 8)
    assert kept([small], nodes, promised=[Share(1, 3, 3, 0)]) == (3, 0, 2)
    assert kept([small, large], nodes, reserved={1: 9}) == (4, 0, 1)  # enough of the type idles, but not together
    assert kept([large], nodes, reserved={1: 9}) == (0, 0, 0)  # nobody but whom it is kept for
    assert kept([job(1, 5)], nodes, reserved={1: 9}) == (0, 0, 5)  # it would not fit there either
