"""Short spellings for clusters, queues and plans, and the invariants every plan must keep."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from scheduler.estimator.lengths import kin_of
from scheduler.model import ClusterState, Job, Node, Piece, Plan, Reason, RunHistory, Running, Sample
from scheduler.parameters import Parameters
from scheduler.planning.plan import plan
from scheduler.simulator.rivals import policy_named

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scheduler.model import LinkOrder, Placement, ProfileOrder, Promised, StopOrder

NOW_S = 1_000_000.0


def node(number, gpus=8, *, gpu_type="a100", cores=32, memory_mib=256_000, idle=None, idle_cores=None, **more):
    """A node named n<number>; `idle` and `idle_cores` count what is idle (default: everything)."""
    idle = gpus if idle is None else idle
    idle_cores = cores if idle_cores is None else idle_cores
    return Node(
        **{
            "id": number,
            "name": f"n{number}",
            "gpu_type": gpu_type if gpus else None,
            "gpus_total": gpus,
            "idle_gpus": tuple(range(gpus - idle, gpus)) if gpus >= idle >= 0 else (),
            "cores_total": cores,
            "idle_cores": tuple(range(cores - idle_cores, cores)) if cores >= idle_cores >= 0 else (),
            "memory_total_mib": memory_mib,
            "idle_memory_mib": memory_mib,
        }
        | more
    )


def job(number, *requirement, tenant=1, wait_s=60.0, age_s=600.0, cores=1, **more):
    """A job of `requirement` GPUs (none = a CPU job), submitted in the order of its number. Its age was declared, where it has one."""
    return Job(
        **{
            "id": number,
            "tenant": tenant,
            "requirement": requirement or (0,),
            "submitted_s": float(number),
            "wait_s": wait_s,
            "age_s": age_s,
            "expected_duration_s": age_s,
            "cores": cores,
        }
        | more
    )


def running(number, tenant, node, gpus=0, cores=0):
    """A live attempt; the ids it holds do not matter for quotas and figures."""
    return Running(number, tenant, (Piece(node, tuple(range(gpus)), tuple(range(cores)), 0),))


def ticking(step_s=0.0):
    """A clock that moves `step_s` at each reading."""
    readings = count()
    return lambda: next(readings) * step_s


def make_plan(nodes, jobs, *, seed=1, clock=None, now_s=NOW_S, running=(), tenants=(), gpu_speeds=None, **parameters):
    """A plan with the given knobs (`lambda_` for lambda), its invariants checked. `replan`: as for `plan`.

    The policy, a rival's too, is hops where none is given: one queue and one solve, so that a test looks at one thing.
    """
    policy = policy_named(parameters.pop("policy", "hops"))
    replan = parameters.pop("replan", False)
    state = ClusterState(nodes, jobs, running, tenants, gpu_speeds or {}, parameters.pop("ended", ()))
    given = {
        name: parameters.pop(name)
        for name in ("history", "knowledge", "profiles_tried", "replanned_s", "uses", "pairs")
        if name in parameters
    }
    state = replace(state, **given)
    knobs = Parameters.from_mapping({name.rstrip("_"): value for name, value in parameters.items()})
    knobs = replace(knobs, policy=policy.name)
    made = plan(state, now_s, knobs, np.random.default_rng(seed), clock or ticking(), replan=replan, policy=policy)
    check_invariants(made, state)
    return made


def check_invariants(made: Plan, state: ClusterState) -> None:
    """What `check_feasible` checks, and that the plan is JSON, details included."""
    made.as_json()
    check_feasible(made, state)


def check_feasible(made: Plan, state: ClusterState) -> None:
    """Feasible node by node, distinct GPUs and cores, one accepted size a job, quotas, one decision a job."""
    assert Counter(decision.job for decision in made.decisions) == Counter(job.id for job in state.jobs)
    check_orders(made, state)
    assert {decisions_of(made)[order.job].reason for order in made.profiles} <= {Reason.PROFILING}
    for decision in made.decisions:
        assert (decision.placement is None) == (decision.reason is not None)


class Orders(NamedTuple):
    """What a planning lets happen, of what it decided."""

    placements: Sequence[Placement]
    profiles: Sequence[ProfileOrder]
    probes: Sequence[LinkOrder]
    stops: Sequence[StopOrder]
    promises: Sequence[Promised]

    @staticmethod
    def of(decided):
        draft, measuring = decided.outcome.draft, decided.measuring
        placements = [each.placement for each in draft.chosen.values()]
        return Orders(placements, measuring.profiles.orders, measuring.probes, draft.stops, draft.promises)


def check_orders(made: Plan | Orders, state: ClusterState) -> None:
    """Feasible node by node, distinct GPUs and cores, one accepted size a job, quotas."""
    jobs, nodes = {job.id: job for job in state.jobs}, {node.id: node for node in state.nodes}
    gpus, cores, memory = Counter(), Counter(), Counter()
    assert len({placement.job for placement in made.placements}) == len(made.placements)
    for order in made.profiles:
        assert len(order.piece.gpus) == 1
        _count(order.piece, nodes[order.piece.node], gpus, cores, memory)
    for order in made.probes:
        for piece in order.pieces:
            _count(piece, nodes[piece.node], gpus, cores, memory)
    for placement in made.placements:
        asked = jobs[placement.job]
        assert placement.gpus in asked.requirement
        assert placement.cores >= asked.min_cores
        assert sum(piece.memory_mib for piece in placement.pieces) >= asked.memory_mib
        for piece in placement.pieces:
            host = nodes[piece.node]
            assert host.schedulable
            assert not asked.gpu_types or asked.is_cpu or host.gpu_type in asked.gpu_types
            assert asked.checkpoint_domain in {None, host.domain}
            assert not asked.software or asked.software in host.offers
            _count(piece, host, gpus, cores, memory)
    assert all(times == 1 for times in (gpus | cores).values())
    assert all(used <= nodes[number].idle_memory_mib for number, used in memory.items())
    _check_tenants(made, state, jobs)
    _check_promises(made, state)


def _count(piece, host, gpus, cores, memory):
    assert host.schedulable
    gpus.update((piece.node, index) for index in piece.gpus)
    cores.update((piece.node, core) for core in piece.cores)
    memory[piece.node] += piece.memory_mib
    assert set(piece.gpus) <= set(host.idle_gpus)
    assert set(piece.cores) <= set(host.idle_cores)


def _check_promises(made, state):
    """What stops free and is idle holds all starts and promises; only who runs is stopped, and only once."""
    live = {each.job: each for each in state.running}
    assert len({order.job for order in made.stops}) == len(made.stops)
    assert len({given.job for given in made.promises}) == len(made.promises)
    assert not made.promises or made.stops
    room = Counter()
    for host in state.nodes:
        room.update({(host.id, "gpus"): len(host.idle_gpus), (host.id, "cores"): len(host.idle_cores)})
    stopped = [live[order.job] for order in made.stops] + [each for each in state.running if each.stopping]
    for piece in (piece for each in stopped for piece in each.pieces):
        room.update({(piece.node, "gpus"): len(piece.gpus), (piece.node, "cores"): len(piece.cores)})
    for placement in made.placements:
        for piece in placement.pieces:
            room.subtract({(piece.node, "gpus"): len(piece.gpus), (piece.node, "cores"): len(piece.cores)})
    for order in made.profiles:
        room.subtract({(order.piece.node, "gpus"): 1, (order.piece.node, "cores"): len(order.piece.cores)})
    for share in (share for given in made.promises for share in given.shares):
        room.subtract({(share.node, "gpus"): share.gpus, (share.node, "cores"): share.cores})
    assert all(left >= 0 for left in room.values())


def _check_tenants(made, state, jobs):
    held, there = Counter(), {node.id: set(node.tenants) for node in state.nodes}
    for live in state.running:
        held[live.tenant, "gpus"] += live.gpu_units
        held[live.tenant, "cores"] += sum(len(piece.cores) for piece in live.pieces)
    before = held.copy()
    for placement in made.placements:
        tenant = jobs[placement.job].tenant
        held[tenant, "gpus"] += sum(piece.gpu_units for piece in placement.pieces)
        held[tenant, "cores"] += placement.cores
        for piece in placement.pieces:
            there[piece.node].add(tenant)
    for order in made.profiles:
        tenant = jobs[order.job].tenant
        held.update({(tenant, "gpus"): 1, (tenant, "cores"): len(order.piece.cores)})
        there[order.piece.node].add(tenant)
    for tenant in state.tenants:
        for what, quota in (("gpus", tenant.gpu_quota), ("cores", tenant.core_quota)):
            assert quota is None or round(held[tenant.id, what], 3) <= max(quota, before[tenant.id, what])
    for host in state.nodes:
        assert not host.exclusive_tenant or there[host.id] == set(host.tenants) or len(there[host.id]) == 1


def decisions_of(made):
    return {decision.job: decision for decision in made.decisions}


def where(made):
    """{job: {node: GPUs}} of what was placed."""
    return {p.job: {piece.node: len(piece.gpus) for piece in p.pieces} for p in made.placements}


def why(made):
    """{job: reason} of what was not."""
    return {decision.job: str(decision.reason) for decision in made.decisions if decision.reason}


def past_of(*runs, told=None):
    """The past of ended jobs. `runs`: seconds, tenant, category, and label and GPUs where they matter; `told`: tenant -> ratios."""
    like = {}
    for took_s, tenant, category, label, gpus in ((*run, None, 1)[:5] for run in runs):
        for kin, _ in kin_of(tenant, tenant, category, label, gpus):
            like.setdefault(kin, []).append(took_s)
    records = {owner: Sample(ratios) for owner, ratios in (told or {}).items()}
    return RunHistory(records, {kin: Sample(values) for kin, values in like.items()})
