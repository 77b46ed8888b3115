"""Each reason of the vocabulary (algorithms.md section 7), produced by a cluster, with its figures and its sentence."""

import json
from dataclasses import replace

import pytest

from scheduler.explaining.sentences import sentence
from scheduler.model import GpuPart, Holder, PartedGpu, Promise, Reason, Running, Share, Tenant
from tests.scheduler.builders import NOW_S, decisions_of, job, make_plan, node, running, ticking, why


def one(made, number=1):
    decision = decisions_of(made)[number]
    return decision, sentence(decision.reason, decision.figures)


def outside_window():
    return (
        make_plan([node(1, 2)], [job(1, 2), job(2, 1), job(3, 1)]),
        3,
        (
            "It waits for its turn: place 2 of 2 in the queue for GPU jobs. "
            "A planning considers the first jobs of a queue until they ask for 2 GPUs. "
            "This time it considered 1 job and started 1."
        ),
    )


def strict_order():
    nodes = [node(1, 4, idle=1)]
    return (
        make_plan(nodes, [job(1, 4, tenant=2), job(2, 1)], policy="fifo"),
        2,
        (
            "It waits for its turn: place 2 of 2 in the queue for GPU jobs. "
            "Jobs start strictly in order, and a job of another tenant at place 1 does not fit yet."
        ),
    )


def tenant_quota():
    made = make_plan(
        [node(1, 8, idle=6)], [job(1, 3)], running=[running(9, 1, 1, 2, 2)], tenants=[Tenant(1, gpu_quota=4)]
    )
    return made, 1, ("Its tenant may hold 4 GPUs at a time, its quota. 2 are in use. This job needs 3, and 2 are left.")


def core_quota():
    return (
        make_plan([node(1)], [job(1, cores=9)], tenants=[Tenant(1, core_quota=8)]),
        1,
        ("Its tenant may hold 8 CPU cores at a time, its quota. None is in use. This job needs 9, and 8 are left."),
    )


def quota_asked_ahead():
    jobs = [job(1, 4), job(2, 1)]
    made = make_plan([node(1, 2), node(2, 2), node(3, 4, idle=0)], jobs, tenants=[Tenant(1, gpu_quota=4)])
    return (
        made,
        2,
        ("Its tenant may hold 4 GPUs at a time, its quota. The tenant's jobs ahead of this one ask for all of that."),
    )


def no_node_with_type():
    made = make_plan([node(1)], [job(1, 1, gpu_types=frozenset({"h100"}))], gpu_speeds={"h100": 2.0})
    return (
        made,
        1,
        (
            "It needs 1 GPU of type h100, and no node has such GPUs. "
            "The cluster has GPUs of type a100. "
            "Allow another type, or ask the operator."
        ),
    )


def not_enough_idle_gpus():
    return make_plan([node(1, 4, idle=1)], [job(1, 2)]), 1, ("It needs 2 GPUs, and 1 is idle.")


def larger_than_the_cluster():
    return (
        make_plan([node(1, 4), node(2, 4)], [job(1, 16)]),
        1,
        ("It needs 16 GPUs. The whole cluster has 8 that it may use. Ask for fewer."),
    )


def not_enough_memory():
    made = make_plan([node(1, 4, idle_memory_mib=1000)], [job(1, 1, memory_mib=2000)])
    return (
        made,
        1,
        (
            "It needs 1.95 GiB of memory on one node. "
            "Of the nodes with GPUs for it, the one with the most idle memory has 0.98 GiB."
        ),
    )


def not_enough_memory_ever():
    return (
        make_plan([node(1, memory_mib=1000)], [job(1, 1, memory_mib=2000)]),
        1,
        (
            "It needs 1.95 GiB of memory on one node. "
            "Of the nodes with GPUs for it, the one with the most memory has 0.98 GiB. "
            "Ask for less."
        ),
    )


