"""Changes that would start a waiting job (algorithms.md section 7): one each, re-solved by the planning's own code."""

from dataclasses import replace

import pytest

from scheduler.asking.changes import CHANGED, Kind
from scheduler.errors import InvalidJob
from scheduler.model import Reason, Tenant
from scheduler.parameters import Parameters
from tests.scheduler.asking.builders import asked, found, half_full, live, state_of, two_types
from tests.scheduler.builders import NOW_S, job, node, ticking

HELD = job(1, 1, eligible=False, ineligible_reason=Reason.HELD)
DEPENDS = replace(HELD, ineligible_reason=Reason.DEPENDENCY, ineligible_figures={"depends_on": [3]})
ON_A100 = job(1, 4, gpu_types=frozenset({"a100"}))
TORCH = "environment:torch"
NFS = [node(1, 4, idle=0, storage_domain="nfs"), node(2, 4)]
WITH_TORCH = [node(1, 4, idle=0, offers=frozenset({TORCH})), node(2, 4)]
CASES = [
    (state_of([node(1, 8, idle=3)], [job(1, 8)]), "size", 3, {"n1": 3}, "With 3 GPUs"),
    (two_types(ON_A100, 600), "gpu-type", ["t4"], {"n2": 4}, "With GPUs of type t4 allowed too"),
    (
        state_of([node(1, 4, idle_memory_mib=1024)], [job(1, 2, memory_mib=3000)]),
        "memory",
        1024,
        {"n1": 2},
        "With 1 GiB of",
    ),
    (state_of([node(1, 0, cores=16, idle_cores=5)], [job(1, cores=9)]), "cores", 5, {"n1": 0}, "With 5 cores"),
    (
        state_of(NFS, [job(1, 1, checkpoint_domain="nfs")]),
        "checkpoint",
        None,
        {"n2": 1},
        "Without its checkpoint, so from",
    ),
    (
        state_of(WITH_TORCH, [job(1, 1, software=TORCH)]),
        "software",
        None,
        {"n2": 1},
        "With the software of the node itself",
    ),
    (state_of([node(1)], [HELD]), "release", None, {"n1": 1}, "If it is released,"),
    (state_of([node(1)], [DEPENDS]), "dependency", None, {"n1": 1}, "Without what it waits for"),
    (
        two_types(ON_A100, 600, 7200),
        "wait",
        600.0,
        {"n1": 4},
        "In about 10 min, when running jobs are expected to end,",
    ),
]


def test_a_change_that_starts_it(subtests):
    for state, kind, value, nodes, words in CASES:
        with subtests.test(state=state, kind=kind):
            first = next(each for each in asked(state).changes if each.kind == kind)
            assert (first.value, first.starts, first.nodes) == (value, True, nodes)
            assert first.sentence.startswith(words)
            assert f" it would start {'then' if kind == 'wait' else 'now'} on {next(iter(nodes))}." in first.sentence


def test_half_the_speed_is_said():
    slow = replace(two_types(ON_A100, 600), gpu_speeds={"a100": 2.0, "t4": 1.0})
    assert "That is 50 % of the speed that it asks for now (assumed, not measured)." in found(slow, "gpu-type").sentence


def test_nothing_has_to_change_for_a_job_that_starts_anyway():
    found = asked(state_of([node(1)], [job(1, 2)]))
    (only,) = found.changes
    assert (only.kind, only.starts, only.nodes, only.of_asked) == ("none", True, {"n1": 2}, 1.0)
    assert only.sentence == "As it is, it would start now on n1."
    assert found.offers == []


def test_those_that_start_come_first_and_the_others_say_why_not():
    first, second, third = asked(state_of([node(1, 8, idle=3)], [job(1, 8)])).changes
    assert [each.value for each in (first, second, third)] == [3, 1, 4]
    assert first.of_asked == pytest.approx((3 / 8) ** 0.9)
    assert (third.starts, third.reason) == (False, "not-enough-idle-gpus")
    assert third.sentence == "With 4 GPUs it would still not start now (not-enough-idle-gpus)."


