"""One numbering: the place in a sentence and every other number there, counted anew from the snapshot and the plan."""

import re
from collections import defaultdict
from dataclasses import replace

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scheduler.explaining.places import QUEUES, UNDIVIDED
from scheduler.explaining.sentences import sentence
from scheduler.fairness.arrays import divide
from scheduler.model import ArrayHistory, Promise, Reason, Share, Tenant
from scheduler.policies.registry import POLICIES
from tests.scheduler.builders import NOW_S, decisions_of, job, make_plan, node, running

EVERY = (*POLICIES, "berth-undivided")
NUMBER = re.compile(r"(?<![\w-])\d+(?![\w-])")


@st.composite
def snapshots(draw):
    """Nodes of one GPU type, partly held by one running job each; GPU and CPU jobs of up to three tenants."""
    nodes, live = [], []
    for number in range(1, draw(st.integers(1, 4)) + 1):
        gpus = draw(st.sampled_from([2, 4, 8]))
        held = draw(st.integers(0, gpus))
        nodes.append(node(number, gpus, idle=gpus - held, cores=64, idle_cores=64 - held))
        if held:
            live.append(running(1000 + number, draw(st.integers(1, 3)), number, gpus=held, cores=held))
    sizes = st.sampled_from([1, 1, 2, 2, 3, 4, 8])
    jobs = [
        job(
            number,
            *([draw(sizes)] if draw(st.integers(0, 4)) else []),
            tenant=draw(st.integers(1, 3)),
            wait_s=float(draw(st.integers(0, 5000))),
            movable=draw(st.booleans()),
        )
        for number in range(1, draw(st.integers(4, 30)) + 1)
    ]
    quota = st.sampled_from([None, None, None, 4])
    tenants = [Tenant(n, weight=draw(st.sampled_from([1.0, 2.0])), gpu_quota=draw(quota)) for n in (1, 2, 3)]
    return nodes, live, jobs, tenants


def planned(snapshot, policy):
    nodes, live, jobs, tenants = snapshot
    knobs = {"policy": "berth", "arrays": "off"} if policy == "berth-undivided" else {"policy": policy}
    knobs["sweep"] = "off"  # else nobody stands outside under berth
    return make_plan(nodes, jobs, running=live, tenants=tenants, **knobs)


def lines_of(made):
    """Array -> its jobs that go on waiting, next first: the window's by turn, the others by rank."""
    lines = defaultdict(list)
    for each in made.decisions:
        if str(each.result) == "waiting" and each.rank is not None and each.eligible:
            key = (not each.inside_window, each.standing.turn or 0, each.rank)
            lines[each.standing.array].append((key, each.job))
    return {array: [number for _, number in sorted(line)] for array, line in lines.items()}


def pools_of(snapshot, policy):
    """Array -> GPUs of its nodes; {} where the policy knows no pools."""
    nodes = snapshot[0]
    if policy not in {"berth", "coda"}:
        return {}
    large = divide(nodes, ArrayHistory()).large
    sizes = {"gpu-large": sum(n.gpus_total for n in nodes if n.id in large)}
    sizes["gpu-small"] = sum(n.gpus_total for n in nodes) - sizes["gpu-large"]
    return sizes if all(sizes.values()) else {}


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(snapshots(), st.sampled_from(EVERY))
def test_every_number_of_a_job_outside_the_window(snapshot, policy):
    made = planned(snapshot, policy)
    lines, pools = lines_of(made), pools_of(snapshot, policy)
    jobs = {each.id: each for each in snapshot[2]}
    for decision in made.decisions:
        if decision.reason is not Reason.OUTSIDE_WINDOW:
            continue
        array, figures = decision.standing.array, decision.figures
        line = lines[array]
        place = line.index(decision.job) + 1
        assert (figures["place"], figures["queue_length"]) == (place, len(line))
        queue = array if pools or array == "cpu" else UNDIVIDED
        first, _, rest = sentence(decision.reason, figures).partition(". ")
        assert first == f"It waits for its turn: place {place} of {len(line)} in the queue for {QUEUES[queue]}"
        if policy in {"fifo", "drf"}:
            assert [int(n) for n in NUMBER.findall(rest)] == strict(decision, jobs, lines, policy, made)
        else:
            rest = rest.removeprefix("It stands in that queue because no node for jobs of its own size can hold it. ")
            assert [int(n) for n in NUMBER.findall(rest)] == windowed(decision, snapshot, pools, policy, made)


