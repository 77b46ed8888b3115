"""DqnGPU serves: the network's preference among what the mask allows, and CBP+PP for whom it cannot judge."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.model import PairSeen
from scheduler.sharing.board import Board
from scheduler.sharing.dqn import Dqn
from scheduler.sharing.learned.images import Frame, Limits
from scheduler.sharing.learned.record import packed, unpacked
from scheduler.sharing.learned.runs import phases_of
from scheduler.sharing.learned.training import Recipe, Training, shapes
from scheduler.sharing.measured import Measured
from scheduler.sharing.model import BY_NUMBER, Profile, Resident, Rule
from scheduler.sharing.peak import CbpPeak
from scheduler.sharing.sharing import share
from tests.scheduler.sharing.given import FALLING, GIB, RISING, asker, gpu

FRAME = Frame(3)


def stored(prefers=None, *, seed=0, gain=None):
    """A policy that prefers a subset of the slots whatever it sees, or one of random weights."""
    training = Training(FRAME, lambda _: None, Recipe(), seed)
    if prefers is not None:
        training.network.layers = [np.zeros(shape) for shape in shapes(FRAME)]
        training.network.layers[-1][FRAME.subsets.index(prefers)] = 1.0
    return unpacked(packed(training, Limits(longest=60, gain=gain), {"step_s": 10.0}))


def seen(use=0.2, *, top=2, memory=RISING, seconds=300.0):
    return Profile({"memory_mib": memory * top * GIB, "gpu": np.full(16, use), "pcie_mb_s": np.zeros(16)}, seconds)


def on(*profiles, gib=4, ran_s=0.0, **fields):
    people = [
        Resident(asker(100 + n, gib, profile=each, **fields), gib * GIB, GIB, ran_s) for n, each in enumerate(profiles)
    ]
    return gpu(0, *people, used=(1, 2, 3, 4, 5))


def rule(policy, own, there, *others):
    board = Board([own, *others], [there])
    return BY_NUMBER[int(policy.rules(board, 0)[0])]


def test_it_joins_where_the_network_would_start_it_and_declines_where_that_would_wait():
    own = asker(1, profile=seen())
    assert rule(Dqn(stored((0,))), own, on(seen())) is Rule.LEARNED
    assert rule(Dqn(stored(())), own, on(seen())) is Rule.DECLINED


def test_who_has_joined_in_this_planning_counts():
    """One is judged, joins, and the next of its kind no longer fits beside it."""
    own = seen(0.4)
    askers = [asker(n, 2, profile=own, signature="a") for n in range(3)]
    found = share(Dqn(stored((0,))), askers, [on(seen(0.1))])
    assert [(each.job, each.rule) for each in found.joined] == [(0, Rule.LEARNED), (1, Rule.LEARNED)]
    assert [each.rules for each in found.refused] == [{Rule.EXCEEDS: 1}]


def test_nobody_joins_who_would_exceed_a_resource_however_much_the_network_likes_it():
    assert rule(Dqn(stored((0,))), asker(1, profile=seen(0.7)), on(seen(0.7))) is Rule.EXCEEDS
    assert rule(Dqn(stored((0,))), asker(1, 8, profile=seen(top=9)), on(seen(top=9), gib=8)) is Rule.EXCEEDS


def test_memory_counts_by_the_most_until_the_end_and_what_is_over_counts_no_more():
    """One that falls from 9 to 0 GiB, at its beginning and near its end, beside one that needs 9."""
    falling, own = seen(top=9, memory=FALLING), asker(1, 8, profile=seen(top=9))
    assert rule(Dqn(stored((0,))), own, on(falling, gib=8)) is Rule.EXCEEDS
    assert rule(Dqn(stored((0,))), own, on(falling, gib=8, ran_s=290.0)) is Rule.LEARNED


def test_nobody_joins_who_would_gain_too_little_however_much_the_network_likes_it():
    """0.45 beside 0.45 adds 0.96 of a pace; 0.45 beside 0.3 and 0.25, no resource exceeded, 0.9."""
    own, there = asker(1, profile=seen(0.45)), on(seen(0.45))
    assert rule(Dqn(stored((0,), gain=0.95)), own, there) is Rule.LEARNED
    assert rule(Dqn(stored((0,), gain=0.97)), own, there) is Rule.LITTLE
    assert rule(Dqn(stored((0,), gain=0.95)), own, on(seen(0.3), seen(0.25))) is Rule.LITTLE
    assert rule(Dqn(stored((0,))), own, on(seen(0.3), seen(0.25))) is Rule.LEARNED


def test_measured_pairs_say_what_is_gained():
    """Nothing is accepted or refused for a limit here: these say to the learned policy's mask alone."""
    own, there = asker(1, profile=seen(), signature="own"), on(seen(), signature="there")
    bad = Measured.of({("own", "there", ""): PairSeen(2.0, 1000)}, None)
    policy = Dqn(stored((0,), gain=0.8))
    assert rule(policy, own, there) is Rule.LEARNED
    assert BY_NUMBER[int(policy.rules(Board([own], [there], measured=bad), 0)[0])] is Rule.LITTLE


