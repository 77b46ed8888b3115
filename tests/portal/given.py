"""Situations for the portal's tests, made through the same services that the product uses, and rules that always hold."""

import threading
import time
from collections import Counter, defaultdict
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from datetime import timedelta

from django.db import connection, connections
from django.db.models import Q, Sum
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from portal.cluster.models import Gpu, GpuType, Node
from portal.cluster.telemetry import telemetry_store
from portal.foundation.layout import Layout, write_json
from portal.launch.processes.children import Child, Program
from portal.nodes.serializers import Report
from portal.people.tenants.models import Membership, Tenant, User
from portal.planning.rounds.models import Planning
from portal.planning.rounds.planning.beginning import round_present
from portal.planning.rounds.settings.knobs import knobs_current
from portal.work.jobs.models import Allocation, Attempt, GpuAllocation, Job
from portal.work.jobs.services import locks, placing, submission
from portal.work.jobs.services.parts import report_apply
from portal.work.jobs.services.placing import attempt_start
from portal.work.jobs.services.placings import Part
from portal.work.jobs.services.submission import job_submit
from portal.work.jobs.states import FINAL, LIVE, JobState
from tests.messages import unlike
from tests.real_ends import real_end
from tests.real_messages import INVENTORY, REPORT_FIELDS, TELEMETRY
from workers.protocol import wire


def member(name, tenant, role="member"):
    user, _ = User.objects.get_or_create(username=name)
    Membership.objects.get_or_create(user=user, tenant=tenant, defaults={"role": role})
    return user


def operator(name="olga"):
    return User.objects.get_or_create(username=name, defaults={"is_staff": True, "is_superuser": True})[0]


def node_make(name, *, gpus=4, cores=8, memory_mib=16000, **more):
    values = {
        "gpu_type": GpuType.objects.get_or_create(name="A100")[0] if gpus else None,
        "cores": cores,
        "memory_mib": memory_mib,
        "storage_domain": f"node:{name}",
        "address": f"{name}.example",
        "boot_id": "boot-1",
        "agent_version": "1",
        "token_digest": f"digest-{name}",
        "last_contact_at": timezone.now(),
        "trusts_tenants": True,
    }
    node = Node.objects.create(name=name, **(values | more))
    Gpu.objects.bulk_create(Gpu(node=node, index=i, uuid=f"{name}-{i}", memory_mib=24576) for i in range(gpus))
    return node


def inventory(node, **changes):
    gpus = [{"index": g.index, "uuid": g.uuid, "memory_mib": g.memory_mib} for g in node.gpus.all()]
    own = {
        "name": node.name,
        "address": node.address,
        "boot_id": node.boot_id,
        "gpu_type": node.gpu_type.name if node.gpu_type else None,
        "gpus": gpus,
        "cores": node.cores,
        "memory_mib": node.memory_mib,
        "storage_domain": node.storage_domain,
    }
    return INVENTORY | own | changes


@dataclass
class Cluster:
    tenant: Tenant
    owner: User
    node: Node
    sequences: Counter = field(default_factory=Counter)

    @classmethod
    def make(cls):
        tenant = Tenant.objects.create(name="vision-lab")
        return cls(tenant, member("lena", tenant), node_make("n1"))

    def submit(self, **fields):
        return job_submit(user=fields.pop("user", self.owner), description={"command": "true", "gpus": 1} | fields)

    def started(self, *nodes, gpus=1, cores=1, **fields):
        """A submitted job with a live attempt on the nodes; returns the attempt."""
        return self.start(self.submit(gpus=max(gpus, 0) * max(1, len(nodes)), **fields), *nodes, gpus=gpus, cores=cores)

    def start(self, job, *nodes, gpus=1, cores=1, memory_mib=0, planning_number=1):
        parts = [free_part(node, gpus=gpus, cores=cores, memory_mib=memory_mib) for node in nodes or (self.node,)]
        return attempt_start(job_id=job.pk, parts=parts, planning_number=planning_number)

    def report(self, attempt, state, *, rank=0, sequence=None, epoch=None, node=None, holding=(), **more):
        """Send one report as the part's own node; returns the answer."""
        self.sequences[attempt.pk, rank] = sequence or self.sequences[attempt.pk, rank] + 1
        node = node or attempt.allocations.get(rank=rank).node
        name = key_of(attempt, rank) | {"epoch": epoch or attempt.epoch}
        entry = report(name, state, sequence=self.sequences[attempt.pk, rank], **more)
        return heard(node=node, reports=[entry], holding=[*holding])

    def running(self, *nodes, **fields):
        attempt = self.started(*nodes, **fields)
        for rank in range(attempt.allocations.count()):
            self.report(attempt, "running", rank=rank, pid=100 + rank)
        return attempt

    def end(self, attempt, *, reason="exit", exit_code=None, signal=None, rank=0, **more):
        """Tell an end as a real part does: an end that nobody saw has neither exit code nor signal, any other has one of them."""
        told = real_end(reason, exit_code=exit_code, signal=signal)
        return self.report(attempt, "ended", rank=rank, **told | more)

    def ran(self, took_s, *, ago_s=60, waited_s=0.0, **fields):
        """A job that completed `ago_s` ago after this run time and this wait; its row."""
        attempt = self.running(gpus=fields.pop("gpus", 1), **fields)
        self.end(attempt)
        now = timezone.now() - timedelta(seconds=ago_s)
        began = now - timedelta(seconds=took_s)
        times = {"submitted_at": began - timedelta(seconds=waited_s), "started_at": began, "ended_at": now}
        Job.objects.filter(pk=attempt.job_id).update(ran_s=took_s, waited_s=waited_s, **times)
        return Job.objects.get(pk=attempt.job_id)


