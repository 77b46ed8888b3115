"""What a planning tells of its windows (algorithms.md section 4): turns, sides, boundary and tenants' shares."""

from scheduler.model import Side, Tenant
from tests.scheduler.builders import job, make_plan, node, running


def standings(made):
    return {each.job: (each.standing.array, str(each.standing.side), each.standing.turn) for each in made.decisions}


def test_front_backfill_and_outside_with_the_turns_of_the_picking():
    nodes = [node(1, 4, idle=1), node(2, 4, idle=1)]
    jobs = [job(n, 2, tenant=1, wait_s=900 - n) for n in range(1, 6)] + [job(9, 1, tenant=2), job(10, cores=1)]
    live = [running(100, 1, 1, gpus=3)]
    made = make_plan(nodes, jobs, running=live, policy="berth", arrays="off", tenants=[Tenant(1), Tenant(2)])
    assert standings(made) == {
        9: ("gpu-small", "front", 1),  # tenant 2 holds nothing: its turn is first, although its LR is the least
        1: ("gpu-small", "front", 2),
        2: ("gpu-small", "backfill", 3),
        3: ("gpu-small", "backfill", 4),
        4: ("gpu-small", "backfill", 5),  # 1 + 4 x 2 reaches the 8 GPUs that are up
        5: ("gpu-small", "outside", None),
        10: ("cpu", "front", 1),
    }
    window = next(each for each in made.windows if each.array == "gpu-small")
    assert (window.capacity, window.idle, window.counted, window.jobs, window.front_jobs) == (8, 2, 9, 5, 2)
    gpus = {each.tenant: (each.held, each.with_picks, each.capacity) for each in made.shares if each.resource == "gpus"}
    assert gpus == {1: (3, 11, 8), 2: (0, 1, 8)}


def test_large_and_small_jobs_stand_in_their_own_arrays():
    nodes = [node(1, 8), node(2, 8)]
    made = make_plan(nodes, [job(1, 4), job(2, 1)], policy="berth")
    assert {each: array for each, (array, _, _) in standings(made).items()} == {1: "gpu-large", 2: "gpu-small"}


def test_a_policy_without_arrays_has_one_window():
    made = make_plan([node(1, 2)], [job(1, 2), job(2, 2), job(3, cores=1)], policy="hops")
    assert standings(made) == {
        1: ("gpu-small", "front", None),
        2: ("gpu-small", "outside", None),
        3: ("cpu", "front", None),
    }
    assert made.windows == ()
    assert made.decisions[0].standing.side is Side.FRONT
