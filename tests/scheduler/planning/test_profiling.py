"""Profiles first (Hops 3.2; algorithms.md sections 2 and 7, step 2)."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from scheduler.model import ClusterState, Piece, Profiled, Promise, Running, Share, Tenant
from scheduler.model.speeds import Cell, CellKey, Knowledge, Profile
from scheduler.parameters import Parameters
from scheduler.planning.plan import plan
from scheduler.planning.profiling import budget
from scheduler.policies.registry import POLICIES
from tests.scheduler.builders import (
    NOW_S,
    check_feasible,
    decisions_of,
    job,
    make_plan,
    node,
    running,
    ticking,
    where,
    why,
)


def elastic(number, *requirement, **more):
    """An instrumented elastic job that has never started; its age is the last resort's hour."""
    return job(number, *(requirement or (1, 2)), **{"age_s": None, "instrumented": True, **more})


def profile_of(job, node, gpu_type="a100", *, began_s=NOW_S, number=-1, signature=None, tenant=1, index=0):
    """A live profile, which ends sixty seconds after it began."""
    measured = Profiled(job, signature or f"job:{job}", gpu_type, began_s + 60)
    piece = Piece(node, (index,), (index,), 0)
    return Running(number, tenant, (piece,), began_s, (1,), expected_end_s=began_s + 60, profiled=measured)


def profiled(made):
    """[(job, GPU type, node), ...] of the profiles that begin."""
    return [(order.job, order.gpu_type, order.piece.node) for order in made.profiles]


class TestNotProfiled:
    """Does nothing."""

    @pytest.mark.parametrize(
        "given",
        [
            {"instrumented": False},
            {"requirement": (2,)},
            {"requirement": (0,)},
            {"age_s": 600.0},
            {"eligible": False},
            {"wait_s": 3600.0},
            {"profiled_since_s": NOW_S - 56},
        ],
        ids=[
            "not instrumented",
            "rigid",
            "CPU job",
            "started before",
            "not eligible",
            "waits too long",
            "time is over",
        ],
    )
    def test_section_2_only_instrumented_elastic_jobs_before_their_first_start(self, given):
        made = make_plan([node(1)], [replace(elastic(1), **given)])
        assert made.profiles == ()
        assert "profiling" not in why(made).values()

    def test_a_known_type_is_not_measured_again(self):
        modelled = Knowledge(profiles={("tenant:1:m", "a100"): Profile(0.1)})
        measured = Knowledge(cells={CellKey("tenant:1:m", "a100", gpus=4): Cell(3, 10.0, 0.0)})
        for knowledge in (modelled, measured):
            assert make_plan([node(1)], [elastic(1, model_label="m")], knowledge=knowledge).profiles == ()

    def test_nor_one_on_which_it_was_tried_lately(self):
        made = make_plan([node(1)], [elastic(1)], profiles_tried=frozenset({("job:1", "a100")}))
        assert made.profiles == ()
        assert where(made)

    def test_policies_that_know_no_speeds_profile_nothing(self):
        fixed = [name for name, policy in POLICIES.items() if not policy.replans]
        assert all(make_plan([node(1)], [elastic(1)], policy=name).profiles == () for name in fixed)

    def test_the_operator_may_switch_it_off(self):
        assert make_plan([node(1)], [elastic(1)], profile_share=0).profiles == ()

    def test_section_2_a_job_is_not_delayed_when_no_gpu_is_free_for_its_profile(self):
        live = [profile_of(7, 1, number=-1, tenant=2)]
        made = make_plan([node(1, 4, idle=3)], [elastic(1)], running=live)
        assert (made.profiles, where(made)) == ((), {1: {1: 2}})

    def test_the_last_idle_gpu_is_left_to_who_waits_for_it(self):
        assert where(make_plan([node(1, 4, idle=1)], [elastic(1)])) == {1: {1: 1}}


