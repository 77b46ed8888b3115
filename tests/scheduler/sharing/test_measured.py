"""What was measured of pairs: it closes GPUs under every policy, opens what CBP guessed shut, and orders the others."""

import numpy as np
import pytest
from hypothesis import given as drawn
from hypothesis import strategies as st

from scheduler.model import PairSeen
from scheduler.sharing.measured import BESIDE, BEYOND, HALF_LIFE_S, Measured, most_busy, weight
from scheduler.sharing.model import Rule
from scheduler.sharing.sharing import POLICIES, share
from tests.scheduler.sharing.given import BUMPS, FALLING, GIB, RISING, asker, gpu, profile, resident

LIMIT = 0.2
MANY = 1000


def measured(slowdown=1.3, count=MANY, age_s=0.0, pair=("s1", "s100"), limit=LIMIT):
    return Measured.of({(*pair, ""): PairSeen(slowdown, count, age_s)}, limit)


def step(policy, table, *, gpus=(), **fields):
    return share(POLICIES[policy](), [asker(1, **fields)], gpus or [gpu(0, resident())], measured=table)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("pair", [("s1", "s100"), ("s100", "s1")])
def test_a_pair_measured_to_be_bad_is_put_together_by_no_policy(policy, pair):
    """Whichever of the two suffers. It was alone enough for res-ag, and its profile for the others."""
    assert step(policy, measured(pair=pair)).refused[0].rules == {Rule.SLOWED: 1}


def test_up_to_the_limit_and_without_one_it_closes_nothing():
    assert step("res-ag", measured(1.15)).joined
    assert step("res-ag", measured(9.0, limit=None)).joined


def test_few_records_and_old_ones_say_little():
    assert weight(PairSeen(2.0, 3)) == pytest.approx(0.5)
    assert weight(PairSeen(2.0, MANY, HALF_LIFE_S)) == pytest.approx(0.5, abs=0.01)
    assert step("res-ag", measured(1.3, count=1)).joined
    assert step("res-ag", measured(1.3, age_s=2 * HALF_LIFE_S)).joined
    assert not step("res-ag", measured(3.0, age_s=2 * HALF_LIFE_S)).joined, "what was terrible stays away for longer"


def test_it_corrects_what_cbp_guesses():
    """Both rise together, and it was never seen at all: CBP refuses either. They ran well together, so they may."""
    there = [gpu(0, resident(profile=profile()))]
    for fields in ({"profile": profile()}, {}):
        assert step("cbp", measured(1.05, pair=("x", "y")), gpus=there, **fields).refused
        (joined,) = step("cbp", measured(1.05), gpus=there, **fields).joined
        assert (joined.rule, joined.grant_mib) == (Rule.MEASURED, 4 * GIB), "speed says nothing of memory"


def test_it_opens_nothing_where_a_second_one_there_was_not_measured():
    there = [gpu(0, resident(profile=profile()), resident(101, signature="unseen", profile=profile()))]
    assert step("cbp", measured(1.05), gpus=there, profile=profile()).refused


def test_by_measured_speed_it_joins_only_where_its_whole_request_fits():
    """CBP would grant four fifths of 4 GiB; 3.5 are left."""
    there = [gpu(0, resident(gib=12, grant_gib=12.5, profile=profile()))]
    found = step("cbp", measured(1.05), gpus=there, profile=profile())
    assert found.refused[0].rules == {Rule.CORRELATED: 1}


def test_of_equal_gpus_the_one_where_less_is_lost_is_tried_first():
    gpus = [gpu(0, resident(100)), gpu(1, resident(101))]
    table = Measured.of({("s1", "s100", ""): PairSeen(1.15, MANY), ("s1", "s101", ""): PairSeen(1.02, MANY)}, LIMIT)
    assert step("res-ag", table, gpus=gpus).joined[0].gpu == 1
    assert step("res-ag", measured(pair=("x", "y")), gpus=gpus).joined[0].gpu == 0


def test_who_joins_in_this_planning_counts_for_the_next():
    table = measured(pair=("s1", "s2"))
    found = share(POLICIES["res-ag"](), [asker(1), asker(2)], [gpu(0)], measured=table)
    assert [each.job for each in found.joined] == [1]
    assert found.refused[0].rules == {Rule.SLOWED: 1}


PAIRS = st.dictionaries(
    st.tuples(st.sampled_from(["a", "b", "c"]), st.sampled_from(["a", "b", "c"]), st.just("")),
    st.builds(PairSeen, st.floats(0.5, 4), st.integers(0, 50), st.floats(0, 4 * HALF_LIFE_S)),
)
ASKED = st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 16), st.integers(0, 600)), min_size=1, max_size=8)


