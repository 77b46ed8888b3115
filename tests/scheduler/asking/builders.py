"""Short spellings for questions about a waiting job."""

import numpy as np

from scheduler.asking.starts.scene import Experience
from scheduler.asking.what_if import what_would_start
from scheduler.model import ClusterState, Running
from scheduler.parameters import Parameters
from tests.scheduler.builders import NOW_S, job, node, running, ticking

KNOBS = Parameters(policy="fifo")


def live(number, host, gpus, until_s, tenant=2):
    """A job that runs, and is expected to end then."""
    pieces = running(number, tenant, host, gpus, gpus).pieces
    return Running(number, tenant, pieces, NOW_S - 60, (gpus,), expected_end_s=until_s)


def state_of(nodes, jobs, running=(), tenants=(), speeds=None):
    return ClusterState(nodes, jobs, running, tenants, speeds or {})


def half_full(waiting=None, until_s=600):
    """A job of 4 on a node of 4 GPUs of which 2 are idle now and the others in `until_s` seconds."""
    return state_of([node(1, 4, idle=2, idle_cores=30)], [waiting or job(1, 4)], [live(91, 1, 2, NOW_S + until_s)])


def two_types(waiting, until_s, other_s=None, speeds=None):
    """Two nodes of 4: a job that names a100 runs in the first, and the other one of t4 is idle, or held by a job too."""
    idle = 4 if other_s is None else 0
    nodes = [node(1, 4, idle=0, idle_cores=28), node(2, 4, idle=idle, idle_cores=28 + idle, gpu_type="t4")]
    busy = [live(91, 1, 4, NOW_S + until_s), *([] if other_s is None else [live(92, 2, 4, NOW_S + other_s)])]
    return state_of(nodes, [waiting], busy, speeds=speeds)


def asked(state, number=1, *, knobs=KNOBS, clock=None, only=None, **experience):
    """The answer, once checked for the rules that hold for every one."""
    rng, known = np.random.default_rng(1), Experience(**experience)
    found = what_would_start(state, number, knobs, rng, clock or ticking(), now_s=NOW_S, experience=known, only=only)
    assert len(found.changes) <= 8
    assert all(each.sentence.endswith(".") for each in found.changes)
    gains = [each.gains for each in found.offers]
    assert gains == sorted(gains, reverse=True), "gains come first"
    return found


def found(state, kind, value=None, **more):
    """The one change of this kind, with this value if one is given; as the only question it is judged in the same way."""
    answer = asked(state, **more)
    (each,) = [each for each in answer.changes if each.kind == kind and value in {None, str(each.value)}]
    (alone,) = asked(state, only=(each.kind, each.value), **more).changes
    assert (alone.starts, alone.gains) == (each.starts, each.gains)
    return each
