"""Jobs on shared GPUs: a step of its own, by the order of fairness, the sharing policy and the prices of gaps (section 11)."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.explaining.phrases import waiting_words
from scheduler.model import GpuPart, HeldPart, Holder, PairSeen, PartedGpu, Piece, Reason, Result, Running, Tenant
from tests.scheduler.builders import decisions_of, job, make_plan, node

GIB = 1024


def small(number, compute=250, gib=2, **more):
    """A job that asks for a part of a GPU."""
    part = {name: more.pop(name) for name in ("harvest", "critical", "apart_from") if name in more}
    return job(number, 1, part=GpuPart(compute, gib * GIB, **part), **more)


def shared(index=0, *holders, gib=16, **more):
    return PartedGpu(index, gib * GIB, tuple(holders), **more)


def holder(number, compute=250, gib=2, tenant=1, signature="", **more):
    return Holder(number, tenant, signature or f"job:{number}", compute, gib * GIB, **more)


def host(number, *gpus, whole=0, **more):
    gpu_type = more.pop("gpu_type", "a100")
    return replace(node(number, whole, **more), shared=gpus, gpu_type=gpu_type)


def running_part(held, on, gpu=0, tenant=1):
    """The live attempt of a holder."""
    piece = Piece(on, (), (), 0, HeldPart(gpu, held.compute, held.memory_mib))
    return Running(held.job, tenant, (piece,), requirement=(1,))


def part_of(made, number):
    (piece,) = decisions_of(made)[number].placement.pieces
    return piece.node, piece.part.gpu


def test_two_jobs_share_a_gpu_and_hold_no_whole_one():
    made = make_plan([host(1, shared())], [small(1), small(2, tenant=2)])
    assert [part_of(made, number) for number in (1, 2)] == [(1, 0), (1, 0)]
    (piece,) = decisions_of(made)[1].placement.pieces
    assert (piece.gpus, piece.part, len(piece.cores)) == ((), HeldPart(0, 250, 2 * GIB), 1)


def test_a_gpu_is_never_given_out_beyond_its_compute_or_its_memory():
    made = make_plan([host(1, shared())], [small(n, compute=400) for n in (1, 2, 3)])
    assert [decisions_of(made)[n].result for n in (1, 2, 3)] == [Result.PLACED, Result.PLACED, Result.WAITING]
    why = decisions_of(made)[3]
    assert why.reason is Reason.NO_SHARED_GPU
    assert why.figures["shared"] == {"policy": "res-ag", "gpus": 1, "closed": {"compute": 1}}
    made = make_plan([host(1, shared())], [small(n, compute=100, gib=6) for n in (1, 2, 3)])
    assert decisions_of(made)[3].figures["shared"]["closed"] == {"memory": 1}


def test_what_runs_there_counts():
    held = holder(9, compute=700)
    made = make_plan(
        [host(1, shared(0, held), shared(1, gib=1))], [small(1, compute=400)], running=[running_part(held, 1)]
    )
    assert decisions_of(made)[1].figures["shared"]["closed"] == {"compute": 1, "memory": 1}


def test_a_job_that_shares_takes_no_whole_gpu_and_another_no_shared_one():
    nodes = [host(1, shared(0), whole=1, idle=1)]
    nodes = [replace(nodes[0], idle_gpus=(1,))]
    made = make_plan(nodes, [small(1, compute=900), small(2, compute=900), job(3, 1), job(4, 1)])
    found = decisions_of(made)
    assert part_of(made, 1) == (1, 0)
    assert found[2].reason is Reason.NO_SHARED_GPU
    assert found[3].placement.pieces[0].gpus == (1,)
    assert found[4].result is Result.WAITING


def test_no_gpu_idles_beside_a_job_that_waits_for_a_shared_one():
    made = make_plan([host(1, shared(0, gib=1), whole=1, idle=1)], [small(1)], policy="berth")
    assert made.metrics.idle_beside_fitting == 0
    assert made.metrics.fragment_rate == 0
    assert not made.window_ran_out


@pytest.mark.parametrize("policy", ["off", "res-ag", "cbp", "cbp-pp"])
def test_off_starts_nobody_and_every_policy_starts_who_would_be_alone(policy):
    made = make_plan([host(1, shared())], [small(1)], sharing_policy=policy)
    assert (decisions_of(made)[1].result is Result.PLACED) == (policy != "off")


def test_cbp_keeps_apart_those_never_seen_to_run_and_says_so():
    made = make_plan([host(1, shared())], [small(1), small(2)], sharing_policy="cbp")
    assert decisions_of(made)[2].figures["shared"]["closed"] == {"unknown": 1}


def test_cbp_lets_those_join_whose_use_does_not_rise_together_and_grants_what_was_used():
    rising, falling = np.linspace(0, 1, 16), np.linspace(1, 0, 16)
    uses = {
        f"tenant:1:{name}": {"memory_mib": shape * 4 * GIB, "gpu": shape, "pcie_mb_s": shape}
        for name, shape in (("up", rising), ("down", falling))
    }
    jobs = [
        small(n, gib=8, model_label=label, harvest=True, compute=100)
        for n, label in ((1, "up"), (2, "up"), (3, "down"))
    ]
    made = make_plan([host(1, shared(gib=32))], jobs, uses=uses, sharing_policy="cbp")
    found = decisions_of(made)
    assert found[2].figures["shared"]["closed"] == {"correlated": 1}
    told = found[3].figures["shared"]
    assert (told["rule"], told["correlation"], told["beside_own"]) == ("uncorrelated", -1.0, [1])
    assert told["memory_mib"] == int(np.ceil(np.percentile(falling * 4 * GIB, 80)))


@pytest.mark.parametrize("policy", ["cbp", "cbp-pp"])
def test_more_jobs_join_than_there_are_kinds_of_them(policy):
    """Eight of two kinds, by twos on four GPUs: each of them is looked at beside all who joined before."""
    jobs = [small(n, gib=8, model_label=("up", "down")[n % 2], compute=100) for n in range(1, 9)]
    uses = {"tenant:1:up": used(4), "tenant:1:down": {name: each[::-1] for name, each in used(4).items()}}
    made = make_plan([host(1, *map(shared, range(4)))], jobs, uses=uses, sharing_policy=policy)
    assert Counter(part_of(made, n) for n in range(1, 9)) == {(1, gpu): 2 for gpu in range(4)}


def test_the_tenant_with_the_smallest_share_is_next_and_parts_count_in_thousandths():
    held = [holder(90 + n, compute=100, tenant=1) for n in range(5)]
    jobs = [small(1, compute=500, tenant=1), small(2, compute=500, tenant=2)]
    live = [running_part(each, 1) for each in held]
    made = make_plan([host(1, shared(0, *held))], jobs, policy="berth", running=live)
    assert [decisions_of(made)[n].result for n in (1, 2)] == [Result.WAITING, Result.PLACED]
    (share,) = made.shares
    assert (share.tenant, share.held, share.capacity) == (1, 0.5, 1)


def test_ten_tenths_fit_a_quota_of_one_gpu():
    jobs = [small(n, compute=100, gib=1) for n in range(1, 12)]
    made = make_plan([host(1, shared(0), shared(1))], jobs, tenants=[Tenant(1, gpu_quota=1)])
    waiting = [each for each in made.decisions if each.result is Result.WAITING]
    assert [(each.job, each.reason, each.eligible) for each in waiting] == [(11, Reason.TENANT_QUOTA, False)]


def test_the_price_of_a_gap_decides_where_the_policy_does_not():
    held = holder(9, compute=700)
    nodes = [host(1, shared(0)), host(2, shared(0, held))]
    made = make_plan(nodes, [small(1, compute=300)], running=[running_part(held, 2)], sharing_slowdown=None)
    assert part_of(made, 1) == (2, 0)
    made = make_plan(nodes, [small(1, compute=300)], running=[running_part(held, 2)])
    assert part_of(made, 1) == (1, 0), "strangers: the idle GPU first, whatever the gap is worth"


def test_types_cores_and_memory_of_the_node_count():
    nodes = [host(1, shared(), gpu_type="v100"), host(2, shared(), idle_cores=0)]
    made = make_plan(nodes, [small(1, gpu_types=frozenset({"a100"}))])
    assert decisions_of(made)[1].figures["shared"]["closed"] == {"barred": 1, "node": 1}
    assert decisions_of(make_plan([*nodes, host(3, shared())], [small(1, gpu_types=frozenset({"a100"}))]))[1].placement


def test_a_closed_gpu_gets_nobody_and_a_node_that_is_away_neither():
    nodes = [host(1, shared(open=False)), host(2, shared(), schedulable=False)]
    assert decisions_of(make_plan(nodes, [small(1)]))[1].figures["shared"]["gpus"] == 0


def test_a_shared_gpu_counts_once_in_the_active_rate():
    held = [holder(8), holder(9)]
    made = make_plan([host(1, shared(0, *held), shared(1))], [], running=[running_part(each, 1) for each in held])
    metrics = made.metrics
    assert (metrics.gpus_total, metrics.gpus_allocated, metrics.gpus_idle, metrics.gpus_for_sharing) == (2, 1, 0, 1)
    assert metrics.gpu_active_rate == 0.5


def test_a_job_is_not_put_beside_those_with_whom_it_ran_out_of_memory():
    held = holder(9, signature="tenant:1:greedy")
    made = make_plan(
        [host(1, shared(0, held))],
        [small(1, apart_from=frozenset({"tenant:1:greedy"}))],
        running=[running_part(held, 1)],
    )
    assert decisions_of(made)[1].figures["shared"]["closed"] == {"apart": 1}


def test_of_those_there_only_the_tenants_own_are_named():
    held = [holder(8, tenant=1), holder(9, tenant=2)]
    live = [running_part(each, 1, tenant=each.tenant) for each in held]
    made = make_plan([host(1, shared(0, *held))], [small(1)], running=live)
    told = decisions_of(made)[1].figures["shared"]
    assert (told["beside_own"], told["beside_others"]) == ([8], 1)


def test_a_tenant_with_thousands_of_kinds_does_not_keep_others_from_their_turn(monkeypatch):
    monkeypatch.setattr("scheduler.planning.shared_gpus.KINDS", 4)
    monkeypatch.setattr("scheduler.planning.shared_gpus.LEAST_KINDS", 1)
    jobs = [small(n, compute=1000 - n, wait_s=900.0) for n in range(1, 9)] + [small(20, tenant=2, wait_s=1.0)]
    made = make_plan([host(1, shared(0), shared(1), shared(2))], jobs, policy="berth")
    found = decisions_of(made)
    assert found[20].result is Result.PLACED
    assert found[8].reason is Reason.NOT_PLANNED_YET


HELD = st.lists(st.tuples(st.integers(50, 400), st.integers(1, 6)), max_size=2)
ASKED = st.lists(st.tuples(st.integers(50, 1000), st.integers(1, 16), st.integers(1, 3), st.booleans()), max_size=12)


@settings(deadline=None)
@given(st.lists(HELD, min_size=1, max_size=4), ASKED, st.sampled_from(["res-ag", "cbp", "cbp-pp"]), st.integers(0, 12))
def test_no_ledger_is_ever_beyond_what_there_is(held, asked, policy, cores):
    """Whatever is asked: thousandths, GPU memory, cores and memory of the node hold, and the same plan comes twice."""
    numbers = iter(range(1000, 2000))
    gpus = [
        shared(index, *(holder(next(numbers), compute, gib) for compute, gib in own)) for index, own in enumerate(held)
    ]
    live = [running_part(each, 1, gpu.index) for gpu in gpus for each in gpu.holders]
    jobs = [
        small(n, compute, gib, tenant=tenant, memory_mib=40_000 if large else 0)
        for n, (compute, gib, tenant, large) in enumerate(asked, start=1)
    ]
    given_nodes = [host(1, *gpus, idle_cores=cores, cores=12)]
    made = make_plan(given_nodes, jobs, running=live, sharing_policy=policy, policy="berth")
    compute, memory = Counter(), Counter()
    for gpu in gpus:
        compute[gpu.index] = sum(each.compute for each in gpu.holders)
        memory[gpu.index] = sum(each.memory_mib for each in gpu.holders)
    for placement in made.placements:
        part = placement.pieces[0].part
        compute[part.gpu] += part.compute
        memory[part.gpu] += part.memory_mib
    assert all(each <= 1000 for each in compute.values())
    assert all(each <= 16 * GIB for each in memory.values())
    again = make_plan(given_nodes, jobs, running=live, sharing_policy=policy, policy="berth")
    assert made.placements == again.placements


def test_a_quota_of_cores_leaves_it_fewer_than_it_wants():
    made = make_plan([host(1, shared())], [small(1, cores=4)], tenants=[Tenant(1, core_quota=2)])
    assert len(decisions_of(made)[1].placement.pieces[0].cores) == 2


@pytest.mark.parametrize("compute", [300, 150, 350])
def test_gpus_in_use_are_filled_before_another_is_opened(compute):
    """Gaps that are worth as much are equal, though prices are rounded: a third three times is one."""
    numbers = range(1, 1000 // compute + 1)
    given_nodes, jobs = [host(1, shared(0), shared(1))], [small(n, compute, 1) for n in numbers]
    made = make_plan(given_nodes, jobs, sharing_slowdown=None)
    assert len({part_of(made, n) for n in numbers}) == 1
    uses = {f"job:{n}": used(1) for n in numbers}
    made = make_plan(given_nodes, jobs, uses=uses)
    assert len({part_of(made, n) for n in numbers}) == 1, "they are known: what they use slows nobody"
    assert len({part_of(make_plan(given_nodes, jobs), n) for n in numbers}) == 2, "strangers"


@pytest.mark.parametrize("policy", ["res-ag", "cbp", "cbp-pp", "dqn"])
def test_a_pair_that_was_measured_to_be_bad_waits_and_is_told_why(policy):
    held = holder(9, signature="tenant:1:there")
    pairs = {("tenant:1:own", "tenant:1:there", "a100"): PairSeen(1.31, 9)}
    given_nodes, live = [host(1, shared(0, held))], [running_part(held, 1)]
    made = make_plan(given_nodes, [small(1, model_label="own")], running=live, pairs=pairs, sharing_policy=policy)
    why = decisions_of(made)[1]
    assert why.figures["shared"]["closed"] == {"slowed": 1}
    assert "were measured to slow each other more than the operator accepts" in waiting_words(why.figures)


def used(top_gib):
    """What a model's last run used: this much memory at most, and the GPU for a tenth of the time."""
    rising = np.linspace(0, 1, 16)
    return {"memory_mib": rising * top_gib * GIB, "gpu": np.full(16, 0.1), "pcie_mb_s": np.ones(16)}


