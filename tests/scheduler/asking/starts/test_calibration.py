"""Ranges as wide as their own record says (docs/decisions/0038)."""

from itertools import count

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.asking.starts.ranges import HELD, LONGEST_S, Calibration, Drawn, Foretold

DRAWN = Drawn(60.0, 100.0, 150.0)


MOMENTS = count()


def foretold(waited_s, drawn=DRAWN, *, started=True, made_s=None):
    return Foretold(next(MOMENTS) if made_s is None else made_s, drawn, waited_s, started)


def held(record, waits_s, drawn=DRAWN):
    shown = Calibration(record).applied(drawn)
    return float(np.mean([shown.low_s <= each <= shown.high_s for each in waits_s]))


def test_without_a_record_a_range_is_wider_than_drawn_more_so_at_its_late_end():
    shown = Calibration([]).applied(DRAWN)
    assert 30 < shown.low_s < 50
    assert DRAWN.middle_s - 1 < shown.middle_s < DRAWN.middle_s + 1
    assert 280 < shown.high_s < 350


def test_without_a_record_a_wide_range_grows_by_a_step_and_not_in_proportion():
    """One that was drawn up to a day says enough of its doubt."""
    wide = Drawn(5.0, 100.0, 40_000.0)
    ratios = [Calibration([]).applied(each).high_s / each.high_s for each in (DRAWN, wide)]
    assert ratios[0] > 1.5 > ratios[1]


def test_a_record_of_wide_misses_widens_and_one_of_near_hits_narrows():
    rng = np.random.default_rng(4)
    wild = [foretold(float(each)) for each in 100 * np.exp(rng.normal(0, 1.5, 1500))]
    calm = [foretold(float(each)) for each in 100 + rng.normal(0, 2, 1500)]
    wide, narrow = (Calibration(record).applied(DRAWN) for record in (wild, calm))
    assert wide.high_s - wide.low_s > 3 * (DRAWN.high_s - DRAWN.low_s)
    assert narrow.high_s - narrow.low_s < (DRAWN.high_s - DRAWN.low_s) / 4
    for record in (wild, calm):
        assert held(record[:500], [each.waited_s for each in record[500:]]) >= HELD


def test_a_bias_is_taken_out_of_range_and_middle():
    """Every job started at once that was said to take 100 s."""
    shown = Calibration([foretold(2.0) for _ in range(60)]).applied(DRAWN)
    assert shown.middle_s < 5
    assert shown.high_s < 30


def test_horizons_have_records_of_their_own():
    far = Drawn(5_000.0, 10_000.0, 20_000.0)
    record = [foretold(100.0) for _ in range(60)] + [foretold(40_000.0, far) for _ in range(60)]
    calibration = Calibration(record)
    assert calibration.applied(DRAWN).middle_s < 120
    assert calibration.applied(far).middle_s > 30_000


def test_who_still_waits_is_no_early_start():
    """Half of the jobs started after 90 s; the others have waited 1 000 s, and nobody knows how long they will."""
    record = [each for _ in range(50) for each in (foretold(90.0), foretold(1000.0, started=False))]
    assert Calibration(record).applied(DRAWN).high_s >= 1000
    assert Calibration([each for each in record if each.started]).applied(DRAWN).high_s < 150


def test_the_latest_starts_count_most():
    record = [foretold(1000.0) for _ in range(900)] + [foretold(100.0) for _ in range(1000)]
    assert Calibration(record).applied(DRAWN).middle_s < 150
    assert Calibration(record[::-1]).applied(DRAWN).middle_s > 500


def test_a_burst_is_one_witness_more_than_a_hundred():
    """A hundred jobs came at one moment and all started late; sixty others, one by one, were in time."""
    alone = [foretold(100.0) for _ in range(60)]
    burst = [foretold(5000.0, made_s=-1.0) for _ in range(100)]
    assert Calibration([*alone, *burst]).applied(DRAWN).middle_s < 150
    assert Calibration([*alone, *(foretold(5000.0) for _ in range(100))]).applied(DRAWN).middle_s > 2000


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(st.floats(0, 1e6), st.floats(0, 1e6), st.booleans()), max_size=12), st.floats(0, LONGEST_S))
def test_a_range_is_ordered_and_within_its_limits(rows, middle_s):
    record = [Foretold(0.0, Drawn(m / 2, m, m * 2), waited, started) for m, waited, started in rows]
    shown = Calibration(record).applied(Drawn(middle_s / 2, middle_s, middle_s * 2))
    assert 0 <= shown.low_s <= shown.middle_s <= shown.high_s <= LONGEST_S
