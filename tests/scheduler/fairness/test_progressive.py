"""Windows per array, filled progressively (algorithms.md section 4)."""

from hypothesis import given
from hypothesis import strategies as st

from scheduler.fairness import progressive, window
from scheduler.fairness.arrays import Array, Shares, array_of
from scheduler.fairness.progressive import ArrayWindow
from scheduler.model import Ranked, Tenant, labelled
from scheduler.placement.ledger import Ledger
from tests.scheduler.builders import job, node, running


def ranked(jobs):
    return [Ranked(each, rank, 1.0, 1.0, 600.0, "test") for rank, each in enumerate(jobs, 1)]


def filled(jobs, *, small=8, large=None, idle=8, held=None, tenants=(), live=()):
    """Windows of `small` (and `large`) GPUs; with `large` None the cluster is undivided."""
    windows = {Array.GPU_SMALL: ArrayWindow(small, idle)}
    if large is not None:
        windows[Array.GPU_LARGE] = ArrayWindow(large, idle)
    total = small + (large or 0)

    def array(each):
        return Array.GPU_SMALL if large is None else array_of(each.job.requirement)

    queue = ranked(jobs)
    return progressive.fill(
        queue,
        labelled(queue, lambda each: (each.job.tenant, array(each))),
        windows,
        Shares(total, {each.id: each.weight for each in tenants}, dict(held or {})),
        Ledger([node(1, total)], tenants, live),
        array=array,
        units=lambda each: each.job.min_gpus,
    )


def ids(picked):
    return [each.job.id for each in picked]


def test_tenants_take_turns_by_share_and_each_by_its_own_queue():
    jobs = [*(job(number, 1) for number in range(1, 9)), *(job(number, 1, tenant=2) for number in range(9, 13))]
    assert ids(filled(jobs).picked) == [1, 9, 2, 10, 3, 11, 4, 12]


def test_what_runs_counts_before_what_is_picked():
    """Tenant 1 holds 90 of 100 GPUs and has the oldest jobs: the ten idle ones are tenant 2's, who has none."""
    jobs = [*(job(number, 1) for number in range(1, 41)), *(job(number, 1, tenant=2) for number in range(41, 81))]
    windows = filled(jobs, small=100, idle=10, held={1: 90})
    front = windows.by_array[Array.GPU_SMALL].front
    assert ids(front) == list(range(41, 51))
    assert len(windows.by_array[Array.GPU_SMALL].backfill) == 70


def test_weights_count():
    jobs = [*(job(number, 1) for number in range(1, 9)), *(job(number, 1, tenant=2) for number in range(9, 17))]
    picked = filled(jobs, small=9, tenants=[Tenant(1, weight=2.0), Tenant(2)]).picked
    assert [sum(each.job.tenant == tenant for each in picked) for tenant in (1, 2)] == [6, 3]


def test_the_job_that_crosses_the_line_is_still_front_and_there_is_always_one():
    jobs = [job(1, 3), job(2, 3, tenant=2), job(3, 1)]
    assert ids(filled(jobs, idle=4).by_array[Array.GPU_SMALL].front) == [1, 2]
    assert ids(filled(jobs, idle=0).by_array[Array.GPU_SMALL].front) == [1]


def test_alone_a_tenant_has_no_backfill():
    array = filled([job(number, 1) for number in range(1, 5)], idle=1).by_array[Array.GPU_SMALL]
    assert (ids(array.front), ids(array.backfill)) == ([1, 2, 3, 4], [])


def test_arrays_have_windows_of_their_own_and_shares_in_common():
    jobs = [job(1, 4), job(2, 1), job(3, 1, tenant=2), job(4, 1, tenant=2), job(5, 4, tenant=2), job(6, 1)]
    windows = filled(jobs, small=3, large=4)
    assert ids(windows.by_array[Array.GPU_LARGE].picked) == [1]  # 4 of 4 GPUs: closed
    # Tenant 1 has 4 GPUs of the large array by then, so the small one is filled from tenant 2 first.
    assert ids(windows.by_array[Array.GPU_SMALL].picked) == [3, 4, 2]


def test_a_quota_sates_a_tenant():
    jobs = [*(job(number, 1) for number in range(1, 6)), job(6, 1, tenant=2)]
    windows = filled(jobs, tenants=[Tenant(1, gpu_quota=2)], live=[running(9, 1, 1, 1)])
    assert ids(windows.picked) == [1, 6, 2]
    assert windows.sated == {3, 4, 5}


@given(
    st.lists(st.integers(1, 8), max_size=20),
    st.integers(0, 30),
    st.none() | st.integers(0, 12),
    st.integers(0, 3),
)
def test_one_tenant_and_one_array_is_hops_window(sizes, gpus, quota, held):
    queue = ranked(job(number, size) for number, size in enumerate(sizes, 1))
    tenants, live = [Tenant(1, gpu_quota=quota)], [running(99, 1, 1, held)]
    ledger = Ledger([node(1, gpus)], tenants, live)
    hops = window.fill(queue, ledger, 1.0)
    array = ArrayWindow(gpus, gpus)
    ours = progressive.fill(
        queue,
        labelled(queue, lambda each: (each.job.tenant, Array.GPU_SMALL)),
        {Array.GPU_SMALL: array},
        Shares(gpus, {}, {1: held}),
        ledger,
        array=lambda _: Array.GPU_SMALL,
        units=lambda each: each.job.min_gpus,
    )
    assert (ours.picked, ours.sated) == (hops.picked, hops.sated)
    assert tuple(array.front) == hops.picked


def test_who_gave_back_what_it_had_borrowed_stands_at_the_head_of_its_array():
    """Section 4: stopped borrowers go to the head, before a smaller share and an older job."""
    jobs = [job(1, 1, tenant=2), job(2, 1), job(3, 1, gave_back=True), job(4, 4, gave_back=True)]
    windows = filled(jobs, small=3, large=4, held={1: 5})
    assert ids(windows.by_array[Array.GPU_SMALL].picked) == [3, 1, 2]
    assert ids(windows.by_array[Array.GPU_LARGE].picked) == [4]
    assert ids(filled(jobs, tenants=[Tenant(1, gpu_quota=1)]).picked) == [3, 1]
