"""Hypothesis draws fewer examples in the quick tests, and all of them in the whole suite."""

import itertools
import time

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples import examples_cut


def drawing(found, **more):
    @settings(database=None, **more)
    @given(st.integers())
    def test(number):
        found.append(number)

    return test


def test_each_test_is_cut_once_however_often_it_is_met():
    mine, usual, plain = [], [], drawing
    few, hundred = drawing(mine, max_examples=40), drawing(usual)
    examples_cut([few, few, hundred, plain, few])
    few(), hundred()
    assert (len(mine), len(usual)) == (10, 25)


def test_no_test_fails_because_the_machine_is_busy():
    """One example that takes longer than Hypothesis's usual 0.2 s, as on a machine that others load."""
    slow = itertools.count()

    @settings(database=None, max_examples=2)
    @given(st.integers())
    def test(_):
        if next(slow) == 0:
            time.sleep(0.25)

    test()
    assert next(slow) == 2
