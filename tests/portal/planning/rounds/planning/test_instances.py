"""A node whose GPUs are cut by MIG, from the agent's hello to the job's environment (docs/decisions/0248)."""

import pytest
from django.utils import timezone
from hypothesis import given as drawn
from hypothesis import strategies as st

from portal.cluster import gpu_states
from portal.cluster.models import GpuType
from portal.cluster.selectors import capacity_check
from portal.cluster.services.joining import gpu_type_upsert, node_hello
from portal.foundation.errors import BerthError
from portal.planning.estimation.calibration import calibration_tasks
from portal.planning.estimation.links import links_assume
from portal.planning.estimation.models import Link, Signature, SignatureUse
from portal.planning.rounds.asking.scaling import scaling
from portal.planning.rounds.planning.run import planning_run
from portal.work.jobs.models import Allocation
from portal.work.jobs.selectors import part_spec
from scheduler.estimator.measured import signature_of as core_signature
from scheduler.model import placements as core
from tests.portal import given
from tests.portal.planning.rounds.planning.test_bays import held, snapshot

WHOLE = "NVIDIA A100-SXM4-80GB"
SMALL, LARGE = f"{WHOLE} MIG 1g.10gb", f"{WHOLE} MIG 3g.40gb"


def cut(cluster, *, whole=2, small=3, large=0):
    """The cluster's node says that it has this number of whole GPUs, and instances of another one."""
    kinds = [(WHOLE, 81920, whole), (SMALL, 9856, small), (LARGE, 40192, large)]
    names = [(name, mib) for name, mib, count in kinds for _ in range(count)]
    first = next(name for name, _, count in kinds if count)
    told = [
        {"index": at, "uuid": f"{'MIG' if 'MIG' in name else 'GPU'}-{at}", "memory_mib": mib}
        | ({} if name == first else {"gpu_type": name})
        for at, (name, mib) in enumerate(names)
    ]
    inventory = given.inventory(cluster.node, gpus=told, gpu_type=first)
    return node_hello(node=cluster.node, inventory=inventory)


words = st.sampled_from(
    ["NVIDIA", "A100", "A30", "SXM4", "80GB", "MIG", "mig", "1g.10gb", "2G.20GB", "1c.3g.20gb", "+me", "g"]
)
names = st.builds(str.join, st.sampled_from([" ", "_", "-", ""]), st.lists(words, max_size=5))


@drawn(names)
def test_portal_and_core_tell_instances_alike(name):
    found = gpu_states.instance_of(name)
    assert (found is not None) is core.is_instance(name)
    assert (1.0 if found is None else found.share) == core.share_of_gpu(name)
    assert (gpu_states.PROFILE, gpu_states.SLICES_OF, gpu_states.SLICES) == (core.PROFILE, core.SLICES_OF, core.SLICES)


@pytest.mark.parametrize(
    ("name", "whole", "profile"),
    [
        (SMALL, WHOLE, "1g.10gb"),
        ("NVIDIA H100 80GB HBM3 MIG 1g.10gb+me", "NVIDIA H100 80GB HBM3", "1g.10gb+me"),
        ("a100_1c.3g.20gb", "a100", "1c.3g.20gb"),
        ("mig-1g.5gb", "", "1g.5gb"),
        ("1g.5gb", "", "1g.5gb"),
    ],
)
def test_a_name_tells_the_gpu_and_the_profile(name, whole, profile):
    assert gpu_states.instance_of(name)[:2] == (whole, profile)


def test_a_new_type_of_instances_has_its_part_of_a_gpu_and_keeps_what_the_operator_says(cluster):
    cut(cluster)
    kind = GpuType.objects.get(name=SMALL)
    assert (kind.relative_speed, kind.share_weight) == (pytest.approx(1 / 7), pytest.approx(1 / 7))
    assert GpuType.objects.get(name=WHOLE).relative_speed == 1.0
    gpu_type_upsert(name=SMALL, relative_speed=0.3)
    cut(cluster)
    assert snapshot().gpu_speeds[SMALL] == 0.3