def not_enough_cores():
    return (
        make_plan([node(1, 4, idle_cores=1)], [job(1, 2)]),
        1,
        (
            "It needs 2 CPU cores on one node. "
            "Of the nodes with GPUs for it, the one with the most idle CPU cores has 1."
        ),
    )


def not_enough_cores_for_cpu_job():
    return (
        make_plan([node(1, 0, cores=4)], [job(1, cores=8)]),
        1,
        (
            "It needs 8 CPU cores on one node. "
            "Of the nodes that it may use, the one with the most CPU cores has 4. "
            "Ask for fewer."
        ),
    )


def gpus_scattered():
    nodes = [node(1, 4, idle=2), node(2, 4, idle=2)]
    return (
        make_plan(nodes, [job(1, 4)]),
        1,
        ("It needs 4 GPUs together on one node. The most that are idle on one node are 2, on n1 and n2."),
    )


def lost_to_higher_priority():
    nodes = [node(1, 4), node(2, 4, idle=0)]
    made = make_plan(nodes, [job(1, 3, tenant=2, wait_s=900), job(2, 1, wait_s=800), job(3, 4, wait_s=9)])
    return (
        made,
        3,
        (
            "It would have fitted, but the room went to job 2 and a job of another tenant, which have more priority or gain more from it. "
            "On n1 it needs 4 GPUs, and none is left."
        ),
    )


def lost_to_own_job():
    made = make_plan([node(1, 4), node(2, 4, idle=0)], [job(1, 4, wait_s=900), job(2, 4, wait_s=9)])
    return (
        made,
        2,
        (
            "It would have fitted, but the room went to job 1, which has more priority or gains more from it. "
            "On n1 it needs 4 GPUs, and none is left."
        ),
    )


def dependency():
    figures = {"depends_on": [7, 8]}
    waiting = job(1, 1, eligible=False, ineligible_reason=Reason.DEPENDENCY, ineligible_figures=figures)
    return make_plan([node(1)], [waiting]), 1, ("It waits for job 7 and job 8 to end.")


def held():
    return (
        make_plan([node(1)], [job(1, 1, eligible=False, ineligible_reason=Reason.HELD)]),
        1,
        ("It is held. Release it to let it queue."),
    )


def restored():
    figures = {"nodes": ["n1", "n2"], "more": 3}
    waiting = job(1, 1, eligible=False, ineligible_reason=Reason.RESTORED, ineligible_figures=figures)
    words = (
        "Berth was restored from a backup, and n1, n2 and 3 more have not said yet what runs there. This job may be running "
        "there; it waits, so that it never runs twice at once."
    )
    return make_plan([node(1)], [waiting]), 1, words


def solver_limit():
    # Every reading of the clock costs 3 s of 15: time is up while configurations are still being generated.
    made = make_plan([node(1, 8)], [job(number, 1) for number in range(1, 9)], clock=ticking(3.0))
    return made, 8, ("The planning's time was up (15 s) before this job's turn. The next planning tries again.")


def not_planned_yet():
    return (
        make_plan([node(1)], [job(1)], clock=ticking(30.0)),
        1,
        ("No planning has considered it yet. The next one will."),
    )


def invalid():
    return (
        make_plan([node(1)], [job(1, 2, 1)]),
        1,
        ("It cannot be planned: requirement [2, 1] must be ascending and without repeats."),
    )


def nodes_unavailable():
    nodes = [node(1, 8, schedulable=False, unavailable_because="draining"), node(2, 2)]
    return (
        make_plan(nodes, [job(1, 4)]),
        1,
        ("It needs 4 GPUs. The nodes that could hold it take no jobs now: n1 (draining)."),
    )


def no_nodes_at_all():
    return make_plan([], [job(1)]), 1, ("It needs 1 CPU core. No node has joined the cluster.")


