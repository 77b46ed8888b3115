"""The aggregated formulation against the located one, and every plan node by node (algorithms.md section 6)."""

import math
from dataclasses import dataclass, replace
from itertools import combinations
from types import MappingProxyType

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.estimator.estimator import Estimator
from scheduler.estimator.layers import Estimate
from scheduler.fairness.arrays import Array, Division
from scheduler.fairness.borrowing import AccessRules, HomeArrays
from scheduler.model import Configuration, Ranked, Reservation, Share, Tenant
from scheduler.placement import located
from scheduler.placement.access import NO_RULES
from scheduler.placement.aggregated import patterns
from scheduler.placement.aggregated.candidates import candidates_by_class
from scheduler.placement.aggregated.classes import Classes
from scheduler.placement.aggregated.formulation import solve_aggregated
from scheduler.placement.aggregated.making import Maker
from scheduler.placement.aggregated.own_speeds import own_speeds_of
from scheduler.placement.aggregated.patterns import Supply
from scheduler.placement.aggregated.plans import Limits
from scheduler.placement.aggregated.pricing import Problem, price
from scheduler.placement.configurations import generate_on
from scheduler.placement.core_counts import per_gpu, share_of_speed, spread_rates
from scheduler.placement.ledger import Ledger
from scheduler.placement.matrix import solve_matrix
from scheduler.placement.objective import Gain
from scheduler.placement.running import Factors, Participant, least_of_all, revalued
from scheduler.placement.solver import solve_arrays
from tests.scheduler.builders import job, node, ticking
from tests.scheduler.placement.pulp_matrix import solve_matrix_pulp

SPEEDS = {"a": 1.0, "b": 1.7}


@dataclass(frozen=True)
class Known:
    """Per-GPU throughput by job and type, falling with the GPU count; the sensitivity rho of each job.

    `unknown`: the numbers of GPUs whose speeds are guesses.
    """

    factors: dict
    rho: dict
    unknown: frozenset = frozenset()

    def per_gpu(self, job, node, gpus, nodes):
        value = SPEEDS[node.gpu_type] * self.factors[job.id] * gpus**-0.15
        source = "sizes" if gpus in self.unknown else "type"
        return Estimate(value / (self.rho[job.id] if nodes > 1 else 1.0), source, in_samples=False)

    def sensitivity(self, job):
        return self.rho[job.id]


@st.composite
def clusters(draw, *, memory=False, spread=False, quotas=True, exclusive=True):
    """Up to five nodes and seven jobs: small enough for the located optimum, varied enough to matter."""
    nodes = []
    for number in range(1, draw(st.integers(1, 5)) + 1):
        idle = draw(st.integers(0, 4))
        alone = exclusive and draw(st.integers(0, 5)) == 0
        nodes.append(
            node(
                number,
                4,
                gpu_type=draw(st.sampled_from("ab")),
                cores=12,
                idle=idle,
                idle_cores=draw(st.sampled_from((3, 6, 12))),
                memory_mib=draw(st.sampled_from((60, 100))) if memory else 10**6,
                storage_domain=draw(st.sampled_from(("", "nfs"))),
                offers=frozenset(draw(st.sets(st.sampled_from(("build", "environment:a")), max_size=2))),
                speed=draw(st.sampled_from((1.0, 1.0, 0.8))),
                closes_s=draw(st.sampled_from((math.inf, math.inf, 200.0, 900.0))),
                single_account=alone,
                trusts_tenants=not alone,
                tenants=frozenset(draw(st.sets(st.integers(1, 2), max_size=1))) if alone else frozenset(),
            )
        )
    jobs = []
    for number in range(1, draw(st.integers(1, 7)) + 1):
        sizes = sorted(draw(st.sets(st.integers(1, 6), min_size=1, max_size=3)))
        jobs.append(
            job(
                number,
                *sizes,
                tenant=draw(st.integers(1, 2)),
                cores=draw(st.integers(1, 4)),
                memory_mib=draw(st.sampled_from((10, 40, 60))) if memory else 1,
                gpu_types=frozenset(draw(st.sets(st.sampled_from("ab"), max_size=1))),
                checkpoint_domain=draw(st.sampled_from((None, None, None, "nfs"))),
                software=draw(st.sampled_from(("", "", "", "build", "environment:a"))),
                open_until_s=draw(st.sampled_from((-math.inf, -math.inf, 100.0, 300.0, 1000.0))),
                wait_s=float(draw(st.integers(1, 5)) * 60),
            )
        )
    layer = Known(
        {each.id: draw(st.sampled_from((1.0, 1.3))) for each in jobs},
        {each.id: draw(st.sampled_from((1.1, 1.3))) if spread else 9.0 for each in jobs},
        frozenset(draw(st.sets(st.integers(2, 6), max_size=3))),
    )
    tenants = [Tenant(1, gpu_quota=draw(st.integers(1, 8)), core_quota=draw(st.integers(1, 20)))] if quotas else []
    return nodes, jobs, Estimator((layer,)), tenants