def test_who_has_joined_in_this_planning_counts_in_what_is_gained():
    own = seen(0.4)
    askers = [asker(n, 2, profile=own, signature="a") for n in range(3)]
    found = share(Dqn(stored((0,), gain=0.95)), askers, [on(seen(0.1))])
    assert [(each.job, each.rule) for each in found.joined] == [(0, Rule.LEARNED)]
    assert [each.rules for each in found.refused] == [{Rule.LITTLE: 1}] * 2


def test_on_a_gpu_with_nobody_it_starts():
    assert rule(Dqn(stored(())), asker(1, profile=seen()), gpu(0)) is Rule.ALONE


@pytest.mark.parametrize("profile", [None, seen(seconds=None)])
def test_who_was_not_seen_to_run_for_a_known_time_is_cbp_pps_to_decide(profile):
    own, there = asker(1, profile=profile), on(seen())
    assert rule(Dqn(stored(())), own, there) is rule(CbpPeak(), own, there)
    beside = on(profile)
    assert rule(Dqn(stored(())), asker(1, profile=seen()), beside) is rule(CbpPeak(), asker(1, profile=seen()), beside)


def test_latency_critical_jobs_are_cbp_pps_to_decide():
    own = asker(1, profile=seen(), critical=True)
    assert rule(Dqn(stored(())), own, on(seen())) is rule(CbpPeak(), own, on(seen()))


@settings(deadline=None, max_examples=30)
@given(st.lists(st.tuples(st.floats(0.05, 1.0), st.integers(1, 12), st.booleans()), min_size=1, max_size=8))
def test_without_a_file_it_decides_as_cbp_pp_does(drawn):
    askers = [
        asker(n, gib, profile=seen(use) if known else None, signature=f"s{n}")
        for n, (use, gib, known) in enumerate(drawn)
    ]
    gpus = [on(seen()), gpu(1)]
    assert share(Dqn(), askers, gpus) == share(CbpPeak(), askers, gpus)


@settings(deadline=None, max_examples=40)
@given(
    st.lists(st.tuples(st.floats(0.05, 0.6), st.integers(1, 12), st.integers(10, 900)), min_size=1, max_size=8),
    st.integers(0, 5),
)
def test_whatever_it_has_learnt_grants_and_highest_uses_never_come_to_more_than_a_gpu_has(drawn, seed):
    askers = [
        asker(n, gib, profile=seen(use, top=gib, seconds=float(seconds))) for n, (use, gib, seconds) in enumerate(drawn)
    ]
    found = share(Dqn(stored(seed=seed)), askers, [gpu(0), gpu(1)])
    for key in (0, 1):
        here = [each for each in found.joined if each.gpu == key]
        assert sum(each.grant_mib for each in here) <= 16 * GIB
        assert sum(askers[each.job].profile.series["memory_mib"].max() for each in here) <= 16 * GIB + 1e-6
    assert len(found.joined) + len(found.refused) == len(askers)


def test_a_run_is_told_in_the_steps_of_the_policy():
    samples = np.array([[0.2, 0.1, 0.0], [0.4, 0.3, 1600.0], [0.6, 0.2, 0.0], [1.0, 0.5, 0.0]])
    found = phases_of(samples, 20.0, 10.0, 50)
    assert found.tolist() == [[pytest.approx(0.3), 0.3, pytest.approx(0.3), pytest.approx(0.05)], [0.8, 0.5, 0.8, 0.0]]
    assert len(phases_of(samples, 900.0, 10.0, 50)) == 50
    assert len(phases_of(samples, 1.0, 10.0, 50)) == 1