def tenant_not_trusted():
    nodes = [node(1, 4, single_account=True, trusts_tenants=False, tenants=frozenset({2}))]
    return (
        make_plan(nodes, [job(1, 1)]),
        1,
        ("It would fit on n1, but another tenant's jobs run there under the same account. It waits until they end."),
    )


def checkpoint_elsewhere():
    nodes = [node(1, 4, idle=0, storage_domain="nfs"), node(2, 4)]
    return (
        make_plan(nodes, [job(1, 1, checkpoint_domain="nfs")]),
        1,
        (
            "It goes on from its checkpoint, which only nodes of storage domain nfs can read: n1. "
            "There is no room for it there now."
        ),
    )


def software_on_a_full_node():
    nodes = [node(1, 4, idle=0, offers=frozenset({"environment:torch"})), node(2, 4)]
    made = make_plan(nodes, [job(1, 1, software="environment:torch")])
    return made, 1, "It needs a node with the environment torch. These have no room for it now: n1."


def software_nowhere():
    said = (
        "It needs a node that builds environments, and no node for it is one. "
        "Ask the operator to install uv or pip on one and start its agent again, or change the job's software."
    )
    return make_plan([node(1), node(2)], [job(1, cores=1, software="build")]), 1, said


def image_nowhere():
    said = (
        "It needs a node that runs container images, and no node for it is one. Ask the operator to install Apptainer on one "
        "(its page says what it lacks), or change the job's software."
    )
    return make_plan([node(1), node(2)], [job(1, cores=1, software="image")]), 1, said


def software_on_a_node_that_is_away():
    nodes = [node(1, schedulable=False, offers=frozenset({"build"})), node(2)]
    said = "It needs 1 GPU. The nodes that could hold it take no jobs now: n1."
    return make_plan(nodes, [job(1, 1, software="build")]), 1, said


def checkpoint_on_a_node_that_is_away():
    made = make_plan([node(1, schedulable=False), node(2)], [job(1, 1, checkpoint_domain="node:1")])
    return (
        made,
        1,
        (
            "It goes on from its checkpoint, which only nodes of storage domain node:1 can read. "
            "None of them takes jobs now."
        ),
    )


def being_profiled():
    made = make_plan([node(1)], [job(1, 1, 2, age_s=None, instrumented=True)])
    return made, 1, ("Its speed is being measured on one GPU of a100 (n1), for 60 s at most. Then it is placed.")


def outside_by_share():
    nodes, live = [node(1, 4, idle=0), node(2, 4)], [running(9, 1, 1, gpus=4)]
    jobs = [job(n, 1, tenant=1 + (n > 2), wait_s=900.0 - n) for n in range(1, 14)]
    made = make_plan(nodes, jobs, running=live, policy="berth", arrays="off", sweep="off")
    words = (
        "It waits for its turn: place 9 of 9 in the queue for GPU jobs. "
        "A planning considers the first jobs of a queue until they ask for 8 GPUs. "
        "This time it considered 8 jobs and started 4. "
        "Its tenant has 75% of the GPUs by weight, with its considered jobs counted. "
        "Tenants with less go first."
    )
    return made, 13, words


def outside_the_window_of_an_array():
    nodes = [node(1, 4, idle=0), node(2, 4)]
    made = make_plan(nodes, [job(n, 1) for n in range(1, 7)], policy="berth", borrowing="off", sweep="off")
    return (
        made,
        6,
        (
            "It waits for its turn: place 2 of 2 in the queue for jobs of 1 to 3 GPUs. "
            "A planning considers the first jobs of a queue until they ask for 4 GPUs. "
            "This time it considered 4 jobs and started 4."
        ),
    )


def starving_job_of_4():
    """Job 1 waits for node 1 to drain; job 2 is kept from what is idle there."""
    live = [Running(91, 2, running(0, 2, 1, 2).pieces, 0.0, (1,), expected_end_s=NOW_S + 300)]
    jobs = [job(1, 4, wait_s=5000, age_s=1000), job(2, 1, wait_s=5, age_s=900)]
    return make_plan([node(1, 4, idle=2), node(2, 4, idle=0)], jobs, running=live, policy="berth", arrays="off")