@drawn(PAIRS, ASKED, st.sampled_from(sorted(POLICIES)))
def test_no_ledger_is_exceeded_and_no_bad_pair_made_whatever_was_measured(pairs, asked, policy):
    table = Measured.of(pairs, LIMIT)
    seen = {name: profile(np.linspace(0, place / 3, 16)) for place, name in enumerate("abc")}
    askers = [
        asker(n, gib, signature=name, compute=compute, profile=seen[name])
        for n, (name, gib, compute) in enumerate(asked)
    ]
    found = share(POLICIES[policy](), askers, [gpu(0), gpu(1)], measured=table)
    for column in (0, 1):
        here = [each for each in found.joined if each.gpu == column]
        assert sum(each.grant_mib for each in here) <= 16 * GIB
        assert sum(askers[each.job].compute for each in here) <= 1000
        names = [askers[each.job].signature for each in here]
        for place, own in enumerate(names):
            for other in names[:place]:
                told = table.told(own, other, "")
                assert told is None or told[0] <= LIMIT


def there(*busy):
    return gpu(
        0, *(resident(100 + n, 1, signature=f"r{n}", profile=profile(np.full(16, use))) for n, use in enumerate(busy))
    )


@pytest.mark.parametrize(
    ("own", "busy", "closed"), [(0.5, (0.5,), False), (0.6, (0.6,), True), (0.4, (0.3, 0.2), False)]
)
def test_what_was_used_before_says_how_crowded_a_gpu_would_be(own, busy, closed):
    """By res-ag, where memory alone counts; what is beyond the whole costs twice: 0.6 and 0.6 would take 1.4 times as long."""
    found = step("res-ag", Measured.of({}, LIMIT), gpus=[there(*busy)], profile=profile(np.full(16, own)))
    assert bool(found.refused) is closed
    if closed:
        assert found.refused[0].rules == {Rule.CROWDED: 1}
    assert step("res-ag", Measured.of({}, None), gpus=[there(*busy)], profile=profile(np.full(16, own))).joined


@drawn(st.floats(0, 1), st.floats(0.01, 3), st.floats(0, 2))
def test_how_busy_a_gpu_may_be_is_where_the_accepted_slowdown_is_reached(own, busy, limit):
    slower = BEYOND * max(0.0, busy + own - 1.0) + BESIDE * max(busy, own)
    if abs(slower - limit) > 1e-6:
        assert (busy > most_busy(np.array([own]), limit)[0]) == (slower > limit)


def test_nobody_unseen_counts_as_crowded_and_a_measured_pair_outweighs_what_was_expected():
    assert step("res-ag", Measured.of({}, LIMIT), gpus=[there(1.0)]).joined
    well = measured(1.05, pair=("s1", "r0"))
    assert step("res-ag", well, gpus=[there(0.8)], profile=profile(np.full(16, 0.8))).joined


def test_harms_of_several_neighbours_add_up_for_who_joins_and_for_those_there():
    """A tenth from each of two is a fifth and a half of a tenth; so it is where one of those there suffers already."""
    table = {("s1", "r0", ""): PairSeen(1.12, MANY), ("s1", "r1", ""): PairSeen(1.12, MANY)}
    assert step("res-ag", Measured.of(table, LIMIT), gpus=[there(0.1)]).joined
    assert step("res-ag", Measured.of(table, LIMIT), gpus=[there(0.1, 0.1)]).refused[0].rules == {Rule.SLOWED: 1}
    table = {("r0", "r1", ""): PairSeen(1.15, MANY), ("s1", "r0", ""): PairSeen(1.12, MANY)}
    assert step("res-ag", Measured.of(table, LIMIT), gpus=[there(0.1, 0.1)]).refused[0].rules == {Rule.SLOWED: 1}


@pytest.mark.parametrize("policy", ["res-ag", "cbp-pp"])
def test_strangers_run_alone_while_a_gpu_is_idle_and_share_when_none_is(policy):
    """Nobody can say what one who was never seen costs those there: where a harm is not to be passed an idle GPU comes first."""
    follows = (4.0, 4.1, 4.2, 4.3, 4.4)
    there = [gpu(0, resident(profile=profile(0.2 * BUMPS)), used=follows), gpu(1)]
    unseen, seen = {}, {"profile": profile(0.2 * RISING, memory=FALLING)}
    limited, unlimited = Measured.of({}, LIMIT), Measured.of({}, None)

    def place(table, gpus, fields):
        return step(policy, table, gpus=gpus, **fields).joined[0].gpu

    assert place(limited, there, unseen) == 1
    assert place(limited, there, seen) == 0, "what both used says that they may be together: GPUs in use first"
    assert place(unlimited, there, unseen) == 0, "as Kube-Knots has it: GPUs in use first"
    assert place(limited, there[:1], unseen) == 0, "none is idle"
    stranger = gpu(0, resident(), used=follows)
    assert place(limited, [stranger, gpu(1)], seen) == 1, "it is one who is there that nobody knows"


def test_who_was_measured_beside_everybody_there_is_no_stranger():
    there = [gpu(0, resident()), gpu(1)]
    assert step("res-ag", measured(1.05), gpus=there).joined[0].gpu == 0
    assert step("res-ag", measured(1.05, count=1), gpus=there).joined[0].gpu == 1, "once is not enough"
