"""The demo's later jobs: they come while the demand is under the target, and no longer than asked."""

import random
from collections import Counter

import pytest

from portal.cluster.models import GpuType
from portal.foundation.layout import Layout
from portal.launch.demo import arrivals
from portal.launch.demo.arrivals import CALM, CROWDED, CROWDED_SHARE, SWING_S, arrival, arrivals_step, target_share
from portal.launch.demo.people import demo_ensure
from portal.launch.demo.workload import TENANTS
from portal.launch.operator import operator_ensure
from portal.work.jobs.description import description_parse
from portal.work.jobs.models import Job
from tests.portal import given

CALM_AT = 100 * SWING_S + SWING_S - 10.0
CROWDED_AT = 100 * SWING_S + 5.0


def test_every_draw_is_a_valid_job_of_one_of_the_demo_s_people():
    drawn = [arrival(random.Random(number)) for number in range(300)]
    for tenant, user, description in drawn:
        assert user in TENANTS[tenant][1]
        assert description_parse(description).files
    names = Counter(description["name"].split("-")[0] for _, _, description in drawn)
    assert names["charlm"] > 200
    assert min(names["wordcount"], names["pairs"]) >= 3


def test_on_average_four_fifths_to_nine_tenths_of_the_gpus_are_asked_for():
    mean = CROWDED_SHARE * CROWDED + (1 - CROWDED_SHARE) * CALM
    assert 0.8 <= mean <= 0.9
    assert {target_share(CALM_AT), target_share(CROWDED_AT)} == {CALM, CROWDED}


@pytest.fixture
def demo(transactional_db, settings, tmp_path):
    """A demo of two nodes of 8 GPUs with its people, whose first jobs have been submitted."""
    settings.DEMO, settings.DATA_DIR = True, tmp_path
    layout = Layout.at(tmp_path)
    layout.prepare()
    operator_ensure(layout)
    demo_ensure(layout, step=lambda _: None)
    for name in ("a100-01", "a100-02"):
        given.node_make(name, gpus=8, cores=64, memory_mib=500_000, gpu_type=GpuType.objects.get(name="A100 80 GB"))
    layout.workload.write_text("{}")
    return layout


def test_jobs_come_until_the_demand_reaches_the_target_and_again_when_it_falls(demo):
    at = CALM_AT
    asked = [arrivals_step(now=at + 5 * SWING_S * number) for number in range(60)]
    submitted = [job for job in asked if job]
    assert submitted
    assert asked[-1] is None, "the demand has reached the target"
    demand, gpus = arrivals._demand()
    assert gpus == 16
    assert CALM * 16 <= demand <= CALM * 16 + 12
    Job.objects.update(state="COMPLETED")
    assert arrivals_step(now=at + 5 * SWING_S * 100)


def test_the_same_moment_gives_one_job_however_often_it_is_asked(demo):
    first, second = arrivals_step(now=CROWDED_AT), arrivals_step(now=CROWDED_AT + 1)
    assert first
    assert first.pk == second.pk


@pytest.mark.parametrize("case", ["no demo", "not begun", "no workload", "over", "people gone"])
def test_none_comes(case, demo, settings, monkeypatch):
    if case == "no demo":
        settings.DEMO = False
    elif case == "not begun":
        demo.workload.unlink()
    elif case == "no workload":
        monkeypatch.setenv("BERTH_DEMO_WORKLOAD", "0")
    elif case == "over":
        monkeypatch.setenv("BERTH_DEMO_UNTIL", str(int(CROWDED_AT)))
    else:
        from portal.people.tenants.models import User

        User.objects.update(is_active=False)
    assert arrivals_step(now=CROWDED_AT) is None
    assert not Job.objects.exists()