def reserved_for_another_job():
    return (
        starving_job_of_4(),
        2,
        (
            "The 2 idle GPUs on n1 are kept for job 1 until about 1970-01-12T13:52Z. "
            "Job 1 has waited long for its length and should start there then. "
            "Only a job that should end before that time may use them."
        ),
    )


def kept_for_this_job():
    return (
        starving_job_of_4(),
        1,
        (
            "It needs 4 GPUs, and 2 are idle. What becomes idle on n1 is kept for it until it starts there, "
            "when what runs there has ended: by about 1970-01-12T13:52Z."
        ),
    )


def reserved_for_an_array():
    jobs = [job(1, 4, wait_s=0), job(2, 1)]
    made = make_plan([node(1, 4, idle=3), node(2, 4, idle=0)], jobs, policy="coda")
    return (
        made,
        2,
        (
            "Idle GPUs are kept for jobs of 4 GPUs and more, and such jobs queue. "
            "Only a job that can be stopped may borrow them: one that is checkpointable or restartable."
        ),
    )


def reserved_cores():
    return (
        make_plan([node(1, 8)], [job(1, cores=9)], policy="berth"),
        1,
        (
            "Idle CPU cores are kept for GPU jobs. "
            "Only a job that can be stopped may borrow them: one that is checkpointable or restartable."
        ),
    )


def promised_to_this_job(of_tenant=3):
    promise = Promise((Share(1, 4, 4, 0),), NOW_S, "call-back")
    live = [Running(90, 2, running(0, 2, 1, 2, 2).pieces, 0.0, (2,), movable=True, stopping=True)]
    nodes = [node(1, 4, idle=2, idle_cores=30)]
    jobs = [job(1, 4, promise=promise), job(2, 1, tenant=of_tenant, movable=True)]
    return (
        make_plan(nodes, jobs, running=live, policy="berth", arrays="off"),
        1,
        ("It needs 4 GPUs, which are being freed on n1. It starts there when all of them are idle."),
    )


def reserved_by_a_promise():
    made, _, _ = promised_to_this_job()
    words = (
        "The 2 idle GPUs on n1 are kept for a job of another tenant until 1970-01-12T13:57Z at the latest. "
        "That job starts there as soon as others have stopped for it."
    )
    return made, 2, words


def reserved_by_a_promise_of_its_own_tenant():
    made, _, _ = promised_to_this_job(of_tenant=1)
    words = (
        "The 2 idle GPUs on n1 are kept for job 1 until 1970-01-12T13:57Z at the latest. "
        "Job 1 starts there as soon as others have stopped for it."
    )
    return made, 2, words


def reserved_by_a_resize():
    """Job 1 runs on 2 GPUs of node 1 and stops there for 4 of node 2, of which 1 is idle beside a job that ends."""
    promise = Promise((Share(2, 4, 4, 0),), NOW_S, "resize")
    own = Running(
        1,
        1,
        running(0, 1, 1, 2, 2).pieces,
        0.0,
        (2, 4),
        movable=True,
        elastic=True,
        stopping=True,
        description=job(1, 2, 4, tenant=1, movable=True, promise=promise),
    )
    ends = Running(90, 2, running(0, 2, 2, 3).pieces, 0.0, (3,), movable=True, stopping=True)
    nodes = [node(1, 2, idle=0, idle_cores=30), node(2, 4, idle=1, idle_cores=30)]
    made = make_plan(nodes, [job(2, 1, tenant=3, movable=True)], running=[own, ends], policy="berth", arrays="off")
    words = (
        "The idle GPU on n2 is kept for a job of another tenant until 1970-01-12T13:57Z at the latest. "
        "That job goes on there as soon as it has stopped where it runs now."
    )
    return made, 2, words


