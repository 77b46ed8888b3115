"""The one documented list of knobs, and the registry of policies."""

import pytest

from scheduler.errors import InvalidParameter
from scheduler.parameters import Parameters, choices
from scheduler.policies.registry import POLICIES


def test_the_registry_holds_what_exists():
    assert set(POLICIES) == set(choices.POLICIES)
    assert all(name == policy.name and policy.meaning for name, policy in POLICIES.items())


def test_values_are_taken_as_their_type():
    knobs = Parameters.from_mapping({"lambda": 2, "reserve_lr": None, "time_limit_s": 0, "policy": "fifo", "tick_s": 5})
    assert knobs == Parameters(policy="fifo", lambda_=2.0, reserve_lr=None, tick_s=5.0)
    assert knobs.limit_s == 2.5
    assert Parameters.from_mapping({"time_limit_s": 4}).limit_s == 4


def test_bad_values_name_the_parameter(subtests):
    for name, value, words in [
        ("policy", "lottery", f"parameter policy: 'lottery' is not one of {', '.join(POLICIES)}"),
        ("lambda", 4.1, "parameter lambda: 4.1 is outside 0 to 4"),
        ("lambda", float("nan"), "nan is not a finite number"),
        ("lambda", True, "True is not a finite number"),
        ("lambda", "1", "'1' is not a finite number"),
        ("lambda", 10**400, "000000 is outside 0 to 4"),
        ("policy", "x" * 5000, "xxxx' is not one of"),
        ("tick_s", 0, "0 is outside 1 to 3600 s"),
        ("tick_s", None, "None is not a finite number"),
        (
            "epsilon",
            1.4,
            "parameter epsilon: there is no such parameter; the parameters are policy, priority, placement, lambda",
        ),
    ]:
        with subtests.test(name=name, value=value):
            with pytest.raises(InvalidParameter) as caught:
                Parameters.from_mapping({name: value})
            assert words in str(caught.value)
            assert len(str(caught.value)) < 1000


@pytest.mark.parametrize(("gpus", "gap"), [(99, 0.0), (100, 0.0005), (1000, 0.0005), (1001, 0.01)])
def test_the_gap_follows_the_clusters_size(gpus, gap):
    assert Parameters().gap_for(gpus) == gap
    assert Parameters(gap=0.2).gap_for(gpus) == 0.2


def test_a_time_limit_is_half_a_tick_or_long_enough_to_read_the_queue():
    assert Parameters.from_mapping({"time_limit_s": 0, "tick_s": 8}).limit_s == 4
    assert Parameters.from_mapping({"time_limit_s": 0.5}).limit_s == 0.5
    with pytest.raises(InvalidParameter, match=r"neither 0 nor at least 0\.5 s"):
        Parameters.from_mapping({"time_limit_s": 0.25})