class TestProfiled:
    """Who is measured, and where."""

    def test_section_7_the_job_waits_for_its_profile_with_its_rank_and_its_waiting_counts(self):
        made = make_plan([node(1)], [elastic(1), job(2, 1)])
        decision = decisions_of(made)[1]
        assert profiled(made) == [(1, "a100", 1)]
        assert (str(decision.reason), decision.eligible, decision.rank) == ("profiling", True, 2)
        assert decision.figures == {"on": [{"gpu_type": "a100", "node": "n1"}], "left_s": 60.0, "limit_s": 60.0}
        assert where(made) == {2: {1: 1}}
        assert made.metrics.fragments_cores + made.metrics.fragments_scattered == 0

    def test_section_2_one_gpu_of_each_type_that_is_free_the_commonest_first(self):
        nodes = [node(1, 4, gpu_type="v100"), node(2, 8), node(3, 8), node(4, 4, idle=0, gpu_type="t4")]
        jobs = [elastic(1), elastic(2, gpu_types=frozenset({"v100"}))]
        assert profiled(make_plan(nodes, jobs, profile_share=0.15)) == [(1, "a100", 2), (1, "v100", 1), (2, "v100", 1)]
        assert profiled(make_plan(nodes, jobs)) == [(1, "a100", 2), (1, "v100", 1)]

    def test_on_the_node_with_the_fewest_idle_gpus_that_has_room_for_it(self):
        nodes = [
            node(1, 8),
            node(2, 8, idle=3),
            node(3, 8, idle=2, idle_memory_mib=10),
            node(4, 8, idle=1, idle_cores=0),
        ]
        assert profiled(make_plan(nodes, [elastic(1, memory_mib=1000)])) == [(1, "a100", 2)]

    def test_no_more_cores_than_the_job_wants_per_gpu(self):
        (order,) = make_plan([node(1, 8, idle_cores=3)], [elastic(1, cores=8)]).profiles
        assert len(order.piece.cores) == 3

    def test_a_signature_is_measured_once_at_a_time_on_a_type(self):
        twins = [elastic(n, model_label="m") for n in (1, 2)]
        made = make_plan([node(1), node(2), node(3)], twins)
        assert profiled(made) == [(1, "a100", 1)]
        assert set(where(made)) == {2}

    def test_tenants_take_turns(self):
        jobs = [elastic(n, tenant=1 if n < 4 else 2, wait_s=100.0 - n) for n in range(1, 6)]
        made = make_plan([node(n) for n in range(1, 6)], jobs)
        assert [job for job, _, _ in profiled(made)] == [1, 4, 2, 5]
        live = [profile_of(9, 1, tenant=1)]
        made = make_plan([node(1, 8, idle=7), *(node(n) for n in range(2, 5))], jobs, running=live)
        assert [job for job, _, _ in profiled(made)] == [4, 1]

    def test_the_time_of_a_later_profile_is_what_is_left_of_the_jobs_minute(self):
        (order,) = make_plan([node(1)], [elastic(1, profiled_since_s=NOW_S - 40)]).profiles
        assert order.limit_s == 20


class TestWhileItRuns:
    """A live profile."""

    def test_section_7_the_job_is_not_placed_and_others_are(self):
        made = make_plan(
            [node(1, 4, idle=3)],
            [elastic(1, profiled_since_s=NOW_S - 10), job(2, 1)],
            running=[profile_of(1, 1, began_s=NOW_S - 10)],
        )
        assert (why(made), where(made)) == ({1: "profiling"}, {2: {1: 1}})
        assert decisions_of(made)[1].figures["left_s"] == 50

    def test_section_7_after_a_minute_it_is_placeable_whatever_came(self):
        late = NOW_S - 60
        made = make_plan(
            [node(1, 4, idle=3)], [elastic(1, profiled_since_s=late)], running=[profile_of(1, 1, began_s=late)]
        )
        assert where(made) == {1: {1: 2}}

    def test_what_it_holds_counts_in_its_tenants_quota(self):
        live = [profile_of(7, 1)]
        made = make_plan([node(1, 4, idle=3)], [job(1, 3)], running=live, tenants=[Tenant(1, gpu_quota=3)])
        assert why(made) == {1: "tenant-quota"}

    @pytest.mark.parametrize("begun", [False, True], ids=["begins", "runs"])
    def test_section_4_it_stands_in_the_queue_of_its_own_array(self, begun):
        live = [profile_of(1, 3, number=-1), profile_of(2, 4, number=-2, tenant=2)] if begun else []
        nodes = [node(n, 8, idle=7 if begun and n > 2 else 8) for n in range(1, 5)]
        made = make_plan(
            nodes, [elastic(1, 4, 8), elastic(2, 1, 2, tenant=2)], running=live, policy="berth", arrays="on"
        )
        assert why(made) == {1: "profiling", 2: "profiling"}
        arrays = {number: decision.standing.array for number, decision in decisions_of(made).items()}
        assert arrays == {1: "gpu-large", 2: "gpu-small"}

    def test_a_held_job_keeps_its_own_reason(self):
        made = make_plan([node(1, 4, idle=3)], [elastic(1, eligible=False)], running=[profile_of(1, 1)])
        assert why(made) == {1: "held"}