def reserved_by_two_promises():
    """Neither node alone holds it: what both keep would."""
    to = {
        1: Promise((Share(1, 2, 2, 0),), NOW_S, "call-back"),
        2: Promise((Share(2, 2, 2, 0),), NOW_S - 60, "call-back"),
    }
    live = [
        Running(91, 9, running(0, 9, 1, 1, 1).pieces, 0.0, (1,), movable=True, stopping=True),
        Running(92, 9, running(0, 9, 2, 1, 1).pieces, 0.0, (1,), movable=True, stopping=True),
    ]
    nodes = [node(1, 2, idle=1, idle_cores=30), node(2, 2, idle=1, idle_cores=30)]
    waiting = [*(job(n, 2, tenant=n, promise=given) for n, given in to.items()), job(3, 1, 2, tenant=2, movable=True)]
    return make_plan(nodes, waiting, running=live, policy="berth", arrays="off")


def several_keepers():
    figures = {
        "needs": {"gpus": [8], "min_gpus": 8, "gpu_types": [], "cores": 8},
        "kept_for": "job",
        "nodes": ["n1", "n2"],
        "keepers": [
            {"job": 7, "nodes": ["n1"], "gpus": 4, "until_s": NOW_S + 300, "cause": "reservation"},
            {"job": None, "nodes": ["n2"], "gpus": 4, "until_s": NOW_S + 600, "cause": "call-back"},
        ],
    }
    return sentence("reserved", figures)


def idle_of_two_types():
    nodes = [node(1, 4, idle=3), node(2, 4, idle=2, gpu_type="h100")]
    made = make_plan(nodes, [job(1, 4)], gpu_speeds={"a100": 1.0, "h100": 2.0})
    return made, 1, "It needs 4 GPUs, all of one type. Idle are: 3 a100, 2 h100."


def larger_than_each_type():
    nodes = [node(1, 4), node(2, 4, gpu_type="h100")]
    made = make_plan(nodes, [job(1, 8)], gpu_speeds={"a100": 1.0, "h100": 2.0})
    return made, 1, "It needs 8 GPUs. The whole cluster has 4 of one type that it may use. Ask for fewer."


def larger_than_the_largest_type():
    nodes = [replace(node(1, 6), shared=(PartedGpu(6, 1024), PartedGpu(7, 1024))), node(2, 4, gpu_type="h100")]
    made = make_plan(nodes, [job(1, 8)], gpu_speeds={"a100": 1.0, "h100": 2.0})
    has = "The whole cluster has 6 of type a100 that it may use, besides 2 for jobs that share a GPU"
    return made, 1, f"It needs 8 GPUs. {has}. Ask for fewer."


def too_few_cores_over_several_nodes():
    nodes = [node(number, 4, idle_cores=3) for number in (1, 2)]
    said = "It needs 8 GPUs over several nodes, each with 1 CPU core. Only 6 GPUs have so many idle."
    return make_plan(nodes, [job(1, 8)]), 1, said


def too_little_memory_over_several_nodes():
    nodes = [node(number, 4, idle_memory_mib=300) for number in (1, 2)]
    said = "It needs 8 GPUs over several nodes, each with 0.1 GiB of memory. Only 6 GPUs have so much idle."
    return make_plan(nodes, [job(1, 8, memory_mib=800)]), 1, said


def strict_order_of_a_tenant():
    nodes = [node(1, 4, idle=1)]
    said = (
        "It waits for its turn: place 3 of 3 in the queue for GPU jobs. "
        "Jobs start strictly in order, and job 1 at place 1 does not fit yet."
    )
    return (
        make_plan(nodes, [job(1, 4), job(2, 1, tenant=2), job(3, 1, tenant=1), job(4, 2, tenant=2)], policy="drf"),
        3,
        said,
    )


