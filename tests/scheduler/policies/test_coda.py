"""Policy `coda` against a straightforward reference implementation of CODA V-C, and policy `drf`."""

from collections import Counter

from hypothesis import example, given, settings
from hypothesis import strategies as st

from scheduler.model import Piece, Running, Tenant
from tests.scheduler.builders import job, make_plan, node, where, why


def reference(nodes, jobs, live, tenants):
    """CODA by the book, for one GPU type, no history and plenty of cores: {job: node}."""
    able = sorted((each for each in nodes if each.gpus_total >= 4), key=lambda each: (-each.gpus_total, each.id))
    large = {each.id for each in able[: len(able) // 2]}
    arrays = {"large": [n for n in nodes if n.id in large], "small": [n for n in nodes if n.id not in large]}
    weight = {each.id: each.weight for each in tenants}
    idle = {each.id: len(each.idle_gpus) for each in nodes}
    held = Counter()
    for each in live:
        held[each.tenant] += each.gpus

    def home(asked):
        own, other = ("large", "small") if asked.min_gpus >= 4 else ("small", "large")
        fits = {name: any(n.gpus_total >= asked.min_gpus for n in arrays[name]) for name in arrays}
        return other if fits[other] and not fits[own] else own

    waiting = sorted((each for each in jobs if not each.is_cpu), key=lambda each: (each.submitted_s, each.id))
    homes = {each.id: home(each) for each in waiting}
    capacity = {name: sum(n.gpus_total for n in own) for name, own in arrays.items()}
    free = {name: sum(idle[n.id] for n in own) for name, own in arrays.items()}
    asked, front, backfill, left = Counter(), [], [], list(waiting)
    several = {name: len({each.tenant for each in waiting if homes[each.id] == name}) > 1 for name in arrays}
    while left := [each for each in left if asked[homes[each.id]] < capacity[homes[each.id]]]:
        heads = {}
        for each in left:
            heads.setdefault(each.tenant, each)
        total = sum(capacity.values())
        pick = min(heads.values(), key=lambda e: (held[e.tenant] / total / weight[e.tenant], e.submitted_s, e.id))
        name = homes[pick.id]
        in_front = not several[name] or not asked[name] or asked[name] < free[name]
        (front if in_front else backfill).append(pick)
        asked[name] += pick.min_gpus
        held[pick.tenant] += pick.min_gpus
        left.remove(pick)
    placed = {}
    for each in front + backfill:
        own = homes[each.id]
        other = "small" if own == "large" else "large"
        owner_waits = any(homes[one.id] == other for one in waiting)
        for name in (own, other) if each.movable or not owner_waits else (own,):
            fitting = [n for n in arrays[name] if idle[n.id] >= each.min_gpus]
            if fitting:
                best = min(fitting, key=lambda n: (idle[n.id], n.id))
                placed[each.id] = best.id
                idle[best.id] -= each.min_gpus
                break
    return placed


def cluster_of(nodes, jobs, weights=(1.0, 1.0, 1.0)):
    """Nodes with plenty of cores, (GPUs, busy ones, whose they are) each, and rigid (GPUs, tenant, movable) jobs."""
    idle, live = [], []
    for number, (gpus, busy, tenant) in enumerate(nodes, start=1):
        idle.append(node(number, gpus, idle=gpus - busy, cores=64, idle_cores=64 - busy))
        if busy:
            piece = Piece(number, tuple(range(busy)), tuple(range(busy)), 0)
            live.append(Running(100 + number, tenant, (piece,), 0.0, (busy,)))
    waiting = [job(number, gpus, tenant=own, movable=can) for number, (gpus, own, can) in enumerate(jobs, start=1)]
    return idle, waiting, live, [Tenant(number, weight=weight) for number, weight in enumerate(weights, start=1)]


@st.composite
def clusters(draw):
    """Nodes with plenty of cores, something running on them, and rigid jobs of three tenants."""
    tenants = st.integers(1, 3)
    node_sizes = draw(st.lists(st.sampled_from([2, 4, 8]), min_size=1, max_size=5))
    nodes = [(gpus, draw(st.integers(0, gpus)), draw(tenants)) for gpus in node_sizes]
    sizes = st.sampled_from([size for size in (1, 2, 3, 4, 8) if size <= max(node_sizes)])
    jobs = draw(st.lists(st.tuples(sizes, tenants, st.booleans()), max_size=14))
    return cluster_of(nodes, jobs, draw(st.tuples(*[st.sampled_from([1.0, 2.0])] * 3)))


# Job 2 is behind what the small array's own idle GPUs hold, so the large array's own job 4 goes first.
A_BORROWER_BEHIND_AN_OWNER = cluster_of(
    [(8, 0, 1), (8, 1, 1), (4, 2, 1), (8, 8, 1)], [(2, 1, True), (2, 1, True), (1, 2, False), (4, 1, False)]
)


@example(A_BORROWER_BEHIND_AN_OWNER)
@settings(max_examples=24, deadline=None)
@given(clusters())
def test_fifo_priority_rigid_jobs_and_greedy_placement_is_exactly_coda(cluster):
    nodes, jobs, live, tenants = cluster
    expected = reference(nodes, jobs, live, tenants)
    for knobs in (
        {"policy": "coda"},
        {"policy": "berth", "priority": "fifo", "placement": "greedy", "reserve_lr": None, "sweep": "off"},
    ):
        made = make_plan(nodes, jobs, running=live, tenants=tenants, **knobs)
        assert {number: next(iter(there)) for number, there in where(made).items()} == expected


def test_coda_gives_every_job_its_smallest_size():
    assert where(make_plan([node(1, 8)], [job(1, 1, 2, 4)], policy="coda")) == {1: {1: 1}}


def test_drf_counts_gpus_and_cores_in_one_share():
    """Tenant 1 asks 1 core and 4 GPUs a job, tenant 2 three cores and 1 GPU, of 9 cores and 18 GPUs (NSDI '11, 4.1)."""
    jobs = [
        *(job(number, 4, cores=1, tenant=1) for number in range(1, 6)),
        *(job(number, 1, cores=3, tenant=2) for number in range(11, 16)),
    ]
    nodes = [node(1, 18, cores=30)]
    held = Counter(number // 10 for number in where(make_plan(nodes, jobs, policy="drf")))
    assert held == {0: 3, 1: 5}


def test_drf_passes_over_a_tenant_whose_next_job_does_not_fit():
    jobs = [job(1, 4), job(2), job(3, 1, tenant=2), job(4, 99, tenant=2)]
    made = make_plan([node(1, 4, idle=2)], jobs, policy="drf")
    assert where(made) == {3: {1: 1}}
    assert why(made) == {1: "not-enough-idle-gpus", 2: "outside-window", 4: "not-enough-idle-gpus"}
