"""Probes: jobs of Berth's own that measure a GPU type's links, on idle GPUs, when nobody asked (algorithms.md, section 2).

The planner decides when and where (`scheduler.planning.measuring`). A probe never waits in the queue: its job is made when it
starts.
They are the operator's, in a tenant of Berth's own.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta

from django.db import transaction
from django.utils import timezone

from portal.cluster.models import GpuType
from portal.foundation.errors import BerthError
from portal.foundation.events.services import plan_nudge
from portal.people.tenants.models import Tenant, User
from portal.people.tenants.selectors import OWN_TENANT
from portal.planning.estimation.calibration import SCRIPT, link_measured, said_by
from portal.planning.estimation.models import Link, LinkProbe
from portal.work.jobs.services.placing import DoesNotFit, attempt_start
from portal.work.jobs.services.placings import Part
from portal.work.jobs.services.submission import job_submit
from portal.work.jobs.states import FINAL
from scheduler.model import LinkOrder, LinkWish
from scheduler.planning.measuring import LIMIT_S, MEMORY_MIB

AGAIN = timedelta(seconds=60)
LOG_WAIT = timedelta(seconds=30)
"""The time after its end in which a probe's output may come."""

log = logging.getLogger(__name__)


def links_wanted(*, now: datetime, again_s: float) -> tuple[LinkWish, ...]:
    """Return the links to measure: new ones, and those whose nodes said otherwise then; () while a probe runs.

    A link that was tried is not tried for two minutes, after two tries for four and so on, to `again_s`. Without an operator
    nobody could own a probe. At most three queries.
    """
    recent = LinkProbe.objects.filter(begun_at__gt=now - timedelta(seconds=again_s)).order_by("begun_at")
    failures, tried = Counter[tuple[str, bool, str]](), set()
    fields = ("gpu_type__name", "between", "told", "begun_at", "taken_at")
    for gpu_type, between, told, begun_at, taken_at in recent.values_list(*fields):
        if taken_at is None:
            return ()
        failures[gpu_type, between, told] += 1
        if now < begun_at + AGAIN * 2 ** failures[gpu_type, between, told]:
            tried.add((gpu_type, between, told))
    wishes = []
    for link in Link.objects.select_related("gpu_type").order_by("gpu_type__name"):
        name = link.gpu_type.name
        for between, value, told, tells in (
            (False, link.within_node, link.within_told, link.within_assumed_from),
            (True, link.between_nodes, link.between_told, link.between_assumed_from),
        ):
            changed = value is not None and bool(told) and told != tells
            if (value is None or changed) and (name, between, tells) not in tried:
                wishes.append((name, between))
    if not wishes or not User.objects.filter(is_superuser=True, is_active=True).exists():
        return ()
    tenant = Tenant.objects.get_or_create(name=OWN_TENANT)[0].pk
    return tuple(LinkWish(name, between, tenant) for name, between in wishes)


def probes_start(*, orders: Sequence[LinkOrder], planning_number: int) -> int:
    """Start the probes that an applied plan ordered, as far as their resources are still there; return how many."""
    begun = 0
    for order in orders:
        try:
            _start(order, planning_number)
            begun += 1
        except (DoesNotFit, BerthError) as error:
            log.info("planning %s: a probe of %s did not begin: %s", planning_number, order.wish.gpu_type, error)
    return begun


@transaction.atomic
def _start(order: LinkOrder, planning_number: int) -> None:
    wish, pieces = order.wish, order.pieces
    gpu_type = GpuType.objects.get(name=wish.gpu_type)
    link = Link.objects.get(gpu_type=gpu_type)
    job = job_submit(
        user=User.objects.filter(is_superuser=True, is_active=True).earliest("pk"),
        tenant=Tenant.objects.get(pk=wish.tenant),
        description={
            "name": f"links {'between nodes' if wish.between else 'within a node'} of {gpu_type.name}"[:100],
            "command": '"$BERTH_PYTHON" link_measure.py',
            "files": {"link_measure.py": SCRIPT.read_text()},
            "category": "other",
            "gpus": sum(len(piece.gpus) for piece in pieces),
            "gpu_types": [gpu_type.name],
            "cores_per_gpu": 1,
            "memory_mib": MEMORY_MIB * len(pieces),
            "time_limit_s": int(LIMIT_S),
            "labels": {"berth": "links"},
            "max_requeues": 0,
        },
    )
    told = link.between_assumed_from if wish.between else link.within_assumed_from
    LinkProbe.objects.create(job=job, gpu_type=gpu_type, between=wish.between, told=told, begun_at=timezone.now())
    parts = [Part(piece.node, piece.gpus, piece.cores, piece.memory_mib) for piece in pieces]
    attempt_start(job_id=job.pk, parts=parts, planning_number=planning_number)


def probes_take() -> int:
    """Keep the results of ended probes; return how many gave a figure. The next planning may then wish for another."""
    found = 0
    for probe in LinkProbe.objects.filter(taken_at=None, job__state__in=FINAL).select_related("job", "gpu_type"):
        try:
            found += _take(probe)
        except BerthError as error:
            ended_at = probe.job.ended_at
            if error.code == "unreadable" and ended_at and ended_at > timezone.now() - LOG_WAIT:
                continue
            _close(probe, error.detail)
    return found


def _take(probe: LinkProbe) -> bool:
    """Whether the figure is the links' own."""
    said = said_by(probe.job)
    virtual = all(part.node.is_virtual for part in probe.job.attempts.latest("pk").allocations.select_related("node"))
    if not (virtual or probe.between or "NCCL" in said["method"]):  # over TCP it is the network that was measured
        why = "there is no torch with CUDA in the node's Python, so the GPUs' own links were not measured"
        _close(probe, f"{why}; `./berth calibrate --python` names another")
        return False
    with transaction.atomic():
        link_measured(
            gpu_type=probe.gpu_type,
            kind="between" if probe.between else "within",
            job=probe.job,
            said=said,
            actor=None,
            told=probe.told,
        )
        _close(probe, "")
    return True


def _close(probe: LinkProbe, problem: str) -> None:
    if problem:
        log.warning("the links of %s were not measured by job %s: %s", probe.gpu_type, probe.job.number, problem)
    LinkProbe.objects.filter(pk=probe.pk).update(taken_at=timezone.now(), problem=problem[:300])
    plan_nudge()
