"""Res-Ag, CBP and CBP+PP: who joins whom, by which rule (Kube-Knots IV, algorithm 1; algorithms.md section 11)."""

import numpy as np
import pytest
from hypothesis import given as drawn
from hypothesis import settings
from hypothesis import strategies as st

from scheduler.sharing.model import Asker, Harvest, Profile, Rule
from scheduler.sharing.sharing import POLICIES, share
from tests.scheduler.sharing.given import BUMPS, FALLING, GIB, RISING, asker, gpu, profile, resident


def step(policy, askers, gpus, **options):
    return share(POLICIES[policy](), askers, gpus, **options)


def places(policy, askers, gpus, **options):
    return {each.job: each.gpu for each in step(policy, askers, gpus, **options).joined}


def test_res_ag_fits_by_request_the_largest_first_and_blind_to_use():
    """First fit decreasing: 10 and 6 on the first GPU, 9 on the second, 8 finds 7 left and waits for none."""
    askers = [asker(1, 6), asker(2, 10), asker(3, 8), asker(4, 9)]
    found = step("res-ag", askers, [gpu(0), gpu(1)])
    assert {each.job: each.gpu for each in found.joined} == {2: 0, 1: 0, 4: 1}
    assert [(each.job, each.rules) for each in found.refused] == [(3, {Rule.MEMORY: 2})]
    busy = gpu(0, resident(gib=4), used=[15.9] * 6)
    assert places("res-ag", [asker(1, 6)], [busy]) == {1: 0}


@pytest.mark.parametrize("policy", ["res-ag", "cbp", "cbp-pp"])
def test_where_nobody_is_anybody_may_start(policy):
    found = step(policy, [asker(1, 16)], [gpu(0)])
    assert [(each.gpu, each.rule, each.grant_mib) for each in found.joined] == [(0, Rule.ALONE, 16 * GIB)]


def test_cbp_lets_those_join_who_do_not_rise_together():
    """The paper's limit is 0.5: the largest correlation of memory, SMs and PCIe counts."""
    there = gpu(0, resident(profile=profile(RISING, memory=RISING)))
    together, against = profile(RISING, memory=RISING), profile(FALLING, memory=FALLING)
    assert step("cbp", [asker(profile=together)], [there]).refused[0].rules == {Rule.CORRELATED: 1}
    joined = step("cbp", [asker(profile=against)], [there]).joined[0]
    assert (joined.rule, joined.figure, joined.beside) == (Rule.UNCORRELATED, pytest.approx(-1.0), (100,))


def test_of_several_there_the_largest_correlation_counts_also_of_those_who_just_joined():
    """Ranks of 64 points. Both are asked about again after the first has joined: the second correlates with it alone."""
    shapes = np.random.default_rng(7).permuted(np.tile(np.arange(64.0), (3, 1)), axis=1)
    there = gpu(0, resident(profile=profile(shapes[0], memory=shapes[0])))
    asked = [asker(key, profile=profile(shapes[1], memory=shapes[1])) for key in (1, 2)]
    found = step("cbp", asked, [there])
    squares = ((shapes[0].argsort().argsort() - shapes[1].argsort().argsort()) ** 2).sum()
    assert found.joined[0].figure == pytest.approx(1 - 6 * squares / (64 * (64**2 - 1)), abs=1e-9)
    assert [each.job for each in found.refused] == [2]


@pytest.mark.parametrize("measure", ["memory_mib", "gpu", "pcie_mb_s"])
def test_one_measure_that_rises_together_is_enough_to_be_refused(measure):
    there = gpu(0, resident(profile=profile(RISING)))
    flat = {name: np.ones(16) for name in ("memory_mib", "gpu", "pcie_mb_s")}
    assert places("cbp", [asker(profile=Profile(flat))], [there]) == {1: 0}
    assert places("cbp", [asker(profile=Profile(flat | {measure: RISING * GIB}))], [there]) == {}