@st.composite
def termed(draw, **more):
    """A cluster with arrays, reserved cores, waiting owners, jobs that may be moved and a reservation."""
    nodes, jobs, estimator, tenants = draw(clusters(**more))
    numbers = st.sets(st.sampled_from([each.id for each in nodes]))
    division = Division(frozenset(draw(numbers)), {each.id: draw(st.sampled_from((2, 4, 8))) for each in nodes})
    waiting = draw(st.sets(st.sampled_from(list(Array))))
    movable = draw(st.sets(st.sampled_from([each.id for each in jobs])))
    jobs = [replace(each, movable=each.id in movable) for each in jobs]
    gain = Gain(draw(st.sampled_from((1.0, 0.5, 0.3))))
    kept = Reservation(draw(st.sampled_from(jobs)).id, frozenset(draw(numbers)), draw(st.sampled_from((100.0, 900.0))))

    def access_rules(ledger, jobs):
        made = AccessRules(division, HomeArrays(division, ledger), ledger, (), waiting, gain=gain)
        made.limit(jobs)
        made.reservations = [(kept, 0.0)]
        return made

    return nodes, jobs, estimator, tenants, access_rules


@st.composite
def with_running(draw, **more):
    """A cluster on which some of the jobs run: what they hold is idle in it, as in a re-plan's solve."""
    nodes, jobs, estimator, tenants, access_rules = draw(termed(**more))
    left = {each.id: [each, len(each.idle_gpus), len(each.idle_cores), each.idle_memory_mib] for each in nodes}
    running = []
    for each in jobs:
        size = draw(st.sampled_from(each.requirement))
        shares = draw(st.sampled_from(ways_to_run(each, size, left)))
        if not shares or not draw(st.booleans()):
            continue
        present = Configuration(each.id, shares, 0.0, "test")
        hosts = [left[share.node][0] for share in shares]
        speed, source = min(per_gpu(estimator, each, host, size, len(shares)) for host in hosts)
        if len(shares) == 1:
            pace = share_of_speed(present.cores, each.cores, size)
        else:
            pace = share_of_speed(present.cores // size, spread_rates(each)[0], 1)
        for share in shares:
            for k, taken in enumerate((share.gpus, share.cores, share.memory_mib), start=1):
                left[share.node][k] -= taken
        factors = Factors(draw(st.sampled_from((0.0, 0.6, 0.95))), draw(st.sampled_from((0.0, 0.6, 0.95))))
        throughput = max(speed * size * pace, speed_as_parts(estimator, each, present, hosts[0]))
        running.append(
            (replace(present, throughput=throughput, source=source), factors, draw(st.sampled_from((0.0, 0.3))))
        )
    return nodes, jobs, estimator, tenants, access_rules, running


def speed_as_parts(estimator, asked, present, host):
    """What is assumed of the job's GPUs as parts over nodes: known of what runs is at least that.

    Parts need fewer cores by assumption (`DISTRIBUTED_CORES`), and two of them may come to lie on one node, just as the job
    runs now. Were that known to be slower, the plan would be worth less than it was thought to be.
    """
    if present.gpus == 1:
        return 0.0
    rate = present.cores // present.gpus
    pace = share_of_speed(rate, spread_rates(asked)[0], 1)
    return per_gpu(estimator, asked, host, present.gpus, 2)[0] * present.gpus * pace


def ways_to_run(asked, size, left):
    """The shares by which the job could run now: on one node, over two or over three; () for who cannot."""
    open_to = [
        k
        for k, (host, *_) in left.items()
        if (not asked.gpu_types or host.gpu_type in asked.gpu_types)
        and asked.checkpoint_domain in {None, host.domain}
        and (not asked.software or asked.software in host.offers)
    ]
    found = [()]
    for count in range(1, min(3, len(open_to), size) + 1):
        for chosen in combinations(open_to, count):
            parts = [size // count + (k < size % count) for k in range(count)]
            for rate in {1, 2} if count > 1 else {1, asked.cores}:
                shares = tuple(
                    Share(k, gpus, gpus * rate, -(-asked.memory_mib * gpus // size))
                    for k, gpus in zip(chosen, parts, strict=True)
                )
                needs = [(left[share.node][1:], (share.gpus, share.cores, share.memory_mib)) for share in shares]
                if all(
                    free >= need for capacities, wants in needs for free, need in zip(capacities, wants, strict=True)
                ):
                    found.append(shares)
    return found


def taking_part(running, queue):
    by_job = {present.job: (present, factors, cost) for present, factors, cost in running}
    return {each.job.id: Participant(None, each, *by_job[each.job.id]) for each in queue if each.job.id in by_job}


def stage_of(jobs):
    ordered = sorted(jobs, key=lambda each: (-each.wait_s, each.id))
    queue = [Ranked(each, k, each.wait_s / 600, each.wait_s / 600, 600.0, "test") for k, each in enumerate(ordered, 1)]
    return queue, located.weights(queue, 1.0)


def aggregated(nodes, jobs, estimator, tenants=(), *, gap=0.0, access_rules=None, running=(), own_speeds=16, **more):
    queue, weights = stage_of(jobs)
    more["participants"] = taking_part(running, queue)
    ledger = Ledger(nodes, tenants, ())
    rules = access_rules(ledger, jobs) if access_rules else NO_RULES
    limits = Limits(ticking(), 60.0, gap, 1, own_speeds=own_speeds)
    answer = solve_aggregated(queue, weights, ledger, estimator, limits, rules=rules, **more)
    check(answer, ledger, weights, rules, more["participants"])
    return answer


def check(answer, ledger, weights, rules=NO_RULES, running=MappingProxyType({})):
    """Node by node: the ledger takes every part, or raises; one accepted size a job; the objective is the plan's."""
    assert len({placed.ranked.job.id for placed in answer.placed}) == len(answer.placed)
    left = ledger.copy()
    for placed in answer.placed:
        asked, made = placed.ranked.job, placed.configuration
        assert made.gpus in asked.requirement
        assert made.cores >= made.gpus
        assert sum(share.memory_mib for share in made.shares) >= asked.memory_mib
        assert len({share.node for share in made.shares}) == len(made.shares)
        for share in made.shares:
            host = left.free[share.node].node
            assert not asked.gpu_types or host.gpu_type in asked.gpu_types
            assert asked.checkpoint_domain in {None, host.domain}
            assert not asked.software or asked.software in host.offers
            stays = asked.id in running and running[asked.id].keeps(made)
            assert stays or rules.access(placed.ranked).admits(rules.zone(share.node))
        left.take(made, asked.tenant)
    total = 0.0
    for placed in answer.placed:
        own = weights[placed.ranked.job.id]
        value = own * placed.gain * rules.factor(placed.ranked.job, placed.configuration)
        if (live := running.get(placed.ranked.job.id)) is not None:
            present = placed.gain * rules.gain.of(live.present.throughput / placed.configuration.throughput)
            value = value * live.factor_of(placed.configuration)
            value += own * present * live.unselected_cost
        total += value
    assert answer.objective == pytest.approx(total)
    assert answer.bound is None or answer.bound >= answer.objective - 1e-6


def located_optimum(nodes, jobs, estimator, tenants=(), access_rules=None, running=()):
    """The paper's formulation, every job's G over the same least throughput as in the aggregated one."""
    queue, weights = stage_of(jobs)
    ledger = Ledger(nodes, tenants, ())
    rules = access_rules(ledger, jobs) if access_rules else NO_RULES
    core_counts = ledger.core_counts()
    found = {
        each.job.id: generate_on(
            each.job,
            rules.offers(each) if access_rules else ledger.idle_offers(),
            ledger,
            estimator,
            core_counts=core_counts[each.job.id in ledger.limited],
        )
        for each in queue
    }
    participants = taking_part(running, queue)
    found |= {number: each.offered(found[number]) for number, each in participants.items()}
    classes = Classes(ledger, queue, rules, own_speeds=own_speeds_of(queue, weights, ledger, estimator, len(nodes)))
    least = candidates_by_class(queue, weights, classes, ledger, estimator).least
    least |= least_of_all(least, participants, found)
    columns = located.candidates_of(queue, found, weights, least=least, rules=rules)
    columns = revalued(columns, participants, weights)
    if not columns:
        return 0.0
    return solve_arrays(located.build(columns, ledger), gap=0.0, time_limit_s=20, seed=1).objective


@settings(max_examples=12, deadline=None)
@given(clusters())
def test_with_one_node_placements_and_listed_patterns_both_optima_are_equal(given_):
    nodes, jobs, estimator, tenants = given_
    jobs = [each for each in jobs if each.min_gpus <= 4]
    answer = aggregated(nodes, jobs, estimator, tenants)
    assert answer.objective == pytest.approx(located_optimum(nodes, jobs, estimator, tenants), abs=1e-6)


@settings(max_examples=16, deadline=None)
@given(clusters(spread=True, exclusive=False))
def test_with_spread_placements_aggregated_is_at_least_located(given_):
    answer = aggregated(*given_)
    assert answer.objective >= located_optimum(*given_) - 1e-6


@settings(max_examples=12, deadline=None)
@given(termed())
def test_under_arrays_borrowing_and_reservations_both_optima_are_equal(given_):
    """Section 4 joined with 6: arrays, borrowed nodes at 0.95, the cores reserved, nodes kept for one job."""
    nodes, jobs, estimator, tenants, access_rules = given_
    jobs = [each for each in jobs if each.min_gpus <= 4]
    answer = aggregated(nodes, jobs, estimator, tenants, access_rules=access_rules)
    assert answer.objective == pytest.approx(located_optimum(nodes, jobs, estimator, tenants, access_rules), abs=1e-6)


@settings(max_examples=12, deadline=None)
@given(termed(spread=True, exclusive=False))
def test_under_terms_spread_placements_are_at_least_located(given_):
    nodes, jobs, estimator, tenants, access_rules = given_
    answer = aggregated(nodes, jobs, estimator, tenants, access_rules=access_rules)
    assert answer.objective >= located_optimum(nodes, jobs, estimator, tenants, access_rules) - 1e-6


@settings(max_examples=16, deadline=None)
@given(with_running(exclusive=False, quotas=False))
def test_with_running_jobs_both_optima_are_equal(given_):
    """Section 6: who runs may keep what it has, change at the price of a restart, or stop for others."""
    nodes, jobs, estimator, tenants, access_rules, running = given_
    running = [each for each in running if len(each[0].shares) == 1]
    jobs = [each for each in jobs if each.min_gpus <= 4]
    running = [each for each in running if any(each[0].job == job.id for job in jobs)]
    answer = aggregated(nodes, jobs, estimator, tenants, access_rules=access_rules, running=running)
    optimum = located_optimum(nodes, jobs, estimator, tenants, access_rules, running)
    assert answer.objective == pytest.approx(optimum, abs=1e-6)


@settings(max_examples=24, deadline=None)
@given(with_running(spread=True, exclusive=False))
def test_who_runs_on_several_nodes_may_keep_what_it_has_or_change_too(given_):
    nodes, jobs, estimator, tenants, access_rules, running = given_
    answer = aggregated(nodes, jobs, estimator, tenants, access_rules=access_rules, running=running)
    optimum = located_optimum(nodes, jobs, estimator, tenants, access_rules, running)
    assert answer.objective >= optimum - 1e-6


@settings(max_examples=12, deadline=None)
@given(clusters(spread=True, memory=True))
def test_plans_are_feasible_node_by_node_when_memory_binds(given_):
    aggregated(*given_)


@settings(max_examples=12, deadline=None)
@given(clusters())
def test_priced_patterns_are_within_the_proven_gap_of_listed_ones(given_):
    exact = aggregated(*given_)
    before = patterns.ENUMERATED
    patterns.ENUMERATED = 0
    try:
        priced = aggregated(*given_)
    finally:
        patterns.ENUMERATED = before
    assert priced.objective <= exact.objective + 1e-6
    assert priced.bound is None or priced.bound >= exact.objective - 1e-6


def test_the_search_widens_although_many_columns_cost_nothing():
    """Job 1 is free to take the slower node: a candidate at no reduced cost, but one of many."""
    nodes = [node(1, 4, gpu_type="a", idle=1, idle_cores=3, speed=0.8), node(2, 4, gpu_type="a", idle_cores=6)]
    jobs = [job(1, 1, 2, 3, tenant=2, wait_s=120), job(2, 1, 3, tenant=2, cores=2, wait_s=120)]
    answer = aggregated(nodes, jobs, Estimator((Known({1: 1.0, 2: 1.0}, {1: 1.1, 2: 1.1}),)))
    assert {placed.ranked.job.id: placed.configuration.gpus for placed in answer.placed} == {1: 1, 2: 3}
    assert answer.status == "optimal"


def problem_of(nodes, jobs, estimator, late=lambda: False):
    queue, weights = stage_of(jobs)
    ledger = Ledger(nodes, (), ())
    classes = Classes(ledger, queue)
    candidates = candidates_by_class(queue, weights, classes, ledger, estimator)
    supply = Supply(classes, candidates, late)
    members = np.array([len(group.members) for group in candidates.groups], dtype=float)
    return Problem(candidates, supply, [], members, supply.counts, supply.listed, supply.complete)


@settings(max_examples=8, deadline=None)
@given(clusters(quotas=False, exclusive=False))
def test_pulp_and_arrays_state_the_same_program(given_):
    problem = problem_of(*given_[:3])
    if not problem.candidates.groups:
        return
    candidates = problem.candidate_columns(np.arange(len(problem.candidates.group)))
    matrix = candidates.beside(problem.supply_columns(problem.listed, range(len(problem.moves))), problem.row_upper)
    found = [path(matrix, gap=0.0, time_limit_s=60, seed=1) for path in (solve_matrix, solve_matrix_pulp)]
    assert matrix.cost @ found[0][0] == pytest.approx(matrix.cost @ found[1][0])
    assert found[0][1] == pytest.approx(found[1][1], abs=1e-6)


@settings(max_examples=8, deadline=None)
@given(clusters(quotas=False, exclusive=False))
def test_patterns_that_there_was_no_time_to_list_are_priced_to_the_same_bound(given_):
    """Section 6: never late. Listing thousands of patterns takes longer than the least limit."""
    listed, priced = problem_of(*given_[:3]), problem_of(*given_[:3], late=lambda: True)
    if not listed.candidates.groups:
        return
    assert priced.listed == []
    assert not priced.complete
    bounds = [price(each, remaining_s=lambda: 10.0, tolerance=0.0, seed=1).bound for each in (listed, priced)]
    assert bounds[0] == pytest.approx(bounds[1], rel=1e-6)


@settings(max_examples=8, deadline=None)
@given(clusters(quotas=False, exclusive=False))
def test_the_bound_is_the_relaxations_optimum_once_prices_converge(given_):
    problem = problem_of(*given_[:3])
    if not problem.candidates.groups:
        return
    priced = price(problem, remaining_s=lambda: 10.0, tolerance=0.0, seed=1)
    assert priced.converged
    assert priced.bound == pytest.approx(
        problem.candidates.value[priced.candidates] @ priced.values[: len(priced.candidates)]
    )


def test_equal_jobs_are_one_variable_and_go_in_queue_order():
    same = Estimator((Known(dict.fromkeys(range(1, 31), 1.0), dict.fromkeys(range(1, 31), 9.0)),))
    jobs = [job(number, 1, 2) for number in range(1, 31)]
    answer = aggregated([node(k, 4, gpu_type="a") for k in range(1, 6)], jobs, same)
    assert len(answer.candidates.groups) == 1
    assert [placed.ranked.job.id for placed in answer.placed] == list(range(1, len(answer.placed) + 1))
    assert sum(placed.configuration.gpus for placed in answer.placed) == 20


def test_spread_over_any_number_of_pieces():
    """Six nodes with one idle GPU each: located's nodes in id order would do too, but only as six equal pieces."""
    low = Estimator((Known({1: 1.0}, {1: 1.2}),))
    answer = aggregated([node(k, 4, gpu_type="a", idle=1) for k in range(1, 7)], [job(1, 6)], low)
    assert [len(placed.configuration.shares) for placed in answer.placed] == [6]


def test_a_lone_pair_of_faster_nodes_sets_the_speed_of_what_is_spread_over_them_alone():
    low = Estimator((Known({1: 1.0}, {1: 1.0}),))
    nodes = [node(k, 4, gpu_type="a", idle=2, speed=speed) for k, speed in enumerate((1.0, 1.0, 0.5), 1)]
    (placed,) = aggregated(nodes, [job(1, 4)], low).placed
    assert {share.node for share in placed.configuration.shares} == {1, 2}


def test_memory_that_no_plan_by_class_knows_of_is_found_out_at_the_nodes():
    same = Estimator((Known(dict.fromkeys(range(1, 5), 1.0), dict.fromkeys(range(1, 5), 9.0)),))
    jobs = [job(number, 1, memory_mib=60) for number in range(1, 5)]
    answer = aggregated([node(k, 4, gpu_type="a", memory_mib=100) for k in (1, 2)], jobs, same)
    assert len(answer.placed) == 2


def test_the_last_plan_is_where_the_search_starts():
    """Section 6: HiGHS is handed the plan in which all who run stay, and a search that finds nothing leaves it."""
    host = node(1, 4, gpu_type="a")
    jobs = [job(number, 1, 2) for number in (1, 2, 3)]
    known = Estimator((Known(dict.fromkeys((1, 2, 3), 1.0), dict.fromkeys((1, 2, 3), 9.0)),))
    queue, weights = stage_of(jobs)
    running = taking_part(
        [(Configuration(k, (Share(1, 2, 2, 0),), 2.0, "test"), Factors(0.5, 0.5), 0.1) for k in (1, 2)], queue
    )
    ledger = Ledger([host], (), ())
    classes = Classes(ledger, queue, participants=running)
    candidates = candidates_by_class(queue, weights, classes, ledger, known, participants=running)
    maker = Maker(classes, ledger, known, candidates, weights, NO_RULES, running)
    standing = maker.standing(maker.problem())
    rows = sorted(own.candidates[0].row for own in candidates.groups if own.job.id in running)
    assert [list(pattern.pieces) for pattern in standing.patterns] == [[(row, 1) for row in rows]]
    kept = [own.values[0] for own in candidates.groups if own.job.id in running]
    assert standing.objective == pytest.approx(sum(kept))
    capped = Ledger([host], [Tenant(1, gpu_quota=3)], ())
    over = Maker(classes, capped, known, candidates, weights, NO_RULES, running)
    assert over.standing(over.problem()).patterns == {}


def equally_fast(*numbers):
    return Estimator((Known(dict.fromkeys(numbers, 1.0), dict.fromkeys(numbers, 9.0)),))


@pytest.mark.parametrize("idle", [(4, 2, 3), (3, 4, 1), (1, 4, 3), (4, 4, 3)])
def test_of_equally_good_nodes_the_one_with_the_fewest_idle_gpus_is_taken(idle):
    """Else jobs of one GPU would lie about everywhere, and one that needs a whole node would wait among idle GPUs."""
    nodes = [node(number, 4, gpu_type="a", idle=gpus) for number, gpus in enumerate(idle, 1)]
    (placed,) = aggregated(nodes, [job(1, 1)], equally_fast(1)).placed
    assert [share.node for share in placed.configuration.shares] == [1 + idle.index(min(idle))]


@pytest.mark.parametrize("idle", [(4, 2), (2, 4), (4, 1), (1, 4)])
def test_and_so_in_a_plan_that_is_better_than_the_greedy_one(idle):
    """Greedy takes job 1 on the 3 idle GPUs of type b; 2 and 3 together are worth more. Job 4 goes where it is tight."""
    nodes = [node(number, 4, gpu_type="a", idle=gpus) for number, gpus in enumerate(idle, 1)]
    nodes.append(node(3, 4, gpu_type="b", idle=3))
    jobs = [
        *(job(n, gpus, gpu_types=frozenset("b"), wait_s=100 - n) for n, gpus in ((1, 3), (2, 2), (3, 1))),
        job(4, 1, gpu_types=frozenset("a")),
    ]
    answer = aggregated(nodes, jobs, equally_fast(1, 2, 3, 4))
    on = {placed.ranked.job.id: placed.configuration.shares[0].node for placed in answer.placed}
    assert on == {2: 3, 3: 3, 4: 1 + idle.index(min(idle))}


def test_a_greedy_plan_that_gives_everybody_the_best_is_the_optimum_and_no_program_is_solved():
    nodes = [node(number, 4, gpu_type="a") for number in (1, 2)]
    answer = aggregated(nodes, [job(1, 4), job(2, 1, 2)], equally_fast(1, 2))
    assert (answer.status, answer.incumbent, answer.variables) == ("optimal", "ilp", 0)
    assert answer.bound == answer.objective
    crowded = aggregated(nodes, [job(1, 4), job(2, 1, 2), job(3, 4)], equally_fast(1, 2, 3))
    assert (crowded.status, crowded.incumbent) == ("optimal", "ilp")
    assert crowded.variables > 0