def strict_order_behind_a_cpu_job():
    said = (
        "It waits for its turn: place 1 of 1 in the queue for GPU jobs. "
        "Jobs start strictly in order, and job 1 at place 1 in the queue for CPU jobs does not fit yet."
    )
    return make_plan([node(1, 4, idle_cores=4)], [job(1, cores=8), job(2, 1)], policy="fifo"), 2, said


def reserved_while_nobody_may_borrow():
    jobs = [job(1, 4, wait_s=0), job(2, 1)]
    made = make_plan([node(1, 4, idle=3), node(2, 4, idle=0)], jobs, policy="berth", borrowing="off")
    said = "Idle GPUs are kept for jobs of 4 GPUs and more, and on this cluster no job may borrow them."
    return made, 2, said


def reserved_cores_beside_idle_gpus():
    """The GPUs of its own pool idle, but only cores of the CPU pool are left beside them."""
    nodes = [node(1, 2, cores=32, idle=2, idle_cores=26)]
    live = [running(90, 2, 1, gpus=0, cores=6)]
    made = make_plan(nodes, [job(1, 1, cores=8, least_cores=8), job(2, cores=1)], running=live, policy="coda")
    said = (
        "Idle CPU cores beside idle GPUs are kept for CPU jobs, and such jobs queue. "
        "Only a job that can be stopped may borrow them: one that is checkpointable or restartable."
    )
    return made, 1, said


def tenant_quota_used_by_this_planning():
    jobs = [job(1, 3, wait_s=900), job(2, 2, wait_s=9)]
    said = "Its tenant may hold 4 GPUs at a time, its quota. 3 are in use. This job needs 2, and 1 is left."
    return make_plan([node(1, 8)], jobs, tenants=[Tenant(1, gpu_quota=4)]), 2, said


def _sharing(*gpus, **knobs):
    host = replace(node(1, 0), gpu_type="a100", shared=gpus)
    return make_plan([host], [replace(job(1, 1), part=GpuPart(600, 2048))], **knobs)


def closing(**more):
    made = make_plan([node(1, closes_s=NOW_S + 300.0), node(2, idle=0)], [job(1, 1, age_s=3600.0, **more)])
    assert decisions_of(made)[1].figures["nodes"] == ["n1"]
    return made


def nodes_close():
    words = (
        "The GPUs that are free are given back by 1970-01-12T13:52Z, and this job would probably still run then. "
        "It saves no checkpoints. If it is shorter, state a shorter time limit; or let it save checkpoints."
    )
    return closing(), 1, words


def nodes_close_on_who_would_start_anew():
    words = (
        "The GPUs that are free are given back by 1970-01-12T13:52Z, and this job would probably still run then. "
        "It saves no checkpoints, so it would have to start anew. "
        "If it is shorter, state a shorter time limit; or let it save checkpoints."
    )
    return closing(movable=True), 1, words


def nodes_close_on_who_saves():
    words = (
        "The GPUs that are free are given back by 1970-01-12T13:52Z. "
        "That is too soon for this job: starting it again elsewhere would cost more than it gets done."
    )
    return closing(movable=True, saves=True), 1, words


def no_shared_gpu():
    gpus = [PartedGpu(0, 1024), PartedGpu(1, 4096, (Holder(9, 2, "x", 500, 1024),))]
    return (
        _sharing(*gpus),
        1,
        (
            "It shares a GPU, with 60 % of the compute and 2 GiB. None of 2 GPUs that jobs may share takes it now: "
            "on 1 too little of its compute is left and on 1 too little of its GPU memory is left."
        ),
    )


def no_shared_gpu_up():
    words = "It shares a GPU, with 60 % of the compute and 2 GiB, and no shared GPU takes jobs now."
    return _sharing(PartedGpu(0, 4096, open=False)), 1, words


def sharing_off():
    words = (
        "It shares a GPU, with 60 % of the compute and 2 GiB, and no job starts on shared GPUs now: "
        "the operator switched that off."
    )
    return _sharing(PartedGpu(0, 4096), sharing_policy="off"), 1, words