def test_a_batch_job_gets_the_80th_percentile_of_what_it_used():
    """Memory from 0 to 4 GiB in 16 even steps: four fifths of 4 GiB; a request of 8 GiB would have kept the GPU from it."""
    there = gpu(0, resident(gib=12, profile=profile(FALLING, memory=FALLING)))
    joined = step("cbp", [asker(gib=8, profile=profile())], [there]).joined[0]
    assert joined.grant_mib == np.ceil(0.8 * 4 * GIB)


@pytest.mark.parametrize("fields", [{"critical": True}, {"whole_request": True}, {"profile": None}])
def test_latency_critical_crashed_and_unseen_jobs_get_all_they_ask_for(fields):
    made = asker(gib=8, **({"profile": profile()} | fields))
    assert step("cbp", [made], [gpu(0)]).joined[0].grant_mib == 8 * GIB


def test_no_grant_is_more_than_the_request():
    assert asker(gib=2, profile=profile(top_mib=9 * GIB)).grant_mib == 2 * GIB


def test_running_batch_jobs_give_back_what_they_were_never_seen_to_use():
    """12 GiB are held; 3.2 are the percentile, but 5 are in use: 5 stay. So 11 are left for who asks for 10."""
    there = gpu(0, resident(gib=12, used_gib=5, profile=profile(FALLING, memory=FALLING)), used=[5.0] * 3)
    found = step("cbp", [asker(gib=10, critical=True, profile=profile())], [there])
    assert found.harvests == (Harvest(100, 0, 5 * GIB),)
    assert found.joined[0].grant_mib == 10 * GIB
    critical = gpu(0, resident(gib=12, used_gib=5, critical=True, profile=profile(FALLING, memory=FALLING)))
    assert step("cbp", [asker(gib=10)], [critical]).harvests == ()
    assert step("res-ag", [asker(gib=10)], [there]).harvests == ()


def test_who_was_never_seen_is_refused_by_cbp_and_judged_by_the_forecast_of_pp():
    calm = [4.0, 4.1, 4.2, 4.1, 4.2, 4.3]
    there = gpu(0, resident(gib=4), used=calm)
    assert step("cbp", [asker(gib=8)], [there]).refused[0].rules == {Rule.UNKNOWN: 1}
    joined = step("cbp-pp", [asker(gib=8)], [there]).joined[0]
    assert joined.rule is Rule.FORECAST
    assert 4.0 * GIB < joined.figure < 4.5 * GIB


def test_pp_refuses_before_a_peak_and_where_nothing_can_be_forecast():
    """A GPU whose use grows by 2 GiB a sample has 12 GiB in use at the next one: 4 are left, not the 6 of now."""
    there = resident(gib=4, profile=profile())
    rising = gpu(0, there, used=[2.0, 4.0, 6.0, 8.0, 10.0])
    alike = asker(gib=5, critical=True, profile=profile())
    assert step("cbp-pp", [alike], [rising]).refused[0].rules == {Rule.PEAK: 1}
    assert places("cbp-pp", [asker(gib=4, critical=True, profile=profile())], [rising]) == {1: 0}
    swinging = gpu(0, there, used=[2.0, 4.0] * 4)
    assert step("cbp-pp", [alike], [swinging]).refused[0].rules == {Rule.NO_TREND: 1}
    assert step("cbp-pp", [alike], [gpu(0, there, used=[4.0] * 4)]).refused[0].rules == {Rule.NO_TREND: 1}


def test_the_forecast_goes_to_the_horizon_sample_by_sample():
    there = gpu(0, resident(gib=4, profile=profile()), used=[1.0, 2.0, 3.0, 4.0, 5.0])
    alike = asker(gib=8, critical=True, profile=profile())
    assert places("cbp-pp", [alike], [there], horizon_steps=3) == {1: 0}
    assert places("cbp-pp", [alike], [there], horizon_steps=4) == {}


def test_gpus_in_use_are_filled_first_and_of_these_the_one_with_most_free_memory():
    used = [
        gpu(0),
        gpu(1, resident(101, 8, profile=profile(FALLING, memory=FALLING)), used=[8.0]),
        gpu(2, resident(102, 4, profile=profile(FALLING, memory=FALLING)), used=[4.0]),
    ]
    assert places("cbp", [asker(profile=profile())], used) == {1: 2}


