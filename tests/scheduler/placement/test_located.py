"""The located program's numbers (Hops eq. 11-13; algorithms.md section 6)."""

import pytest

from scheduler.model import Configuration, Ranked, Share, Tenant
from scheduler.placement import located
from scheduler.placement.ledger import Ledger
from scheduler.placement.solver import solve_arrays, solve_pulp
from tests.scheduler.builders import job, make_plan, node, where

# Hops table 1: throughput gains of four jobs over their configurations ("/" = not generated).
TABLE_1 = {1: [1, 1.8, 2.6], 2: [2, 1, 3, 4.1], 3: [1.2, 1.6, 1], 4: [1, 1.8, 3.2]}


def ranked(number, prior, *requirement, **more):
    return Ranked(job(number, *(requirement or (1,)), **more), number, prior, prior, 600.0, "test")


def on(number, throughput, node=1, gpus=1, cores=1, memory_mib=0):
    return Configuration(number, (Share(node, gpus, cores, memory_mib),), throughput, "test")


def test_gains_of_table_1_come_from_throughputs():
    for row in TABLE_1.values():
        throughputs = [37.5 * gain for gain in row]
        assert located.gains([on(1, each) for each in throughputs]) == pytest.approx(row)


def test_table_1_is_solved_as_by_hand():
    """Config k needs k GPUs of one node of six. Weights 1, .75, .5, .25: job 1 takes three, the others one each."""
    configurations = {i: [on(i, gain, gpus=k) for k, gain in enumerate(row, 1)] for i, row in TABLE_1.items()}
    queue = [ranked(i, 5.0 - i) for i in TABLE_1]
    ledger = Ledger([node(1, 6)], (), ())
    columns = located.candidates_of(queue, configurations, located.weights(queue, 1.0))
    program = located.build(columns, ledger)
    for path in (solve_pulp, solve_arrays):
        answer = path(program, gap=0.0, time_limit_s=60, seed=1)
        chosen = {columns[k].ranked.job.id: columns[k].configuration.gpus for k in answer.chosen}
        assert chosen == {1: 3, 2: 1, 3: 1, 4: 1}
        assert answer.objective == pytest.approx(1 * 2.6 + 0.75 * 2 + 0.5 * 1.2 + 0.25 * 1)


def test_weights(subtests):
    for priors, lambda_, expected in [
        ([2.0, 1.0, 0.5], 1, [1, 0.5, 0.25]),  # all positive: no bias
        ([2.0, 1.0, 0.5], 2, [1, 0.25, 0.0625]),
        ([2.0, 1.0, 0.5], 0, [1, 1, 1]),  # lambda 0: throughput alone
        ([0.99, 0.0], 1, [1, 0.01]),  # bias = |min| + 0.01
        ([0.09, -0.1], 1, [1, 0.05]),
        ([0.0, 0.0], 1, [1, 1]),
        ([100.0, 0.001], 4, [1, 1e-6]),  # floored
        ([5000.0, 100.0], 1, [1, 0.02]),  # whoever ranks the queue caps, and LR alone
    ]:
        with subtests.test(priors=priors, lambda_=lambda_):
            queue = [ranked(number, prior) for number, prior in enumerate(priors, 1)]
            assert list(located.weights(queue, lambda_).values()) == pytest.approx(expected)


def test_what_is_added_to_all_makes_small_priorities_alike():
    queue = [ranked(1, 0.02), ranked(2, 0.0), ranked(3, 3.98)]
    assert list(located.weights(queue, 1.0, 0.02).values()) == pytest.approx([0.01, 0.005, 1.0])


def solved(configurations, queue, nodes, tenants=(), running=()):
    ledger = Ledger(nodes, tenants, running)
    columns = located.candidates_of(queue, configurations, located.weights(queue, 1.0))
    answer = solve_pulp(located.build(columns, ledger), gap=0.0, time_limit_s=60, seed=1)
    assert located.knapsack_bound(columns, ledger) >= answer.objective - 1e-9
    return {columns[k].ranked.job.id for k in answer.chosen}


@pytest.mark.parametrize("scarce", ["gpus", "cores", "memory_mib"])
def test_each_node_resource_binds(scarce):
    use = {"gpus": 1, "cores": 1, "memory_mib": 1} | {scarce: 40}
    both = {1: [on(1, 1.0, **use)], 2: [on(2, 1.0, **use)]}
    host = node(1, 60, cores=60, memory_mib=60)
    assert solved(both, [ranked(1, 2.0), ranked(2, 1.0)], [host]) == {1}


@pytest.mark.parametrize("quota", [{"gpu_quota": 3}, {"core_quota": 3}])
def test_jobs_placed_together_respect_the_tenants_quota(quota):
    both = {number: [on(number, 1.0, gpus=2, cores=2)] for number in (1, 2)}
    queue = [ranked(1, 2.0), ranked(2, 1.0)]
    assert solved(both, queue, [node(1)], [Tenant(1, **quota)]) == {1}
    assert solved(both, queue, [node(1)], [Tenant(2, **quota)]) == {1, 2}


def test_one_tenant_at_a_time_on_a_node_without_trust():
    both = {number: [on(number, 1.0)] for number in (1, 2)}
    queue = [ranked(1, 2.0), ranked(2, 1.0, tenant=2)]
    assert solved(both, queue, [node(1, single_account=True, trusts_tenants=False)]) == {1}
    assert solved(both, queue, [node(1, single_account=True)]) == {1, 2}


def test_thinning_keeps_the_extremes_and_about_as_many_as_asked():
    many = [on(1, 1.0 + k % 7, node=k, gpus=1 + k % 5) for k in range(200)]
    kept = located.thin(many, 20, offset=3)
    assert 20 <= len(kept) <= 23
    assert max(each.throughput for each in kept) == 7.0
    assert min(each.throughput for each in kept) == 1.0
    assert min(each.gpus for each in kept) == 1
    assert located.thin(many, 200, offset=3) == many


def test_where_each_may_have_its_best_no_solver_is_asked(monkeypatch):
    asked = []
    monkeypatch.setattr("scheduler.placement.solver.solve_pulp", lambda *_, **more: asked.append(more))
    made = make_plan([node(1, 8)], [job(1, 1, 2, 4), job(2, 1)])
    assert where(made) == {1: {1: 4}, 2: {1: 1}}
    assert (made.solver.status, made.solver.incumbent, made.solver.gap, asked) == ("optimal", "ilp", 0.0, [])
