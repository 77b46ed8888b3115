"""What a planning finds out for all askers and GPUs at once is what is found for one asker beside those on one GPU."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.model import PairSeen
from scheduler.sharing.board import Board
from scheduler.sharing.learned import crowds
from scheduler.sharing.learned.crowds import FIRST, UNJUDGED, Judge
from scheduler.sharing.learned.images import STEPS, TOLERANCE, WAIT, Frame, Limits, Reach, ahead, state
from scheduler.sharing.learned.paces import Gains, course
from scheduler.sharing.learned.runs import UNSEEN, Runs, phases_of
from scheduler.sharing.learned.training import Network
from scheduler.sharing.measured import Measured
from scheduler.sharing.model import BY_NUMBER, MEASURES, NUMBERS, Profile, Resident, Rule
from tests.scheduler.sharing.given import GIB, asker, gpu

STEP_S, MOST = 10.0, 25
FRAME = Frame(3)
TOP = {"memory_mib": 9.0 * GIB, "gpu": 0.7, "pcie_mb_s": 20_000.0}
NAMES = "abcd"


def drawn_profile(rng):
    length = int(rng.choice((5, 16, 64)))
    seconds = rng.choice((None, 0.0, 1.0, rng.uniform(5, 400)), p=(0.1, 0.05, 0.05, 0.8))
    levels = rng.choice((0.1, 0.5, 1.0), len(TOP))
    used = {name: level * top * rng.random(length) for level, (name, top) in zip(levels, TOP.items(), strict=True)}
    return Profile(used, seconds)


def drawn_board(rng):
    """Some askers and GPUs of two sizes, with people on most of them; some were never seen, or not for a known time."""
    profiles = [*(drawn_profile(rng) for _ in range(5)), None]

    def one(key):
        return asker(key, 1, profile=profiles[int(rng.integers(6))], signature=str(rng.choice([*NAMES])))

    askers = [one(key) for key in range(int(rng.integers(1, 8)))]
    gpus = []
    for key in range(int(rng.integers(1, 6))):
        people = [one(100 * (key + 1) + n) for n in range(int(rng.integers(4)))]
        there = [Resident(each, GIB, GIB, rng.choice((0.0, 300.0))) for each in people]
        gpus.append(gpu(key, *there, gib=int(rng.choice((16, 24)))))
    pairs = {(*rng.choice([*NAMES], 2), ""): PairSeen(1 + rng.random(), 50) for _ in range(int(rng.integers(6)))}
    return Board(askers, gpus, measured=Measured.of(pairs, None))


def phases_of_profile(profile, memory_mib):
    """The use by phase of one job with such a profile, on a GPU of so much memory; None where that is not known."""
    if profile is None or profile.seconds is None or profile.seconds <= 0:
        return None
    own = profile.series
    samples = np.stack([own["gpu"], np.asarray(own["memory_mib"]) / memory_mib, own["pcie_mb_s"]], axis=1)
    return phases_of(samples, profile.seconds, STEP_S, MOST)


def one_by_one(board, network, limits, row, column):
    """The rule for one asker beside those on one GPU, and how near it was to another: as one looks at a single GPU."""
    there, size = board.alike.people(column), board.gpus[column].memory_mib
    ran_s = {each.asker.key: each.ran_s for each in board.gpus[column].residents}
    uses = [phases_of_profile(each.profile, size) for each in (*there, board.askers[row])]
    if any(each is None for each in uses):
        return UNJUDGED, 1.0
    done = [min(ran_s.get(each.key, 0.0) / STEP_S, len(use) - 1.0) for each, use in zip(there, uses, strict=False)]
    reach = sum(Reach(use, limits).ahead(at) for use, at in zip(uses, [*done, 0.0], strict=True))
    if reach.max() > 1.0 + TOLERANCE:
        return NUMBERS[Rule.EXCEEDS], 1.0
    images = [ahead(use, int(at)) for use, at in zip(uses, [*done, 0.0], strict=True)]
    left = [len(use) - at for use, at in zip(uses, [*done, 0.0], strict=True)]
    names = [each.signature for each in (*there, board.askers[row])]
    courses = [course(*each) for each in zip(names, images, left, strict=True)]
    may = np.zeros(FRAME.actions, dtype=bool)
    may[[WAIT, FIRST]] = True
    gains = [Gains(FRAME, limits.gain + more, board.measured) for more in (0.0, -1e-9, 1e-9)]
    enough, *near = (each.enough(courses[:-1], courses[-1:], may)[FIRST] for each in gains)
    if not enough:
        return NUMBERS[Rule.LITTLE], float(near[0] == near[1])
    seen = state(FRAME, sum(images[:-1], np.zeros((STEPS, 4))), left[:-1], [(images[-1], left[-1])], 0)
    ((wait, start),) = network.judged(seen[None], may[None])[0][:, [WAIT, FIRST]]
    return NUMBERS[Rule.LEARNED if start > wait else Rule.DECLINED], min(abs(start - wait), float(near[0] == near[1]))


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 2**32 - 1), st.floats(0.2, 0.99), st.sampled_from((1, 7, 2**16)))
def test_all_pairs_at_once_are_judged_as_one_by_one_also_after_somebody_joined(seed, gain, at_once):
    rng = np.random.default_rng(seed)
    board, limits = drawn_board(rng), Limits(longest=2 * MOST, in_time=1.2, gain=gain)
    network = Network.drawn(FRAME, rng)
    network.layers[0][-FRAME.slots - 4 :] *= 20.0  # how many there are, and how long they take
    network.layers[-2] *= 100.0  # it begins with hardly a preference
    before, crowds.AT_ONCE = crowds.AT_ONCE, at_once
    try:
        judge = Judge(board, network, limits, STEP_S)
        for _ in range(4):
            for row in range(len(board.askers)):
                columns = np.flatnonzero(board.rooms(harvested=False).of(row) == NUMBERS[Rule.FITS])
                for column, found in zip(columns, judge.of(row, columns), strict=True):
                    rule, apart = one_by_one(board, network, limits, row, column)
                    assert found == rule or apart < 1e-9, (BY_NUMBER[found], rule, apart)
            board.join(int(rng.integers(len(board.askers))), int(rng.integers(len(board.gpus))), GIB // 2)
    finally:
        crowds.AT_ONCE = before


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 2**32 - 1))
def test_many_runs_at_once_are_told_as_one_by_one_to_the_last_digit(seed):
    rng = np.random.default_rng(seed)
    profiles = [drawn_profile(rng) for _ in range(7)]
    runs = Runs(16 * GIB, STEP_S, MOST, 1.2)
    first = runs.numbers([profiles[0], None])  # the others come later
    numbers = runs.numbers(profiles)
    assert (first[0], first[1]) == (numbers[0], UNSEEN)
    ran_s = rng.choice((0.0, 55.5, 300.0), len(profiles))
    found = runs.ahead(numbers, ran_s)
    for n, each in enumerate(profiles):
        uses = phases_of_profile(each, 16 * GIB)
        assert (numbers[n] == UNSEEN) == (uses is None)
        if uses is None:
            continue
        done = min(ran_s[n] / STEP_S, len(uses) - 1.0)
        reach = Reach(uses, Limits(longest=MOST, in_time=1.2)).ahead(done)
        assert np.array_equal(found.images[n], ahead(uses, int(done)))
        assert np.array_equal(found.in_time[n], np.concatenate([reach[:, 0], reach[:, 3]]))
        assert (found.memory[n], found.left[n]) == (reach[0, 1], len(uses) - done)
        assert np.array_equal(found.there[n], course("a", found.images[n], len(uses) - done).there)


def test_measures_stand_in_the_order_in_which_runs_read_them():
    assert MEASURES == ("memory_mib", "gpu", "pcie_mb_s")
