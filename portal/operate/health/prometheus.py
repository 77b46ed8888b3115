"""`/metrics` for Prometheus: read from the database at each scrape, so that any number of portals agree."""

from __future__ import annotations

from collections import Counter
from hmac import compare_digest
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.db.models import Count
from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from portal.cluster.gpu_states import free_by_node
from portal.cluster.models import HEALTHS, Node
from portal.foundation.disk import MIB, disk_state
from portal.foundation.errors import Forbidden
from portal.foundation.layout import Layout
from portal.operate.health.figures import figure_families, node_families
from portal.people.tenants.authentication import Unauthorized, scope_check, token_find, token_touch
from portal.planning.rounds.models import Planning
from portal.planning.rounds.planning.lease import idle_counted
from portal.work.jobs.held_time import gpus_present
from portal.work.jobs.models import GpuAllocation, Job
from portal.work.jobs.queue_counts import queue_counts
from portal.work.jobs.states import ACTIVE, FINAL, QUEUED, JobState

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from prometheus_client import Metric

    from portal.work.jobs.queue_counts import QueueCounts


CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
NODE_COLUMNS = "name cores registered_at last_contact_at dead_at drained_at disk_low refused_messages".split()


@require_safe
def metrics(request: HttpRequest) -> HttpResponse:
    """Answer a scrape that `access_check` lets in."""
    access_check(request)
    registry = CollectorRegistry()
    registry.register(DatabaseCollector())
    return HttpResponse(generate_latest(registry), content_type=CONTENT_TYPE)


def access_check(request: HttpRequest) -> None:
    """Raise unless the caller shows the metrics token or an operator's, or is a signed-in operator. Where from tells nothing:

    jobs of all tenants may run on the portal's machine.
    """
    scheme, _, given = request.headers.get("Authorization", "").partition(" ")
    secret = given.strip() if scheme.lower() == "bearer" else ""
    if secret and _is_metrics_token(secret):
        return
    if secret:
        token = token_find(secret)
        scope_check(user=token.user, token=token, scope="cluster:read")
        _operator_check(token.user)
        token_touch(token)
    elif request.user.is_authenticated:
        _operator_check(request.user)
    else:
        detail = (
            "Show the token in the file metrics-token of the portal's data directory, or an operator's of scope "
            "cluster:read, as `Authorization: Bearer TOKEN`; or sign in as an operator."
        )
        raise Unauthorized("not_authenticated", detail)


def _operator_check(user: Any) -> None:
    if not user.is_operator:
        raise Forbidden("The figures of all tenants are for operators.", code="operator_only")


def _is_metrics_token(secret: str) -> bool:
    """Read the file now; one without content, or no file, lets nobody in."""
    try:
        token = Layout.at(settings.DATA_DIR).metrics_token.read_bytes().strip()
    except FileNotFoundError:
        return False
    return bool(token) and compare_digest(secret.encode("utf-8", "replace"), token)


class DatabaseCollector:
    def collect(self) -> Iterator[Metric]:
        yield from _jobs()
        nodes = list(Node.objects.listed().only(*NODE_COLUMNS).order_by("name"))
        alive = [node for node in nodes if not node.dead_at]
        gpus = gpus_present([node.pk for node in alive])
        yield from _cluster(nodes, gpus=sum(gpus.values()))
        yield from _plannings()
        yield from figure_families()
        yield from node_families(alive, gpus=gpus)

    def describe(self) -> list[Metric]:
        return []


def _gauge(name: str, says: str, label: str, values: Mapping[str, int]) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, says, labels=[label])
    for value, count in values.items():
        family.add_metric([value], count)
    return family


def _jobs() -> Iterator[Metric]:
    queue = queue_counts(now=None)
    states = _states(queue)
    yield _gauge("berth_jobs", "Jobs by state.", "state", {state: states.get(state, 0) for state in JobState.values})
    reasons = Counter({"none": 0})
    for group in queue.groups:
        if not group.is_held:
            reasons[group.reason or "none"] += group.jobs
    yield _gauge("berth_jobs_pending", "Waiting jobs by reason.", "reason", +reasons)
    yield GaugeMetricFamily("berth_queue_length", "Eligible jobs that wait.", value=queue.jobs)


def _states(queue: QueueCounts) -> Counter[str]:
    """Count jobs by state, without arrays' parents; of those that wait the `queue` knows.

    A waiting job that is being cancelled is as good as gone. The others are counted where an index alone tells: the ended
    ones (`job_by_state`) together with arrays' parents, which are then taken off. Four queries.
    """
    found = Counter[str]()
    for group in queue.groups:
        found[group.state] += group.jobs
    unfinished = Job.objects.runnable().filter(state__in=ACTIVE - QUEUED, ended_at=None)
    ended = Job.objects.filter(state__in=FINAL)
    for rows in (
        unfinished.filter(cancel_requested_at=None),
        unfinished.filter(cancel_requested_at__isnull=False),
        ended,
    ):
        found.update(dict(rows.order_by().values_list("state").annotate(n=Count("*"))))
    # By tenant, as the arrays' index begins: they are few, and their rows are read.
    parents = Job.objects.filter(array_size__isnull=False).order_by().values_list("tenant", "state")
    for _, state, count in parents.annotate(n=Count("*")):
        found[state] -= count if state in FINAL else 0
    return found


def _cluster(nodes: Sequence[Node], *, gpus: int) -> Iterator[Metric]:
    healths = Counter(node.health for node in nodes)
    yield _gauge("berth_nodes", "Nodes by health.", "health", {name: healths.get(name, 0) for name in HEALTHS})
    held = GpuAllocation.objects.filter(released_at=None).aggregate(n=Count("gpu", distinct=True))["n"]
    yield GaugeMetricFamily("berth_gpus", "GPUs of nodes that are not dead.", value=gpus)
    yield GaugeMetricFamily("berth_gpus_allocated", "GPUs held by jobs.", value=held)
    free = free_by_node(nodes).values()
    yield GaugeMetricFamily(
        "berth_gpus_idle", "GPUs that a job could get whole now.", value=sum(each.idle for each in free)
    )
    yield GaugeMetricFamily(
        "berth_gpus_for_sharing",
        "GPUs set aside for jobs that share one, with none on them; not among the idle ones.",
        value=sum(each.for_sharing for each in free),
    )
    disk = disk_state()
    yield GaugeMetricFamily("berth_disk_free_bytes", "Free on the portal's disk.", value=disk.free_mib * MIB)
    yield GaugeMetricFamily("berth_disk_low", "1: too little is free; no job is taken in or started.", value=disk.low)
    refused = sum(node.refused_messages for node in nodes)
    yield CounterMetricFamily("berth_refused_messages", "Stale messages of agents, counted and dropped.", value=refused)


def _plannings() -> Iterator[Metric]:
    last = Planning.objects.defer("decisions").order_by("-number").first()
    if last is None:
        return
    yield CounterMetricFamily("berth_plannings", "Plannings so far.", value=last.number)
    yield CounterMetricFamily(
        "berth_idle_beside_fitting_total",
        "Idle GPUs left beside a waiting job that fits them, summed over plannings: more than 0 is a fault of the planner.",
        value=idle_counted(),
    )
    parts = GaugeMetricFamily("berth_planning_seconds", "Duration of the last planning by part.", labels=["part"])
    for part, value in {"load": last.load_s, "plan": last.plan_s, "apply": last.apply_s}.items():
        parts.add_metric([part], value)
    yield parts
    yield GaugeMetricFamily(
        "berth_last_planning_timestamp_seconds", "When the last planning began.", value=last.started_at.timestamp()
    )