def test_fewer_cores_a_gpu_are_no_change_for_a_job_starts_with_fewer_by_itself():
    """Eight wanted, six allowed by its tenant's quota."""
    state = state_of([node(1, 8, idle=2)], [job(1, 2, cores=4)], tenants=[Tenant(1, core_quota=6)])
    (only,) = asked(state).changes
    assert only.sentence.startswith("As it is, it would start now on n1.")
    full = state_of([node(1, 8, idle=1)], [job(1, 2, cores=4)], tenants=[Tenant(1, core_quota=6)])
    assert not [each for each in asked(full).changes if "core" in each.kind]


def test_waiting_does_not_help_when_somebody_else_is_first():
    jobs = [job(1, 4, wait_s=0), job(2, 4, wait_s=9000)]
    state = state_of([node(1, 4, idle=0, idle_cores=28)], jobs, [live(91, 1, 4, NOW_S + 600)])
    wait = found(state, "wait", knobs=Parameters())
    assert (wait.starts, wait.reason) == (False, "lost-to-higher-priority")


@pytest.mark.parametrize(
    "waiting",
    [job(1, 1, eligible=False, ineligible_reason=Reason.RESTORED), job(1, 0, cores=65)],
    ids=["restored", "more cores than a node has"],
)
def test_a_job_for_which_nothing_could_be_changed(waiting):
    full = state_of([node(1, 4, idle=0, idle_cores=0)], [waiting], [live(91, 1, 4, None)])
    assert asked(full).changes == ()


def test_what_there_was_no_time_for_is_said():
    late = asked(half_full(), clock=ticking(4.0))
    assert {each.starts for each in late.changes} == {None}
    assert late.changes[-1].sentence.endswith(": not tried, the time for this question was up.")
    assert late.offers == []


def test_a_smaller_size_starts_now_and_comes_first():
    answer = asked(half_full())
    first = answer.offers[0]
    assert (first.kind, first.value, first.starts, first.gains, first.nodes) == (Kind.SIZE, 2, True, True, {"n1": 2})
    assert first.words == "Accept 2 GPUs too"
    assert answer.start.median_s > NOW_S + 300, "as it stands it waits for the end"


def test_an_offer_that_no_longer_holds():
    full = state_of([node(1, 4, idle=0)], [job(1, 4)], [live(91, 1, 4, NOW_S + 600)])
    (again,) = asked(full, only=(Kind.SIZE, 2)).changes
    assert (again.starts, again.gains) == (False, False)


def test_a_later_but_sooner_start_by_another_type():
    state = two_types(ON_A100, 7200, 300)
    other = found(state, "gpu-type")
    assert (other.starts, other.gains, other.value) == (False, True, ["t4"])
    assert other.start.median_s < asked(state).start.median_s


def test_who_would_start_later_is_named():
    """Another job of 2 behind it fits now, and takes what is idle, unless the first takes it."""
    both = replace(half_full(), jobs=[job(1, 4), job(2, 2)])
    assert set(found(both, "size", "2").later or {}) <= {2}


def test_the_same_question_has_the_same_answer():
    jobs = [job(number, 2, 4, wait_s=number) for number in range(1, 9)]
    state = state_of([node(1, 8)], jobs)
    assert asked(state) == asked(state)


def test_no_such_job_and_a_job_that_cannot_be_planned():
    with pytest.raises(KeyError, match="no waiting job 7"):
        asked(state_of([node(1)], [job(1, 1)]), 7)
    with pytest.raises(InvalidJob, match="must be ascending"):
        asked(state_of([node(1)], [job(1, 2, 1)]))


def test_a_size_is_accepted_beside_those_asked():
    assert CHANGED[Kind.SIZE](job(1, 4), 2).requirement == (2, 4)