def test_the_whole_road(cluster):
    """Two GPUs are whole ones, a slice is that slice, one of any type is whole while there are, and then an instance."""
    node = cut(cluster, whole=2, small=2, large=1)
    slice_ = cluster.submit(gpus=1, gpu_types=[LARGE])
    two = cluster.submit(gpus=2)
    planning_run()
    one = cluster.submit(gpus=1)
    planning_run()
    assert [held(job)[1] for job in (slice_, two, one)] == [[4], [0, 1], [2]]
    part = Allocation.objects.get(attempt__job=one)
    spec = part_spec(node=node, key=part.attempt.key)
    assert (spec["gpu_type"], spec["gpu_uuids"]) == (SMALL, ["MIG-2"])
    more = cluster.submit(gpus=1, gpu_types=[LARGE])
    planning_run()
    more.refresh_from_db()
    assert more.reason == "not-enough-idle-gpus"
    assert not Allocation.objects.filter(attempt__job=more).exists()


def test_a_job_that_only_several_instances_could_hold_is_refused_with_a_remedy(cluster):
    cut(cluster, whole=0, small=7)
    with pytest.raises(BerthError, match=r"instances \(MIG\): each takes jobs of one GPU. Ask for gpus: 1") as error:
        cluster.submit(gpus=2)
    assert error.value.field == "gpus"
    capacity_check(gpus=[1, 2, 4], gpu_types=[], cores=None, memory_mib=None)
    elastic = cluster.submit(gpus=[1, 2, 4])
    planning_run()
    assert len(held(elastic)[1]) == 1


def test_a_slice_is_asked_for_one_by_one(cluster):
    cut(cluster, whole=4, small=3)
    with pytest.raises(BerthError, match="each takes jobs of one GPU"):
        capacity_check(gpus=[2], gpu_types=[SMALL], cores=None, memory_mib=None)
    capacity_check(gpus=[2], gpu_types=[SMALL, WHOLE], cores=None, memory_mib=None)
    with pytest.raises(BerthError, match="the most there are of an allowed type is 4"):
        capacity_check(gpus=[5], gpu_types=[], cores=None, memory_mib=None)


def test_instances_have_no_links(cluster):
    cut(cluster)
    links_assume()
    assert list(Link.objects.values_list("gpu_type__name", flat=True)) == [WHOLE]


def test_predicted_speeds_of_an_instance_are_of_one(cluster):
    cut(cluster)
    told = {
        each.gpu_type: each for each in scaling(tenant=cluster.tenant, label=None, accepted=[1, 2], gpu_types=[]).types
    }
    assert (list(told[SMALL].sizes), list(told[WHOLE].sizes)) == ([1], [1, 2])
    assert told[WHOLE].sizes[1].speed == pytest.approx(7 * told[SMALL].sizes[1].speed)


def test_links_of_instances_are_not_calibrated(cluster):
    cut(cluster, whole=0, small=4)
    assert {task.why for task in calibration_tasks(names=[SMALL])} == {"instances (MIG) exchange nothing"}


def test_who_was_seen_to_need_more_memory_does_not_fall_back_on_an_instance(cluster):
    cut(cluster, whole=1, small=1, large=1)
    cluster.submit(gpus=1, gpu_types=[WHOLE])
    planning_run()
    name = core_signature(cluster.tenant.pk, "llm", 0)
    use = SignatureUse(
        signature=Signature.objects.create(name=name, tenant=cluster.tenant, used_at=timezone.now()),
        gpu_type=GpuType.objects.get(name=WHOLE),
    )
    use.at, use.most = timezone.now(), {"gpu_memory_mib": 20_000.0}
    use.save()
    large, waits = cluster.submit(gpus=1, model="llm"), cluster.submit(gpus=1, model="llm")
    planning_run()
    assert held(large)[1] == [2], "the instance of 40 GB holds it"
    assert not Allocation.objects.filter(attempt__job=waits).exists()
    unknown = cluster.submit(gpus=1, model="other")
    planning_run()
    assert held(unknown)[1] == [1]