CASES = {
    idle_of_two_types: Reason.NOT_ENOUGH_IDLE_GPUS,
    larger_than_each_type: Reason.NOT_ENOUGH_IDLE_GPUS,
    larger_than_the_largest_type: Reason.NOT_ENOUGH_IDLE_GPUS,
    too_few_cores_over_several_nodes: Reason.NOT_ENOUGH_CORES,
    too_little_memory_over_several_nodes: Reason.NOT_ENOUGH_MEMORY,
    strict_order_of_a_tenant: Reason.OUTSIDE_WINDOW,
    strict_order_behind_a_cpu_job: Reason.OUTSIDE_WINDOW,
    reserved_while_nobody_may_borrow: Reason.RESERVED,
    reserved_cores_beside_idle_gpus: Reason.RESERVED,
    tenant_quota_used_by_this_planning: Reason.TENANT_QUOTA,
    being_profiled: Reason.PROFILING,
    outside_by_share: Reason.OUTSIDE_WINDOW,
    outside_the_window_of_an_array: Reason.OUTSIDE_WINDOW,
    reserved_for_another_job: Reason.RESERVED,
    kept_for_this_job: Reason.NOT_ENOUGH_IDLE_GPUS,
    reserved_for_an_array: Reason.RESERVED,
    reserved_cores: Reason.RESERVED,
    promised_to_this_job: Reason.NOT_ENOUGH_IDLE_GPUS,
    reserved_by_a_promise: Reason.RESERVED,
    reserved_by_a_promise_of_its_own_tenant: Reason.RESERVED,
    reserved_by_a_resize: Reason.RESERVED,
    outside_window: Reason.OUTSIDE_WINDOW,
    strict_order: Reason.OUTSIDE_WINDOW,
    tenant_quota: Reason.TENANT_QUOTA,
    core_quota: Reason.TENANT_QUOTA,
    quota_asked_ahead: Reason.TENANT_QUOTA,
    no_node_with_type: Reason.NO_NODE_WITH_TYPE,
    not_enough_idle_gpus: Reason.NOT_ENOUGH_IDLE_GPUS,
    larger_than_the_cluster: Reason.NOT_ENOUGH_IDLE_GPUS,
    not_enough_memory: Reason.NOT_ENOUGH_MEMORY,
    not_enough_memory_ever: Reason.NOT_ENOUGH_MEMORY,
    not_enough_cores: Reason.NOT_ENOUGH_CORES,
    not_enough_cores_for_cpu_job: Reason.NOT_ENOUGH_CORES,
    gpus_scattered: Reason.GPUS_SCATTERED,
    lost_to_higher_priority: Reason.LOST_TO_HIGHER_PRIORITY,
    lost_to_own_job: Reason.LOST_TO_HIGHER_PRIORITY,
    dependency: Reason.DEPENDENCY,
    held: Reason.HELD,
    restored: Reason.RESTORED,
    solver_limit: Reason.SOLVER_LIMIT,
    not_planned_yet: Reason.NOT_PLANNED_YET,
    invalid: Reason.INVALID,
    nodes_unavailable: Reason.NODES_UNAVAILABLE,
    no_nodes_at_all: Reason.NODES_UNAVAILABLE,
    tenant_not_trusted: Reason.TENANT_NOT_TRUSTED,
    checkpoint_elsewhere: Reason.CHECKPOINT_ELSEWHERE,
    software_on_a_full_node: Reason.SOFTWARE_MISSING,
    software_nowhere: Reason.SOFTWARE_MISSING,
    image_nowhere: Reason.SOFTWARE_MISSING,
    nodes_close: Reason.NODES_CLOSE,
    nodes_close_on_who_would_start_anew: Reason.NODES_CLOSE,
    nodes_close_on_who_saves: Reason.NODES_CLOSE,
    no_shared_gpu: Reason.NO_SHARED_GPU,
    no_shared_gpu_up: Reason.NO_SHARED_GPU,
    sharing_off: Reason.NO_SHARED_GPU,
    software_on_a_node_that_is_away: Reason.NODES_UNAVAILABLE,
    checkpoint_on_a_node_that_is_away: Reason.CHECKPOINT_ELSEWHERE,
}


