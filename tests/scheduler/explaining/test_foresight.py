"""What one asked about many amounts of memory remembers is what one answers that was asked about nothing before."""

from hypothesis import given
from hypothesis import strategies as st

from scheduler.explaining.foresight import Foresight
from scheduler.placement import feasibility
from scheduler.placement.ledger import Ledger
from tests.scheduler.builders import job, node

NODES = st.lists(
    st.tuples(
        st.sampled_from([1, 4, 8]),
        st.sampled_from(["a", "b"]),
        st.sampled_from([2, 8, 40]),
        st.sampled_from([1000, 2000, 64_000]),
        st.booleans(),
    ),
    max_size=5,
)
ASKED = st.lists(
    st.tuples(
        st.sampled_from([(1,), (2, 4), (8,), (12,), (0,)]),
        st.sampled_from([frozenset(), frozenset({"a"}), frozenset({"c"})]),
        st.sampled_from([1, 4]),
        st.integers(0, 130_000) | st.sampled_from([0, 999, 1000, 1001, 2000, 64_000, 64_001]),
        st.sampled_from([None, "here"]),
    ),
    max_size=12,
)


@given(NODES, ASKED)
def test_what_is_remembered_is_what_would_be_answered_afresh(nodes, asked):
    made = [
        node(number, gpus, gpu_type=name, cores=cores, memory_mib=memory, schedulable=up)
        for number, (gpus, name, cores, memory, up) in enumerate(nodes, start=1)
    ]
    jobs = [
        job(
            number, *sizes, gpu_types=types, cores=least, least_cores=least, memory_mib=memory, checkpoint_domain=domain
        )
        for number, (sizes, types, least, memory, domain) in enumerate(asked, start=1)
    ]
    ledger = Ledger(made, (), ())
    asked_of_all = Foresight(ledger)
    assert [asked_of_all.why_never(each) for each in jobs] == [Foresight(ledger).why_never(each) for each in jobs]


def test_many_amounts_of_memory_that_no_node_has_are_not_looked_for_one_by_one(monkeypatch):
    """1 000 of them on 1 000 nodes took three seconds; a queue may have 100 000."""
    looks = [0]
    possible = feasibility.possible

    def counted(*given):
        looks[0] += 1
        return possible(*given)

    monkeypatch.setattr(feasibility, "possible", counted)
    foresight = Foresight(Ledger([node(number, 8, memory_mib=1000) for number in (1, 2)], (), ()))
    found = [foresight.why_never(job(number, 1, memory_mib=2000 + number)) for number in range(1, 101)]
    assert [each.figures["needed"] for each in found] == list(range(2001, 2101))
    assert looks[0] < 20
