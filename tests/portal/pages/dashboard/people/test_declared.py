"""The worth of declaring a length: said where it is sure, and nothing where chance, a quiet week or small jobs explain it."""

import re

import numpy as np
import pytest
from django.core.cache import cache

from portal.pages.dashboard.people.declared import Waited, compare
from portal.people.tenants.models import Tenant
from portal.work.jobs.models import Job
from tests.portal import given


def waits(rng, count, scale_s, **more):
    start = int(rng.integers(1 << 40))
    fields = {"week": 1, "gpus": 1, "declared": False} | more
    return [
        Waited(job=start + place, waited_s=float(scale_s * rng.lognormal(0, 1.5)), **fields) for place in range(count)
    ]


def test_a_clear_difference_is_told_with_the_jobs_that_were_compared():
    rng = np.random.default_rng(1)
    alone = waits(rng, 500, 9e9, gpus=8), waits(rng, 500, 0.1, week=2, declared=True)  # nothing to compare them with
    jobs = [*waits(rng, 120, 6000.0), *waits(rng, 64, 2000.0, declared=True), *alone[0], *alone[1]]
    found = compare(jobs)
    assert (found.declared, found.others) == (64, 120)
    assert 50 <= found.percent <= 80
    assert compare(jobs) == found, "the seed is fixed"


def test_sizes_and_weeks_do_not_make_a_difference():
    rng = np.random.default_rng(2)
    small_declare = [*waits(rng, 200, 100.0, declared=True), *waits(rng, 30, 100.0)]
    large_do_not = [*waits(rng, 30, 9000.0, gpus=8, declared=True), *waits(rng, 200, 9000.0, gpus=8)]
    assert compare([*small_declare, *large_do_not]) is None
    as_weeks = [each._replace(week=each.gpus, gpus=1) for each in (*small_declare, *large_do_not)]
    assert compare(as_weeks) is None


def test_chance_is_told_in_no_more_than_one_of_forty():
    told = sum(
        compare([*waits(rng, 90, 600.0), *waits(rng, 40, 600.0, declared=True)]) is not None for rng in seeds(200)
    )
    assert told <= 11, "of 200, 5 are expected; 12 and more come once in 200 times"


def seeds(count):
    return (np.random.default_rng(seed) for seed in range(count))


@pytest.mark.parametrize(
    "scales",
    [pytest.param((6000.0, 7000.0), id="longer"), pytest.param((8.0, 2.0), id="of seconds")],
)
def test_what_is_longer_or_slight_is_not_told(scales):
    rng = np.random.default_rng(3)
    assert compare([*waits(rng, 200, scales[0]), *waits(rng, 200, scales[1], declared=True)]) is None


def test_nineteen_jobs_are_too_few_and_an_array_is_one_job():
    rng = np.random.default_rng(4)
    few = waits(rng, 19, 10.0, declared=True)
    others = waits(rng, 100, 60_000.0)
    assert compare([*few, *others]) is None
    assert compare([*few, *others, *([few[0]] * 500)]) is None
    assert compare([*few, *others, few[0]._replace(job=-1)]) is not None


@pytest.mark.django_db
def test_the_tenant_s_page_says_it_of_its_own_jobs_once_an_hour(cluster, client, django_assert_max_num_queries):
    theirs = given.member("otto", Tenant.objects.create(name="audio-lab"))
    job = cluster.ran(60.0)
    fields = {each.name: getattr(job, each.name) for each in Job._meta.concrete_fields if each.name != "id"}
    Job.objects.bulk_create(
        Job(
            **fields
            | {"waited_s": 1000.0 + place if place % 2 else 9000.0 + place, "samples": 100 if place % 2 else None}
        )
        for place in range(80)
    )
    cache.clear()
    client.force_login(theirs)
    assert "data-shorter" not in client.get("/tenants/audio-lab/").content.decode()
    client.force_login(cluster.owner)
    text = client.get("/tenants/vision-lab/").content.decode()
    said = re.search(r"data-shorter>(.*?)</p>", text)[1]
    assert (
        said
        == "Jobs with a declared length waited 88 % shorter than others of their week and size (40 jobs against 41)."
    )
    Job.objects.update(waited_s=0)
    assert "data-shorter" in client.get("/tenants/vision-lab/").content.decode()