def heard(*, node, reports, holding):
    """Take what a node's agent tells of its parts, and nothing that no agent would tell."""
    assert unlike([*reports], list[wire.Report]) == []
    assert unlike([*holding], list[wire.Held]) == []
    for each in reports:
        Report(data=each).is_valid(raise_exception=True)  # as at the agents' door
    return report_apply(node=node, reports=reports, holding=holding)


def measured(*, node, batch):
    """Take what a node's agent measured, with the groups that each of its messages has."""
    batch = TELEMETRY | {"gpus": {}, "host": {}} | batch
    assert unlike(batch, wire.Telemetry) == []
    telemetry_store(node=node, batch=batch)


def held(attempt, rank=0, **more):
    """Name a part as an agent does that has it."""
    return key_of(attempt, rank) | {"cores_sequence": 0, "ports": []} | more


def report(name, state, *, sequence=1, **more):
    """Return an agent's report of the part with this name."""
    return REPORT_FIELDS | {"at": time.time()} | name | {"sequence": sequence, "state": state} | more


def planning_record(number, now):
    """A planning's row as `planning_run` begins it, not saved yet."""
    return Planning(number=number, round=round_present(now=now, values=knobs_current()), started_at=now, policy="hops")


def portal_started(data, ago_s):
    """Say in the data directory, as `./berth up` does, when the portal was started."""
    child = Child(Program("portal", "portal", [], {}), since=time.time() - ago_s)
    layout = Layout.at(data)
    layout.prepare()
    write_json(layout.state, {"children": {"portal": child.facts()}})


def key_of(attempt, rank=0):
    return {"attempt": attempt.key, "epoch": attempt.epoch, "rank": rank}


def shared(node, *indices):
    """Let jobs share these GPUs of a node."""
    Gpu.objects.filter(node=node, index__in=indices).update(mode=Gpu.Mode.SHARED, mode_by_operator=True)


def shareable(compute=0.25, memory_mib=4096, **more):
    """Fields of a job that shares a GPU."""
    return {"gpus": 1, "shareable": True, "gpu_compute": compute, "gpu_memory_mib": memory_mib, **more}


def free_part(node, *, gpus=1, cores=1, memory_mib=0):
    """The free GPUs of a node, as a planning would choose them; missing ones are named all the same."""
    live = Allocation.objects.filter(node=node, released_at=None)
    used = {core for ids in live.values_list("core_ids", flat=True) for core in ids}
    held = set(
        GpuAllocation.objects.filter(gpu__node=node, released_at=None, mode="exclusive").values_list(
            "gpu__index", flat=True
        )
    )
    free_gpus = [i for i in range(64) if i not in held][:gpus]
    free_cores = [i for i in range(1024) if i not in used][:cores]
    return Part(node_id=node.pk, gpu_indices=tuple(free_gpus), core_ids=tuple(free_cores), memory_mib=memory_mib)


def race(*calls):
    """Run calls at once, each in a thread with its own connection; return their results or exceptions in order."""
    results = [None] * len(calls)
    barrier = threading.Barrier(len(calls))

    def run(position, call):
        try:
            barrier.wait(10)
            results[position] = call()
        except BaseException as error:  # noqa: BLE001 - the test looks at it
            results[position] = error
        finally:
            connections.close_all()

    threads = [threading.Thread(target=run, args=item) for item in enumerate(calls)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads), "a thread hangs"
    return results


def gated(monkeypatch, module, name, count, *, wait_s=0.3):
    """Let every caller of module.name go on only once `count` have come through it, or after wait_s."""
    original = getattr(module, name)
    barrier = threading.Barrier(count)

    def slow(*arguments, **keywords):
        found = original(*arguments, **keywords)
        with suppress(threading.BrokenBarrierError):
            barrier.wait(wait_s)
        return found

    monkeypatch.setattr(module, name, slow)


class _NoTransaction:
    """Stands in for django.db.transaction where a test takes the transactions away."""

    @staticmethod
    def atomic():
        return nullcontext()


def locks_remove(monkeypatch):
    """Take the row locks away (Postgres), and the transactions with them (SQLite: IMMEDIATE is its lock)."""
    for name, model in (("tenants_lock", Tenant), ("nodes_lock", Node), ("jobs_lock", Job)):
        plain = lambda ids, *, model=model, fields=(): model.objects.in_bulk(list(ids))  # noqa: E731
        for module in (locks, placing, submission):
            if hasattr(module, name):
                monkeypatch.setattr(module, name, plain)
    if connection.vendor == "sqlite":
        monkeypatch.setattr(placing, "transaction", _NoTransaction)
        monkeypatch.setattr(submission, "transaction", _NoTransaction)


