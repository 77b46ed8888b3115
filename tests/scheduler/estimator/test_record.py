"""The record of ended jobs: forgetting, and how many run times its ranges held."""

import numpy as np

from scheduler.estimator import record
from scheduler.estimator.lengths import is_sure, length_of
from scheduler.estimator.record import Ran, Record, coverage_of, overall
from scheduler.model import Sample
from tests.scheduler.builders import job


def drawn(rng, count, *, spread, told=None):
    """Runs of three owners with middles of their own."""
    found = []
    for _ in range(count):
        owner = int(rng.integers(1, 4))
        took_s = float(600.0 * owner**3 * np.exp(rng.normal(0.0, spread)))
        found.append(Ran(took_s, told and took_s * told(rng), owner, owner, "cv", None, 1))
    return found


def test_ranges_hold_as_many_run_times_as_they_say():
    rng = np.random.default_rng(1)
    for spread in (0.3, 1.0, 2.0):
        found = overall(coverage_of(drawn(rng, 1500, spread=spread), skip=200).values())
        assert 0.75 <= found.most <= 0.9
        assert 0.42 <= found.half <= 0.65


def test_they_widen_when_jobs_are_no_longer_like_those_before():
    rng = np.random.default_rng(2)
    calm, wild = drawn(rng, 400, spread=0.1), drawn(rng, 800, spread=2.0)
    assert overall(coverage_of([*calm, *wild], skip=600).values()).most > 0.75


def test_one_tenants_erratic_jobs_widen_nobody_elses_ranges():
    """Tenant 2 alternates: jobs of a second for a while, then of days. Of the latest 200 errors all may be its own."""
    rng = np.random.default_rng(4)
    calm = [Ran(600.0 * float(np.exp(rng.normal(0, 0.2))), None, 1, 1, "cv", None, 1) for _ in range(200)]
    wild = [Ran(300_000.0 if place // 20 % 2 else 1.0, None, 2, 2, "cv", None, 1) for place in range(400)]
    record_ = Record()
    for run in calm:
        record_.learn(run)
    before = record_.foretell(calm[0])
    for run in wild:
        record_.learn(run)
    after = record_.foretell(calm[0])
    assert after.source == before.source
    assert after.spread < 2 * before.spread
    assert record_.foretell(wild[0]).spread > 2.0


def test_told_lengths_have_a_record_of_their_own():
    runs = drawn(np.random.default_rng(3), 600, spread=1.0, told=lambda rng: 2.0 * np.exp(rng.normal(0, 0.2)))
    found = coverage_of(runs, skip=200)
    assert set(found) == {"declared"}
    assert found["declared"].most > 0.7


def test_what_is_older_than_the_latest_is_forgotten(monkeypatch):
    monkeypatch.setattr(record, "HISTORY_JOBS", 10)
    kept = Record()
    for took_s in (*[10.0] * 30, *[1000.0] * 10):
        kept.learn(Ran(took_s, None, 1, 1, None, None, 1))
    assert length_of(job(1, 1, age_s=None), kept.history).median_s == 1000.0
    assert all(len(sample) == 10 for sample in kept.history.like.values())


def test_a_job_that_did_not_complete_speaks_against_its_owner_and_teaches_no_run_time():
    """Else one who declares a second, and lets each job fail at its end, would be believed for ever."""
    kept = Record()
    for took_s in (86_400.0, 0.5):
        kept.learn(Ran(took_s, 1.0, 1, 1, None, None, 1, completed=False))
    assert kept.history.told[1] == Sample([86_400.0])
    assert not kept.history.like
    assert not is_sure(length_of(job(1, 1, age_s=None, expected_duration_s=1.0), kept.history).spread)
    assert coverage_of([Ran(9.0, 1.0, 1, 1, None, None, 1, completed=False)]) == {}


def test_nothing_covers_nothing():
    assert overall(coverage_of([]).values()) is None
