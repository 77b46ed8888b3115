"""A GPU type's links without any command (algorithms.md, section 2): assumed from its nodes' inventories, refined by jobs.

A link is everybody's, so what one tenant's jobs record moves it no farther than `scheduler.estimator.links` allows.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import TYPE_CHECKING, Any

from django.db import transaction
from django.utils import timezone

from portal.cluster.gpu_states import instance_of
from portal.cluster.models import Gpu, Node
from portal.foundation.events.services import plan_nudge
from portal.people.tenants.models import Tenant
from portal.planning.estimation.models import Link, LinkProbe, LinkVote
from scheduler.estimator import links

if TYPE_CHECKING:
    from portal.planning.estimation.absorbing import Record, Row, Run

SIDES = ("within", "between")
RECENT = 32
"""Figures kept of a tenant, a batch of records giving one: its vote follows a change of the link within minutes."""
TOLD = ("nvlink_gbps", "pcie_generation", "pcie_lanes", "network_mbps")


def node_links_assume(*, node: Node) -> None:
    """Assume the links of the node's GPU types anew."""
    if node.gpu_type_id is not None:
        beside = Gpu.objects.present().filter(node=node).exclude(gpu_type=None).order_by()
        links_assume(gpu_types=[node.gpu_type_id, *beside.values_list("gpu_type_id", flat=True).distinct()])


def links_assume(*, gpu_types: Iterable[int] | None = None) -> int:
    """Assume the links of these GPU types (None: all) anew from their nodes' inventories; return how many changed.

    Instances (MIG) have none: they exchange nothing.
    """
    nodes = Node.objects.alive().exclude(gpu_type=None)
    beside = Gpu.objects.present().filter(node__dead_at=None).exclude(gpu_type=None).order_by()
    if gpu_types is not None:
        wanted = list(gpu_types)
        nodes, beside = nodes.filter(gpu_type__in=wanted), beside.filter(gpu_type__in=wanted)
    told: dict[int, set[links.Told]] = defaultdict(set)
    for gpu_type, name, said in [
        *nodes.values_list("gpu_type_id", "gpu_type__name", "links"),
        *beside.values_list("gpu_type_id", "gpu_type__name", "node__links").distinct(),
    ]:
        if instance_of(name) is not None:
            continue
        told[gpu_type].add(links.Told(**{name: said.get(name) for name in TOLD}))
    changed = 0
    for gpu_type, each in sorted(told.items()):
        within, between = links.assumed_within(each), links.assumed_between(each)
        values = {
            "within_assumed": within.value,
            "within_assumed_from": within.words,
            "between_assumed": between.value,
            "between_assumed_from": between.words,
        }
        known = Link.objects.filter(gpu_type=gpu_type)
        if known.filter(**values).exists():
            continue
        Link.objects.update_or_create(gpu_type_id=gpu_type, defaults=values)
        changed += 1
    if changed:
        plan_nudge()
    return changed


def vote_note(run: Run, records: Sequence[Record], column: int) -> None:
    """Keep a run's record of its communication on several GPUs: one figure, the median of its iterations."""
    parameters = next((record["parameters"] for record in reversed(records) if record["parameters"]), None)
    parameters = parameters or run.part.attempt.job.parameters
    if not parameters or run.gpus < 2 or run.gpu_type_id is None:
        return
    rows: Iterable[Row] = (row for record in records for row in record["rows"])
    times_s = (row[column] for row in rows)
    found = [links.communicated(parameters, took_s, run.gpus, run.nodes) for took_s in times_s if took_s]
    figures = [each for each in found if each is not None]
    if not figures:
        return
    row, _ = LinkVote.objects.get_or_create(
        gpu_type_id=run.gpu_type_id,
        tenant_id=run.part.attempt.job.tenant_id,
        between=run.nodes > 1,
        defaults={"at": timezone.now()},
    )
    row = LinkVote.objects.select_for_update().get(pk=row.pk)
    row.recent, row.at = [*row.recent, median(figures)][-RECENT:], timezone.now()
    row.save(update_fields=["recent", "at"])


def links_refine() -> int:
    """Settle every link by the tenants' votes; return how many have any."""
    votes: dict[tuple[int, bool], list[float]] = defaultdict(list)
    for row in LinkVote.objects.order_by("pk"):
        if row.recent:
            votes[row.gpu_type_id, row.between].append(links.vote(row.recent))
    alone = Tenant.objects.exclude(pk__in=LinkProbe.objects.values("job__tenant")).count() == 1
    for link in Link.objects.all():
        settled = {
            f"{side}_refined": _settled(link, side, votes.get((link.gpu_type_id, side == "between"), ()), alone=alone)
            for side in SIDES
        }
        Link.objects.filter(pk=link.pk).exclude(**settled).update(**settled)
    return len(votes)


def _settled(link: Link, side: str, votes: Sequence[float], *, alone: bool) -> float | None:
    """None while the votes leave it where it is: it is not refined then."""
    base = link.base(side)
    if base is None or not votes:
        return None
    farthest = links.FARTHEST_ASSUMED if link.measured(side) is None else links.FARTHEST
    value = links.refined(base, votes, alone=alone, farthest=farthest)
    return None if value == base else value


def links_words(link: Link) -> Mapping[str, Any]:
    """Return by kind the figure, how it came about in words, and since when; None where nothing is known."""
    return {side: _words(link, side) for side in SIDES}


def _words(link: Link, side: str) -> dict[str, Any] | None:
    value = link.bandwidth(side)
    if value is None:
        return None
    at = getattr(link, f"{side}_measured_at")
    measured = f"measured {at:%Y-%m-%dT%H:%MZ}" if at else f"assumed: {getattr(link, f'{side}_assumed_from')}"
    refined = getattr(link, f"{side}_refined") is not None
    return {
        "gbps": value * links.BYTES_MOVED / 1e9,
        "how": f"{measured}, refined by running jobs" if refined else measured,
        "at": at,
    }


@transaction.atomic
def links_tend() -> int:
    """Do this every few minutes, for types whose nodes said nothing lately as well; return the links changed."""
    return links_assume() + links_refine()
