"""What is found for many askers at once, and kept while jobs join, is what a fresh look would find."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given as drawn
from hypothesis import settings
from hypothesis import strategies as st

from scheduler.model import PairSeen
from scheduler.sharing import board
from scheduler.sharing.board import Board
from scheduler.sharing.measured import Measured
from scheduler.sharing.model import Resident
from tests.scheduler.sharing.given import BUMPS, FALLING, GIB, RISING, asker, gpu, profile, resident

SHAPES = (RISING, FALLING, BUMPS)
MEASURED = Measured.of({("s1", "s2", ""): PairSeen(1.5, 9), ("s0", "s3", ""): PairSeen(1.0, 9)}, 0.2)


def asks(number, gib, compute, apart):
    seen = None if number % 4 == 3 else profile(SHAPES[number % 3])
    return asker(number, gib, signature=f"s{number % 5}", compute=compute, apart_from=apart, profile=seen)


@settings(deadline=None)
@drawn(
    st.lists(st.tuples(st.integers(1, 12), st.integers(0, 700)), min_size=2, max_size=8),
    st.lists(st.tuples(st.integers(0, 7), st.integers(0, 1)), max_size=4),
    st.booleans(),
)
def test_ledgers_say_the_same_after_each_join_as_with_those_there_from_the_start(waiting, joins, harvested):
    askers = [asks(n, gib, compute, frozenset({"s1"} if n == 0 else ())) for n, (gib, compute) in enumerate(waiting)]
    gpus = [gpu(0), gpu(1, resident(100, 2, signature="s1", profile=profile(BUMPS)))]
    board = Board(askers, gpus, measured=MEASURED)
    board.rooms(harvested=harvested)
    for row, column in joins:
        if row < len(askers):
            board.join(row, column, GIB)
            there = Resident(askers[row], GIB)
            gpus[column] = replace(gpus[column], residents=(*gpus[column].residents, there))
    fresh = Board(askers, gpus, measured=MEASURED)
    for row in range(len(askers)):
        kept, looked = (each.rooms(harvested=harvested).of(row).tolist() for each in (board, fresh))
        assert kept == looked


@pytest.mark.parametrize("row", [0, board.AT_ONCE - 1, board.AT_ONCE, board.AT_ONCE + 1])
def test_ranks_of_many_askers_are_those_of_each(row):
    rng = np.random.default_rng(row)
    askers = [asker(n, profile=profile(rng.random(16), memory=rng.random(16))) for n in range(board.AT_ONCE + 2)]
    there = gpu(0, resident(900, profile=profile(rng.random(16), memory=rng.random(16))))
    column = np.array([0])
    many, alone = Board(askers, [there]), Board([askers[row]], [there])
    assert many.alike.correlated(row, column) == alone.alike.correlated(0, column)
