"""Jobs whom nothing tells apart share one reason, and it is the one that each would be given alone."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.explaining.why import Hindsight
from scheduler.model import Tenant
from tests.scheduler.builders import job, make_plan, node, running


def plan_of(seed):
    random = np.random.default_rng(seed)

    def pick(*values):
        return values[random.integers(len(values))]

    nodes = [
        node(
            k + 1,
            8,
            gpu_type=pick("a100", "rtx"),
            idle=int(random.integers(0, 9)),
            tenants=frozenset({pick(1, 2)}),
            single_account=bool(random.integers(2)),
            trusts_tenants=bool(random.integers(2)),
        )
        for k in range(3)
    ]
    jobs = [
        job(
            k + 1,
            *pick((1,), (2,), (1, 2), (4,), (8,), ()),
            tenant=int(random.integers(1, 4)),
            cores=pick(1, 4),
            wait_s=float(random.integers(1, 5000)),
            gpu_types=pick(frozenset(), frozenset({"a100"})),
            memory_mib=pick(0, 200_000),
            movable=bool(random.integers(2)),
        )
        for k in range(60)
    ]
    tenants = [Tenant(1), Tenant(2, gpu_quota=pick(None, 4)), Tenant(3)]
    return lambda: make_plan(
        nodes, jobs, running=[running(100, 1, 1)], tenants=tenants, policy="berth", reserve_lr=pick(None, 0.5)
    )


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_it_is_the_reason_that_each_would_be_given_alone(seed):
    told = [[(each.job, each.reason, dict(each.figures)) for each in plan_of(seed)().decisions]]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Hindsight, "_why_of_kind", Hindsight._why_alone)
        told.append([(each.job, each.reason, dict(each.figures)) for each in plan_of(seed)().decisions])
    assert told[0] == told[1]


def test_a_hundred_alike_have_a_few_between_them():
    made = make_plan([node(1, 4)], [job(k + 1, 1, age_s=600.0 + k) for k in range(104)], policy="berth")
    figures = {id(each.figures) for each in made.decisions if each.placement is None and not each.inside_window}
    assert len([each for each in made.decisions if each.placement is None]) == 100
    assert len(figures) <= 2