def test_those_who_joined_in_the_same_planning_count():
    first, second = asker(1, 8, profile=profile()), asker(2, 6, profile=profile())
    assert places("cbp", [first, second], [gpu(0), gpu(1)]) == {1: 0, 2: 1}
    third = asker(3, 4, profile=profile(FALLING, memory=FALLING))
    assert places("cbp", [first, third], [gpu(0), gpu(1)]) == {1: 0, 3: 0}


def test_who_was_ended_for_memory_beside_another_is_not_put_beside_its_like_again():
    there = gpu(0, resident(signature="hungry", profile=profile(FALLING, memory=FALLING)))
    for policy in POLICIES:
        found = step(policy, [asker(profile=profile(), apart_from=frozenset({"hungry"}))], [there])
        assert found.refused[0].rules == {Rule.APART: 1}
    marked = gpu(0, resident(apart_from=frozenset({"s1"}), profile=profile(FALLING, memory=FALLING)))
    assert places("cbp", [asker(profile=profile())], [marked]) == {}


def test_compute_is_never_given_twice():
    there = gpu(0, resident(compute=600, profile=profile(FALLING, memory=FALLING)))
    assert step("cbp", [asker(profile=profile(), compute=500)], [there]).refused[0].rules == {Rule.COMPUTE: 1}
    assert places("cbp", [asker(profile=profile(), compute=400)], [there]) == {1: 0}


def test_profiles_of_different_lengths_and_requests_out_of_range_are_refused():
    with pytest.raises(ValueError, match="all alike"):
        Profile({"memory_mib": np.ones(5), "gpu": np.ones(5), "pcie_mb_s": np.ones(6)})
    with pytest.raises(ValueError, match="not finite"):
        Profile({"memory_mib": np.ones(5), "gpu": np.array([0, 0, 0, 0, np.nan]), "pcie_mb_s": np.ones(5)})
    with pytest.raises(ValueError, match="thousandths"):
        Asker(1, 4, "s", compute=1001)
    with pytest.raises(ValueError, match="more than it has"):
        step("cbp", [], [gpu(0, resident(1, 12), resident(2, 12))])


def asks():
    shapes = st.sampled_from([None, profile(), profile(FALLING, memory=FALLING), profile(BUMPS, memory=BUMPS)])
    return st.builds(
        lambda gib, compute, critical, profile: (gib, {"compute": compute, "critical": critical, "profile": profile}),
        st.integers(1, 20),
        st.integers(0, 1000),
        st.booleans(),
        shapes,
    )


@settings(deadline=None)
@drawn(
    st.sampled_from(sorted(POLICIES)), st.lists(asks(), max_size=12), st.lists(asks(), max_size=4), st.integers(1, 3)
)
def test_no_gpu_is_given_away_twice_and_each_asker_gets_one_answer(policy, waiting, running, gpus):
    askers = [asker(number, gib, **fields) for number, (gib, fields) in enumerate(waiting)]
    there = [resident(100 + number, gib, **fields) for number, (gib, fields) in enumerate(running)]
    board = [gpu(0, *_fitting(there)), *(gpu(number) for number in range(1, gpus))]
    found = step(policy, askers, board)
    assert sorted([*(each.job for each in found.joined), *(each.job for each in found.refused)]) == list(
        range(len(askers))
    )
    harvested = {each.job: each.grant_mib for each in found.harvests}
    for each in board:
        joined = [one for one in found.joined if one.gpu == each.key]
        held = sum(harvested.get(one.asker.key, one.grant_mib) for one in each.residents)
        assert held + sum(one.grant_mib for one in joined) <= each.memory_mib
        compute = sum(one.asker.compute for one in each.residents)
        assert compute + sum(askers[one.job].compute for one in joined) <= 1000
    assert found == step(policy, askers, board)


def _fitting(residents):
    """The first of them that fit on one GPU together."""
    found, memory, compute = [], 0, 0
    for each in residents:
        memory, compute = memory + each.grant_mib, compute + each.asker.compute
        if memory <= 16 * GIB and compute <= 1000:
            found.append(each)
        else:
            break
    return found
