"""A node with GPUs of several types: what is idle of it is dealt to its bays, and nothing to two of them."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import example, given
from hypothesis import strategies as st

from scheduler.intake.bays import TURN_S, Shared, Want, Wants, deal, divided, promised_on, wants_of
from scheduler.model import Node, Promise, Share, bay_id, node_of
from tests.scheduler.builders import job

COUNTS = st.integers(0, 64)


def bays(*idle: int) -> list[Node]:
    return [
        Node(bay_id(7, k), f"n7-{k}", gpu_type=f"T{k}", gpus_total=8, idle_gpus=tuple(range(n)))
        for k, n in enumerate(idle)
    ]


def shared(cores: int, memory_mib: int = 0) -> Shared:
    return Shared(tuple(range(100, 100 + cores)), memory_mib, cores, memory_mib)


def test_a_bay_names_its_node() -> None:
    assert node_of(bay_id(12, 3)) == 12
    assert node_of(12) == bay_id(12, 0) == 12
    assert node_of(-1) == -1


def test_what_is_idle_is_dealt_by_idle_gpus() -> None:
    dealt = deal(bays(4, 2), shared(12, 600))
    assert [len(each.idle_cores) for each in dealt] == [8, 4]
    assert [each.idle_memory_mib for each in dealt] == [400, 200]
    assert {each.most_cores for each in dealt} == {12}


def test_a_full_bay_leaves_all_to_the_other() -> None:
    assert [len(each.idle_cores) for each in deal(bays(0, 2), shared(12))] == [0, 12]
    assert [len(each.idle_cores) for each in deal(bays(0, 0), shared(12))] == [12, 0]  # for CPU jobs


def test_a_job_that_fits_the_node_but_no_part_gets_its_part() -> None:
    wants = wants_of([job(1, cores=10, wait_s=5.0)])
    assert [len(each.idle_cores) for each in deal(bays(4, 4), shared(16))] == [8, 8]
    assert [len(each.idle_cores) for each in deal(bays(4, 4), shared(16), wants)] == [10, 6]
    assert [len(each.idle_cores) for each in deal(bays(4, 4), shared(40), wants_of([job(1, cores=25)]))] == [28, 12]
    memory = Wants([Want(1, frozenset({"T1"}), 1, 900)])
    assert [each.idle_memory_mib for each in deal(bays(4, 4), shared(16, 1000), memory)] == [100, 900]


def test_who_waited_longest_is_served_and_who_needs_more_than_there_is_is_not() -> None:
    early = job(1, 1, gpu_types=frozenset({"T1"}), memory_mib=700, wait_s=9.0)
    late = job(2, 1, gpu_types=frozenset({"T0"}), memory_mib=800, wait_s=1.0)
    assert [each.idle_memory_mib for each in deal(bays(4, 4), shared(16, 1000), wants_of([late, early]))] == [300, 700]
    held = job(3, 1, memory_mib=900, wait_s=99.0, eligible=False)
    too_much = Wants([*wants_of([held]).kinds, Want(1, frozenset(), 1, 1001)])
    assert [each.idle_memory_mib for each in deal(bays(4, 4), shared(16, 1000), too_much)] == [500, 500]


def test_jobs_that_do_not_fit_together_take_turns():
    """What waited longest may never start, of a tenant at its quota for example: the others' turns come all the same."""

    def dealt(wait_s):
        stuck = job(1, cores=1, memory_mib=900, wait_s=wait_s)
        fits = job(2, 1, gpu_types=frozenset({"T1"}), memory_mib=200, wait_s=wait_s / 2)
        return deal(bays(4, 2), shared(12, 1000), wants_of([stuck, fits]))[1].idle_memory_mib >= 200

    turns = [dealt(number * TURN_S) for number in range(128)]
    assert not turns[0], "the longest wait first"
    assert 32 <= sum(turns) <= 96
    assert dealt(0.9 * TURN_S) == turns[0], "a turn lasts"
    for beat in (2, 3, 5, 6, 10):
        assert len(set(turns[::beat])) == 2, "whatever beat the plannings have"


def test_what_is_promised_on_a_bay_stays_there() -> None:
    promise = Promise((Share(bay_id(7, 1), 2, 9, 700),), 0.0, "resize")
    promised = promised_on([promise.shares])
    dealt = deal(bays(4, 1), shared(12, 1000), Wants([Want(1, frozenset({"T0"}), 5, 0)]), promised)
    assert len(dealt[1].idle_cores) >= 9
    assert dealt[1].idle_memory_mib >= 700


@given(COUNTS, st.lists(st.tuples(COUNTS, COUNTS), min_size=1, max_size=5))
def test_parts_add_up_and_hold_the_least_as_far_as_it_goes(total: int, given_parts: list[tuple[int, int]]) -> None:
    weights, least = [a for a, _ in given_parts], [b for _, b in given_parts]
    parts = divided(total, weights, least)
    assert sum(parts) == total
    if sum(least) <= total:
        assert all(part >= wanted for part, wanted in zip(parts, least, strict=True))


WANTS = st.builds(Want, st.integers(0, 8), st.sampled_from([frozenset(), frozenset({"T1"})]), COUNTS, COUNTS)


@given(
    st.lists(st.integers(0, 8), min_size=2, max_size=4),
    COUNTS,
    COUNTS,
    st.lists(WANTS, max_size=3),
    st.lists(st.tuples(st.integers(0, 3), COUNTS, COUNTS), max_size=2),
    st.integers(0, 5),
)
@example([0, 3, 4], 0, 16, [Want(1, frozenset({"T1"}), 0, 7), Want(0, frozenset(), 0, 10)], [], 0).via(
    "seen: the second came first"
)
def test_no_core_and_no_memory_is_dealt_twice(
    idle: list[int], cores: int, memory: int, wants: list[Want], kept: list[tuple[int, int, int]], turn: int
) -> None:
    promised = {bay_id(7, k): (a, b) for k, a, b in kept}
    held = [replace(bay, cores_total=2, memory_total_mib=3) for bay in bays(*idle)]
    whole = Shared(tuple(range(cores)), memory, cores + 2 * len(held), memory + 3 * len(held))
    dealt = deal(held, whole, Wants(wants, turn), promised)
    ids = [core for bay in dealt for core in bay.idle_cores]
    assert sorted(ids) == list(range(cores))
    assert sum(bay.idle_memory_mib for bay in dealt) == memory
    assert sum(bay.cores_total for bay in dealt) == whole.cores_total
    assert sum(bay.memory_total_mib for bay in dealt) == whole.memory_total_mib
    for want in wants[:1]:
        able = [bay for bay in dealt if want.may_use(bay)]
        if able and not promised and not turn and want.cores <= cores and want.memory_mib <= memory:
            assert any(len(bay.idle_cores) >= want.cores and bay.idle_memory_mib >= want.memory_mib for bay in able)
