"""The demo's jobs are valid, of every kind, and fit two cores for about ten minutes."""

from collections import Counter

from portal.launch.demo.nodes import DEMO_NODES
from portal.launch.demo.workload import TENANTS, TRAININGS, workload
from portal.work.jobs.description import description_parse

JOBS = list(workload())


def test_each_is_valid(subtests):
    for tenant, user, description in JOBS:
        with subtests.test(description=description):
            assert user in TENANTS[tenant][1]
            parsed = description_parse(description)
            program = parsed.command.split()[1]
            assert program in parsed.files


def test_there_are_enough_of_every_kind():
    assert len(JOBS) >= 24
    assert set(Counter(tenant for tenant, _, _ in JOBS)) == set(TENANTS)
    assert {job["category"] for _, _, job in JOBS} == {"cv", "nlp", "speech", "cpu", "other"}
    largest = max(node.gpus for node in DEMO_NODES)
    sizes = [description_parse(job).gpus for _, _, job in JOBS]
    assert any(min(each) > largest for each in sizes), "one needs several nodes"
    assert any(len(each) > 1 for each in sizes), "some are elastic"
    assert len({tenant for tenant, _, job in JOBS if job.get("shareable")}) >= 2, "tenants share GPUs"
    assert any("array" in job for _, _, job in JOBS)


def test_each_fits_the_demo_cluster():
    total = {
        gpu_type: sum(n.gpus for n in DEMO_NODES if n.gpu_type == gpu_type) for gpu_type in ("A100 80 GB", "RTX 3090")
    }
    for _, _, job in JOBS:
        parsed = description_parse(job)
        assert min(parsed.gpus) <= max(total[name] for name in parsed.gpu_types or total), job["name"]


def test_the_trainings_keep_the_demo_s_gpus_busy_for_about_ten_minutes():
    """GPU-seconds between the smallest and the largest sizes the planning may choose, over the GPUs there are."""
    gpus = sum(node.gpus for node in DEMO_NODES)
    least = len(TENANTS) * sum(min(sizes) * seconds for sizes, seconds in TRAININGS) / gpus
    most = len(TENANTS) * sum(max(sizes) * seconds for sizes, seconds in TRAININGS) / gpus
    assert 240 < least < 600
    assert 300 < most < 900