def with_residents(*residents, policy="cbp", gib=9):
    """One that falls as those there rise asks for `gib` of 16 GiB, and no run of it may be harvested."""
    uses = {"tenant:1:r": used(5), "tenant:1:new": {name: each[::-1] for name, each in used(9).items()}}
    asks = small(1, gib=gib, model_label="new", compute=100)
    return make_plan([host(1, shared(0, *residents))], [asks], uses=uses, sharing_policy=policy)


def surplus(number, gib, **more):
    return holder(number, gib=gib, compute=100, signature="tenant:1:r", **{"harvest": True, "used_mib": 1.0, **more})


def test_running_jobs_give_back_what_another_needs_and_no_more_the_largest_surplus_first():
    """Either keeps 4 GiB, the 80th percentile of 5. 16 - 6 - 7 = 3 are free: of 6, 3 are missing; of 8, 5; of 9, 6 that nobody has."""
    made = with_residents(surplus(8, 6), surplus(9, 7), gib=6)
    assert part_of(made, 1) == (1, 0)
    assert [(each.job, each.memory_mib) for each in made.harvests] == [(9, 4 * GIB)]
    assert decisions_of(made)[1].figures["shared"]["harvested"] == 1
    made = with_residents(surplus(8, 6), surplus(9, 7), gib=8)
    assert [(each.job, each.memory_mib) for each in made.harvests] == [(9, 4 * GIB), (8, 4 * GIB)]
    assert decisions_of(with_residents(surplus(8, 6), surplus(9, 7), gib=9))[1].figures["shared"]["closed"] == {
        "memory": 1
    }


def test_who_fits_anyway_takes_nothing_from_anybody():
    made = with_residents(surplus(8, 6), surplus(9, 7), gib=3)
    assert part_of(made, 1) == (1, 0)
    assert (made.harvests, "harvested" in decisions_of(made)[1].figures["shared"]) == ((), False)


@pytest.mark.parametrize(
    ("resident", "policy"),
    [
        (surplus(8, 12, harvest=False), "cbp"),  # it is waited for, may not run again, or was ended for memory before
        (surplus(8, 12), "res-ag"),
        (surplus(8, 12, used_mib=8.0 * GIB), "cbp"),  # it uses more than its like did
        (holder(8, gib=12, compute=100, harvest=True, used_mib=1.0), "cbp-pp"),  # no run of its like was seen
    ],
)
def test_who_may_not_be_harvested_keeps_all_that_it_was_granted(resident, policy):
    made = with_residents(resident, policy=policy)
    assert made.harvests == ()
    assert "memory" in decisions_of(made)[1].figures["shared"]["closed"]