def test_reason(subtests):
    for case, reason in CASES.items():
        with subtests.test(case=case.__name__):
            made, number, words = case()
            decision, text = one(made, number)
            assert decision.reason is reason
            assert text == words


def test_what_keeps_a_job_out_names_the_first_to_make_room_for_it():
    figures = decisions_of(reserved_by_two_promises())[3].figures
    assert [(each["job"], each["nodes"], each["gpus"]) for each in figures["keepers"]] == [(2, ["n2"], 1)]


def test_several_who_keep_what_a_job_needs_are_named_one_by_one():
    assert several_keepers() == (
        "The 4 idle GPUs on n1 are kept for job 7 until about 1970-01-12T13:52Z. "
        "The 4 idle GPUs on n2 are kept for a job of another tenant until 1970-01-12T13:57Z at the latest. "
        "It could start with all of them."
    )


def test_every_reason_is_produced_by_a_case():
    assert set(CASES.values()) == set(Reason)


def test_every_reason_has_a_sentence_that_survives_storage(subtests):
    for reason in Reason:
        with subtests.test(reason=reason):
            produced = next((case for case, its in CASES.items() if its is reason), None)
            figures = {} if produced is None else one_figures(produced)
            assert sentence(str(reason), json.loads(json.dumps(figures))).endswith(".")


def one_figures(case):
    made, number, _ = case()
    return dict(decisions_of(made)[number].figures)


def test_foreign_jobs_appear_as_a_number_only():
    jobs = [job(4711, 4, tenant=2, wait_s=900), job(2, 4, wait_s=9), job(3, 1, wait_s=1)]
    made = make_plan([node(1, 4), node(2, 4, idle=0)], jobs)
    for number in (2, 3):
        assert "4711" not in json.dumps(dict(decisions_of(made)[number].figures))
    assert decisions_of(made)[2].figures["lost_to"]["other_tenants_jobs"] == 1


def test_the_binding_constraint_is_the_first_resource_that_fails():
    made = make_plan([node(1, 4, cores=8), node(2, 4, idle=0)], [job(1, 2, wait_s=900, cores=4), job(2, 3, wait_s=9)])
    figures = decisions_of(made)[2].figures
    assert figures["binding"] == {"resource": "gpus", "node": "n1", "needed": 3, "available": 2}
    assert figures["best_rejected"]["nodes"] == {"n1": {"gpus": 3, "cores": 3, "memory_mib": 0}}


def test_waiting_counts_as_waited_only_while_the_cluster_is_the_cause():
    jobs = [
        job(1, 8),
        job(2, 1, eligible=False, ineligible_reason=Reason.HELD),
        job(3, 5, tenant=2),
        job(4, 1),
    ]
    made = make_plan([node(1, 8, idle=4)], jobs, tenants=[Tenant(2, gpu_quota=4)])
    eligible = {decision.job for decision in made.decisions if decision.eligible}
    assert why(made) == {1: "not-enough-idle-gpus", 2: "held", 3: "tenant-quota", 4: "outside-window"}
    assert eligible == {1, 4}


def test_a_placed_job_says_where_and_what_it_was_worth():
    decision, text = one(make_plan([node(1, 4)], [job(1, 1, 2, cores=3)]))
    assert text == "Placed on n1 (2 GPUs, 6 cores)."
    assert decision.figures["gain"] == pytest.approx(2**0.9)
    assert decision.figures["weight"] == 1.0
    assert decision.figures["source"] == "assumed"