def windowed(decision, snapshot, pools, policy, made):
    """Where the window closed, how many jobs it had and how many started, and the tenant's share in per cent."""
    nodes, live, jobs, tenants = snapshot
    array, total = decision.standing.array, sum(n.gpus_total for n in nodes)
    own = [each for each in made.decisions if each.standing and each.standing.array == array and each.inside_window]
    started = sum(each.placement is not None for each in own)
    numbers = [pools.get(array, total), len(own), *([started] if started else [])]
    tenant_of = {each.id: each for each in jobs}
    if policy == "hops":
        return numbers
    picked = [tenant_of[each.job] for each in made.decisions if each.inside_window and not tenant_of[each.job].is_cpu]
    if len({each.tenant for each in picked} | {each.tenant for each in live}) < 2:
        return numbers
    mine = tenant_of[decision.job].tenant
    held = sum(each.gpus for each in live if each.tenant == mine) + sum(e.min_gpus for e in picked if e.tenant == mine)
    weight = next(each.weight for each in tenants if each.id == mine)
    return [*numbers, int(f"{held / total / weight * 100:.0f}")]


def strict(decision, jobs, lines, policy, made):
    """The job that nobody may pass, by number where it is the tenant's own, and its place."""
    first = [
        each
        for each in made.decisions
        if each.inside_window
        and each.placement is None
        and each.reason not in {Reason.TENANT_QUOTA, Reason.SOLVER_LIMIT}
        and (policy == "fifo" or jobs[each.job].tenant == jobs[decision.job].tenant)
    ]
    assert len(first) == 1
    blocking = first[0].job
    assert blocking in {each.job for each in made.blocking}
    own = jobs[blocking].tenant == jobs[decision.job].tenant
    there = first[0].standing.array
    return [*([blocking] if own else []), lines[there].index(blocking) + 1]


def test_a_job_that_its_own_pool_could_never_hold_says_in_whose_queue_it_stands():
    """A job of 2 GPUs of a type that only the large jobs' nodes have."""
    nodes = [node(1, 8, gpu_type="h100", idle=0), node(2, 8, gpu_type="h100"), node(3, 2)]
    jobs = [job(n, 8, gpu_types=frozenset({"h100"})) for n in range(1, 4)]
    made = make_plan(
        nodes,
        [*jobs, job(9, 2, gpu_types=frozenset({"h100"}), wait_s=1)],
        policy="berth",
        large_array_share=1,
        sweep="off",
    )
    said = sentence("outside-window", decisions_of(made)[9].figures)
    assert "in the queue for jobs of 4 GPUs and more. It stands in that queue because no node for jobs" in said


def test_places_of_a_pool_do_not_count_the_other_pools_jobs():
    """What was seen: place 1 of 21, behind 7 jobs of the 4 GPUs, where each number was of another queue."""
    nodes = [node(1, 4, idle=0), node(2, 4, idle=0)]
    jobs = [job(n, 4, wait_s=900 - n) for n in range(1, 8)] + [job(n, 1, wait_s=100 - n) for n in range(8, 22)]
    made = make_plan(nodes, jobs, policy="berth", borrowing="off", sweep="off")
    figures = decisions_of(made)[2].figures
    assert (figures["place"], figures["queue_length"], figures["window_gpus"], figures["considered"]) == (2, 7, 4, 1)


def test_a_promised_job_stands_in_the_queue_of_its_size_and_its_window_does_not_count_it():
    """What was seen: a job of 4 GPUs at place 1 of the jobs of 1 to 3, whose three jobs "asked for 4 GPUs"."""
    nodes = [node(1, 8, idle=0), node(2, 4, idle=0)]
    kept = Promise((Share(2, 4, 4, 0),), NOW_S - 30, "call-back")
    stops = replace(running(99, 2, 2, 4, 4), movable=True, stopping=True)
    small = [job(n, 2, wait_s=100 - n) for n in (2, 3, 4)]
    made = make_plan(
        nodes,
        [job(1, 4, wait_s=900, promise=kept), *small],
        running=[running(98, 2, 1, 8, 8), stops],
        policy="berth",
        sweep="off",
    )
    assert decisions_of(made)[1].standing.array == "gpu-large"
    figures = decisions_of(made)[4].figures
    assert (figures["queue"], figures["place"], figures["queue_length"]) == ("gpu-small", 3, 3)
    assert figures["considered"] == 2  # of 2 GPUs each, until they ask for the pool's 4
