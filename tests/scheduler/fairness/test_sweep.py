"""Work conservation (algorithms.md section 4, invariant 11): nothing idles beside a waiting job that fits."""

from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.model import Piece, Running, Tenant
from scheduler.placement.idle_nodes import IdleNodes
from tests.scheduler.builders import NOW_S, job, make_plan, node, where, why

TYPES = ("a100", "rtx")
ALL_LARGE = {"policy": "berth", "large_array_share": 1}


def held_by(number, tenant, where_, gpus, *, movable=False, end_s=None, requirement=None):
    """A running job on the first GPUs and cores of a node."""
    sizes = requirement or (gpus,)
    piece = Piece(where_, tuple(range(gpus)), tuple(range(gpus)), 0)
    return Running(number, tenant, (piece,), NOW_S - 900, sizes, movable=movable, expected_end_s=end_s)


@st.composite
def clusters(draw):
    """Nodes of two types and many sizes, partly busy, and the queue of three tenants, one of them under a quota."""
    nodes, live = [], []
    for number in range(1, draw(st.integers(2, 6)) + 1):
        gpus = draw(st.sampled_from([1, 2, 4, 8]))
        busy = draw(st.integers(0, gpus))
        cores = draw(st.integers(busy + 1, 24))
        host = node(
            number,
            gpus,
            gpu_type=draw(st.sampled_from(TYPES)),
            idle=gpus - busy,
            cores=cores,
            idle_cores=cores - busy,
            memory_mib=draw(st.sampled_from([8_000, 64_000])),
            storage_domain=draw(st.sampled_from(["", "shared"])),
            offers=frozenset(draw(st.sampled_from([(), ("build",)]))),
            tenants=frozenset({9} if busy else ()),
            single_account=draw(st.booleans()),
            trusts_tenants=draw(st.booleans()),
        )
        nodes.append(host)
        if busy:
            end_s = draw(st.none() | st.floats(NOW_S, NOW_S + 9000))
            live.append(held_by(900 + number, 9, number, busy, movable=draw(st.booleans()), end_s=end_s))
    sizes = st.sampled_from([(0,), (1,), (1,), (2,), (1, 2, 4), (2, 4), (3,), (4,), (4, 8), (8,), (12,)])
    jobs = [
        job(
            number,
            *draw(sizes),
            tenant=draw(st.integers(1, 3)),
            cores=draw(st.integers(1, 6)),
            wait_s=draw(st.sampled_from([0.0, 60.0, 5000.0])),
            age_s=draw(st.sampled_from([60.0, 900.0, 20_000.0])),
            memory_mib=draw(st.sampled_from([0, 4_000, 30_000])),
            movable=draw(st.booleans()),
            gpu_types=frozenset(draw(st.sampled_from([(), (), ("rtx",), ("a100",)]))),
            checkpoint_domain=draw(st.sampled_from([None, None, None, "shared"])),
            software=draw(st.sampled_from(["", "", "", "build"])),
        )
        for number in range(1, draw(st.integers(1, 16)) + 1)
    ]
    return nodes, jobs, live


@settings(max_examples=60, deadline=None)
@given(clusters(), st.none() | st.integers(0, 6), st.booleans(), st.sampled_from([0.3, 1.0]))
def test_nothing_idles_beside_a_job_that_fits(cluster, quota, replan, window_size):
    nodes, jobs, live = cluster
    made = make_plan(
        nodes,
        jobs,
        running=live,
        tenants=[Tenant(1, gpu_quota=quota), Tenant(2), Tenant(3)],
        policy="berth",
        replan=replan,
        window_size=window_size,
    )
    assert made.metrics.idle_beside_fitting == 0
    assert "outside-window" not in why(made).values()
    for decision in made.decisions:
        if str(decision.reason) == "reserved" and decision.figures.get("kept_for") == "job":
            assert made.reservations
    kept = [number for each in made.reservations for number in each.nodes]
    assert len(kept) == len({*kept})


def test_four_idle_gpus_do_not_wait_for_jobs_of_8_that_cannot_be_placed_there():
    """Seen in the demo: a node's four GPUs idle for ten minutes beside 16 tasks of one GPU and a job of {2, 4}."""
    nodes = [node(1, 8, idle=0), node(2, 8, idle=0), node(3, 4, gpu_type="rtx")]
    live = [held_by(91, 7, 1, 8), held_by(92, 7, 2, 8)]
    large = [job(number, 8, tenant=1, wait_s=300, gpu_types=frozenset({"a100"})) for number in range(1, 5)]
    tasks = [job(number, 1, tenant=2, wait_s=20) for number in range(10, 26)]
    made = make_plan(nodes, [*large, *tasks, job(30, 2, 4, tenant=3, wait_s=5)], running=live, **ALL_LARGE)
    assert made.metrics.gpus_idle == 0
    assert set(where(made)) <= {30, *range(10, 26)}


def test_who_stands_outside_the_window_takes_what_nobody_inside_could():
    """Seen in the demo: a GPU idle for a minute beside three {1} jobs that stood "outside the window"."""
    nodes = [node(1, 4, idle=0), node(2, 4, idle=1)]
    inside = [job(number, 2, wait_s=600) for number in range(1, 6)]
    made = make_plan(
        nodes, [*inside, *(job(number, 1, wait_s=1) for number in range(6, 9))], policy="berth", arrays="off"
    )
    assert where(made) == {6: {2: 1}}
    assert set(why(made).values()) == {"not-enough-idle-gpus", "lost-to-higher-priority"}


def test_jobs_that_differ_in_memory_alone_are_asked_about_as_often_as_it_takes_to_tell_them(monkeypatch):
    """100 000 amounts of memory cost a starved core the sweep: every shape asked every node."""
    asked = []
    best_fit = IdleNodes.best_fit

    def counted(nodes, each, access, *, spreads):
        asked.append(each.id)
        return best_fit(nodes, each, access, spreads=spreads)

    monkeypatch.setattr(IdleNodes, "best_fit", counted)
    jobs = [job(k, 1, memory_mib=90_000 - k * 100, wait_s=60 + k) for k in range(1, 200)]
    made = make_plan([node(1, 8, memory_mib=80_000), node(2, 8, memory_mib=80_000, gpu_type="b")], jobs, policy="berth")
    assert made.metrics.idle_beside_fitting == 0
    assert len(asked) < 120