class TestOthersClaims:
    """What a profile must not take."""

    def test_the_quota_has_to_admit_the_jobs_smallest_size_beside_it(self):
        tenants = [Tenant(1, gpu_quota=2)]
        assert profiled(make_plan([node(1)], [elastic(1)], tenants=tenants))
        assert not profiled(make_plan([node(1)], [elastic(1, 2, 4)], tenants=tenants))
        assert not profiled(make_plan([node(1)], [elastic(1, cores=8)], tenants=[Tenant(1, core_quota=8)]))

    def test_what_is_promised(self):
        promise = Promise((Share(1, 8, 8, 0),), NOW_S - 1, "resize")
        stopping = replace(running(8, 1, 2, 8, 8), stopping=True)
        other = job(2, 16, promise=replace(promise, shares=(Share(1, 8, 8, 0), Share(2, 8, 8, 0))))
        made = make_plan([node(1), node(2, idle=0)], [elastic(1), other], running=[stopping])
        assert (made.profiles, where(made)) == ((), {})

    def test_nodes_of_an_untrusting_tenant(self):
        strict = {"single_account": True, "trusts_tenants": False}
        nodes = [node(1, 4, **strict, tenants=frozenset({2})), node(2, 8, **strict)]
        assert profiled(make_plan(nodes, [elastic(1)])) == [(1, "a100", 2)]

    def test_section_4_types_that_a_job_waits_for_whose_turn_may_reserve_them(self):
        starved = job(2, 4, wait_s=600.0, gpu_types=frozenset({"a100"}))
        nodes = [node(1, 4, idle=2), node(2, 4, idle=0), node(3, 4, gpu_type="v100"), node(4, 4, gpu_type="v100")]
        jobs = [elastic(1), starved]
        assert profiled(make_plan(nodes, jobs, policy="berth", arrays="off")) == [(1, "v100", 3)]
        assert profiled(make_plan(nodes, jobs, policy="berth", arrays="off", reserve_lr=None)) == [(1, "a100", 1)]


def test_section_2_never_over_a_tenth_of_the_idle_gpus_but_one_where_two_are_idle():
    assert [budget(idle, 0, 0.1) for idle in (0, 1, 2, 19, 20, 39, 100)] == [0, 0, 1, 1, 2, 3, 10]
    assert [budget(idle, 1, 0.1) for idle in (0, 1, 18, 19)] == [0, 0, 0, 1]
    assert budget(3, 0, 1.0) == 3


def test_sections_2_and_7_on_random_clusters(subtests):
    """Never over the share or a quota, once a signature and type, on idle GPUs alone; who is not profiled may be placed."""
    for seed in range(12):
        with subtests.test(seed=seed):
            rng = np.random.default_rng(seed)
            nodes = [
                node(
                    n,
                    8,
                    idle=int(rng.integers(0, 9)),
                    idle_cores=int(rng.integers(0, 33)),
                    gpu_type=("a100", "v100")[n % 2],
                )
                for n in range(1, 7)
            ]
            jobs = [
                (elastic if rng.random() < 0.7 else job)(
                    n,
                    1,
                    2,
                    tenant=n % 3,
                    cores=int(rng.integers(1, 9)),
                    model_label=(None, "a", "b")[int(rng.integers(3))],
                )
                for n in range(1, 11)
            ]
            tenants = [Tenant(1, gpu_quota=int(rng.integers(0, 8))), Tenant(2, core_quota=int(rng.integers(0, 16)))]
            state = ClusterState(nodes, jobs, tenants=tenants)
            knobs = Parameters(policy=("berth", "hops")[seed % 2], placement="greedy")
            made = plan(state, NOW_S, knobs, rng, ticking())
            check_feasible(made, state)
            idle = sum(len(each.idle_gpus) for each in nodes)
            assert 0 < len(made.profiles) <= max(1, idle // 10)
            assert max(Counter((order.signature, order.gpu_type) for order in made.profiles).values()) == 1
            waiting = {decision.job for decision in made.decisions if str(decision.reason) == "profiling"}
            assert waiting == {order.job for order in made.profiles}
            without = plan(state, NOW_S, replace(knobs, profile_share=0.0), rng, ticking())
            assert len(made.placements) >= len(without.placements) - 2 * len(waiting), (
                "itself, and one for its GPU and cores"
            )