def empty():
    """Take away all that a cluster consists of, so that another can be made."""
    for model in (Planning, GpuAllocation, Allocation, Attempt, Job, Gpu, Node, GpuType, Membership, Tenant, User):
        model.objects.all().delete()


@contextmanager
def statements(count):
    """Exactly this number of SQL statements is sent meanwhile."""
    with CaptureQueriesContext(connection) as queries:
        yield
    assert len(queries) == count, [each["sql"][:200] for each in queries]


def multiply(model, times):
    """Make so many rows of each that there is, but for its id: in one statement, for Django takes a millisecond for each."""
    table = connection.ops.quote_name(model._meta.db_table)
    kept = [field for field in model._meta.concrete_fields if not (field.primary_key or field.generated)]
    columns = ", ".join(connection.ops.quote_name(field.column) for field in kept)
    counted = "WITH RECURSIVE counted(i) AS (SELECT 2 UNION ALL SELECT i + 1 FROM counted WHERE i < %s)"
    with connection.cursor() as cursor:
        cursor.execute(f"{counted} INSERT INTO {table} ({columns}) SELECT {columns} FROM {table}, counted", [times])


def drop_trigger(name, table):
    with connection.cursor() as cursor:
        cursor.execute(f"DROP TRIGGER {name}" + (f" ON {table}" if connection.vendor == "postgresql" else ""))


def drop_index(name):
    with connection.cursor() as cursor:
        cursor.execute(f"DROP INDEX {name}")


def _parts_oversold(whole):
    """Shared GPUs of which more is given than they have, and those that some job has for itself as well."""
    parts = GpuAllocation.objects.filter(released_at=None, mode="shared").order_by().values("gpu", "gpu__memory_mib")
    for each in parts.annotate(compute=Sum("compute"), given_mib=Sum("memory_mib")):
        if each["compute"] > 1000 or each["given_mib"] > each["gpu__memory_mib"] or each["gpu"] in whole:
            yield f"GPU {each['gpu']} oversold, or held whole beside parts: {each}"


def violations():
    """Everything that is wrong in the database, as sentences; empty when all is well."""
    found = []
    live = Counter(Attempt.objects.runs().live().values_list("job_id", flat=True))
    found += [f"job {job} has two live attempts" for job, n in live.items() if n > 1]
    measured = Attempt.objects.profiles().live().values_list("profile_of", "profile_type")
    found += [f"{each} is profiled {n} times at once" for each, n in Counter(measured).items() if n > 1]
    for job in Job.objects.filter(array_size=None):
        has = job.pk in live
        if has != (job.state in LIVE):
            found.append(f"job {job.pk} is {job.state}, live attempt: {has}")
        if job.state in FINAL and (job.ended_at is None or job.waiting_since):
            found.append(f"job {job.pk} ended without an end, or still counts its waiting")
        if job.waiting_since and job.state != JobState.PENDING:
            found.append(f"job {job.pk} waits though it is {job.state}")
    ended_but_held = Allocation.objects.filter(
        Q(state="ended", released_at=None) | Q(released_at__isnull=False) & ~Q(state="ended")
    )
    found += [f"allocation {a.pk}: {a.state}, released {a.released_at}" for a in ended_but_held]
    leaked = Allocation.objects.filter(released_at=None, attempt__ended_at__isnull=False)
    found += [f"allocation {a.pk} outlived its attempt" for a in leaked]
    gpus_leaked = GpuAllocation.objects.filter(released_at=None, allocation__released_at__isnull=False)
    found += [f"GPU allocation {g.pk} leaked" for g in gpus_leaked]
    released_early = GpuAllocation.objects.filter(released_at__isnull=False, allocation__released_at=None)
    found += [f"GPU allocation {g.pk} released before its part ended" for g in released_early]
    held = Counter(GpuAllocation.objects.filter(released_at=None, mode="exclusive").values_list("gpu_id", flat=True))
    found += [f"GPU {gpu} held {n} times" for gpu, n in held.items() if n > 1]
    found += _parts_oversold(held)
    cores, memory_mib = Counter(), Counter()
    for node, ids, mib in Allocation.objects.filter(released_at=None).values_list("node", "core_ids", "memory_mib"):
        cores.update((node, core) for core in ids)
        memory_mib[node] += mib
    nodes = {node.pk: node for node in Node.objects.all()}
    found += [f"core {core} of {nodes[node].name} held {n} times" for (node, core), n in cores.items() if n > 1]
    found += [f"memory of {node.name} oversold" for node in nodes.values() if memory_mib[node.pk] > node.memory_mib]
    tasks = defaultdict(Counter)
    for array, state in Job.objects.exclude(array=None).values_list("array", "state"):
        tasks[array][state] += 1
    for parent in Job.objects.filter(array_size__isnull=False):
        counts = tasks[parent.pk]
        if parent.array_counts != dict(counts) or sum(counts.values()) != parent.array_made:
            found.append(f"array {parent.pk} says {parent.array_counts}, has {dict(counts)}")
    return found
