"""Read jobs: a user's jobs, a node's parts, an attempt's output."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from django.db.models import Exists, OuterRef, Subquery

from portal.cluster.models import Gpu, Node
from portal.cluster.selectors import environments_named
from portal.foundation.environment import env
from portal.foundation.errors import NotFound
from portal.work.jobs.fields.handing import code_spec
from portal.work.jobs.listing import jobs_for
from portal.work.jobs.models import Allocation, Attempt, GpuAllocation, Job, JobPayload
from portal.work.jobs.sizes import grace_of, slo_ms
from portal.work.uploads.selectors import upload_files, upload_holds
from portal.work.uploads.store import is_there

if TYPE_CHECKING:
    from portal.people.tenants.models import User


PROFILE_GRACE_S = 2
"""A profile has nothing to save."""
MIB = 1024 * 1024
GIB_MIB = 1024
ANOTHERS = "a job of another tenant"
"""Stands in place of a foreign job's id and name."""


def job_get(*, user: User, job_id: int | str) -> Job:
    """Return a job; NotFound in the same way for a missing, a foreign and a malformed id."""
    text = str(job_id)
    if not (text.isascii() and text.isdigit() and len(text) <= 18):
        raise NotFound("job")
    job = jobs_for(user=user).filter(pk=int(text)).first()
    if job is None:
        raise NotFound("job")
    return job


def attempts_of(*, node: Node, series: Mapping[str, Any]) -> dict[str, Any]:
    """Return a node's measurements of attempts that are or were its own. Others are ignored."""
    if not series:
        return {}
    own = Allocation.objects.filter(node=node, attempt__key__in=list(series))
    keys = set(own.values_list("attempt__key", flat=True))
    return {key: measures for key, measures in series.items() if key in keys}


def parts_wanted(*, node_id: int) -> dict[str, Any]:
    """Return the complete list of a node's parts, as `sync` answers it.

    The revision is read first: a change in between makes the next poll answer at once.
    """
    revision, heartbeat_s = Node.objects.values_list("revision", "heartbeat_s").get(pk=node_id)
    parts = Allocation.objects.filter(node_id=node_id, released_at=None).select_related("attempt__job").order_by("pk")
    partners = Allocation.objects.filter(attempt=OuterRef("attempt")).exclude(pk=OuterRef("pk"))
    granted = GpuAllocation.objects.filter(allocation=OuterRef("pk"), mode=Gpu.Mode.SHARED).values("memory_mib")
    parts = parts.annotate(
        gpu_memory_mib=Subquery(granted[:1]),
        alone=~Exists(partners),
        partners_ready=~Exists(partners.filter(state=Allocation.State.WANTED)),
    )
    return {
        "revision": revision,
        "attempts": [_wanted(part) for part in parts],
        "heartbeat_s": heartbeat_s,
        "environments": environments_named(),
    }


def _grace_s(attempt: Attempt) -> int:
    return PROFILE_GRACE_S if attempt.is_profile else grace_of(attempt.job)


def _wanted(part: Any) -> dict[str, Any]:
    attempt = part.attempt
    return {
        "attempt": attempt.key,
        "job": attempt.job_id,
        "job_key": attempt.job.key,
        "epoch": attempt.epoch,
        "rank": part.rank,
        "action": "stop" if attempt.stop_reason else "run",
        "started": part.state != Allocation.State.WANTED,
        "state": part.state,
        "go": part.alone or (part.partners_ready and part.state != Allocation.State.WANTED),
        "stop_reason": attempt.stop_reason or None,
        "grace_s": _grace_s(attempt),
        "lease_s": attempt.lease_s,
        "time_limit_s": _time_limit_s(attempt),
        "cores": part.core_ids if part.core_ids_ordered is None else part.core_ids_ordered,
        "share": part.share,
        "cores_sequence": part.cores_sequence,
        "gpu_memory_mib": part.gpu_memory_mib,
    }


def part_spec(*, node: Node, key: str) -> dict[str, Any]:
    """Return the spec of a node's part of the attempt with this key. Raises NotFound when it is not wanted there."""
    part = (
        Allocation.objects.filter(attempt__key=key, node=node, released_at=None)
        .select_related("attempt__job__tenant", "attempt__job__owner", "node__gpu_type")
        .first()
    )
    if part is None:
        raise NotFound("attempt on this node")
    attempt, job = part.attempt, part.attempt.job
    return {
        "attempt": attempt.key,
        "job": job.pk,
        "job_key": job.key,
        "epoch": attempt.epoch,
        "rank": part.rank,
        "name": job.name,
        "tenant": job.tenant.name,
        "tenant_id": job.tenant_id,
        "unix_account": job.tenant.unix_account,
        "user": job.owner.username,
        **_spec_command(attempt),
        **_spec_resources(part, node),
        "disk_mib": disk_limit_mib(job),
        "time_limit_s": _time_limit_s(attempt),
        "grace_s": _grace_s(attempt),
        "profile": attempt.is_profile,
        "world": _spec_world(attempt),
        "epochs_before": 0 if attempt.is_profile else attempt.epoch - 1,
        "log_limit_bytes": env("BERTH_LOG_LIMIT_MIB") * MIB,
    }


def part_content_check(*, node: Node, key: str, sha256: str) -> None:
    """Raise NotFound unless a part of the attempt with this key is wanted on the node, and its job brings this content."""
    part = (
        Allocation.objects.filter(attempt__key=key, node=node, released_at=None)
        .select_related("attempt__job")
        .only("attempt__job__array_id")
        .first()
    )
    if part is not None:
        job = part.attempt.job
        upload_id = JobPayload.objects.values_list("upload_id", flat=True).get(pk=job.array_id or job.pk)
        if upload_id is not None and upload_holds(upload_id, sha256) and is_there(sha256):
            return
    raise NotFound("content of an attempt on this node")


def brought_of(job: Job) -> tuple[dict[str, str], dict[str, Any], dict[str, str]]:
    """Return a job's software ({}: the node's own), code ({}: its files) and {variable: secret}; reads no more of its payload."""
    payload = JobPayload.objects.values_list("software", "code", "description__secrets")
    software, code, secrets = payload.get(pk=job.array_id or job.pk)
    return software, code, secrets or {}


def _spec_command(attempt: Attempt) -> dict[str, Any]:
    """Return the bulk of a job; the tasks of an array share their parent's."""
    job = attempt.job
    payload = JobPayload.objects.get(pk=job.array_id or job.pk)
    return {
        "command": payload.command,
        "files": payload.files,
        "upload": upload_files(payload.upload_id) if payload.upload_id else [],
        "working_directory": payload.working_directory or None,
        "environment": {**payload.environment, **_berth_environment(job=job, gpus=attempt.gpus)},
        "software": payload.software,
        **code_spec(payload),
        "artefacts": None
        if attempt.is_profile
        else {
            "patterns": payload.description.get("artefacts") or [],
            "files": env("BERTH_ARTEFACT_FILES"),
        },
    }


def _spec_resources(part: Allocation, node: Node) -> dict[str, Any]:
    gpus = list(part.gpu_allocations.select_related("gpu__gpu_type").order_by("gpu__index"))
    return {
        "gpus": [row.gpu.index for row in gpus],
        "gpu_uuids": [row.gpu.uuid for row in gpus],
        "gpu_type": gpus[0].gpu.type_of(node) if gpus else None,
        **_spec_share(gpus),
        "cores": part.core_ids if part.core_ids_ordered is None else part.core_ids_ordered,
        "memory_mib": part.memory_mib or None,
    }


def _spec_share(gpus: Sequence[GpuAllocation]) -> dict[str, Any]:
    """Return a part's share of the one GPU that it shares; nulls where its GPUs are its own."""
    shared = next((row for row in gpus if row.mode == Gpu.Mode.SHARED), None)
    return {
        "gpu_compute": None if shared is None else shared.compute,
        "gpu_memory_mib": None if shared is None else shared.memory_mib,
    }


def _spec_world(attempt: Attempt) -> dict[str, Any]:
    """Return where the attempt's parts are, by rank, and how they find each other."""
    parts = attempt.allocations.select_related("node").order_by("rank")
    return {
        "nodes": [
            {"name": part.node.name, "address": part.node.address, "addresses": part.node.links.get("addresses", [])}
            for part in parts
        ],
        "port": attempt.rendezvous_port,
        "gpus_total": attempt.gpus,
    }


def disk_limit_mib(job: Job) -> int | None:
    """Return how much disk a job may use on each of its nodes: its own limit, else the operator's. None: no limit."""
    gib = job.disk_gib if job.disk_gib is not None else env("BERTH_JOB_DISK_GIB")
    return math.ceil(gib * GIB_MIB) if gib else None


def _time_limit_s(attempt: Attempt) -> int | None:
    own, of_job = attempt.time_limit_s, attempt.job.time_limit_s
    return min(own, of_job) if own and of_job else own or of_job


def _berth_environment(*, job: Job, gpus: int) -> dict[str, str]:
    """Return the hyper-parameters for the chosen size as environment variables (section 1)."""
    values: dict[str, Any] = {"BERTH_BATCH_PER_GPU": job.batch_per_gpu, "BERTH_SAMPLES": job.samples}
    if job.batch_per_gpu and gpus:
        values["BERTH_BATCH"] = job.batch_per_gpu * gpus
    if job.latency_class == Job.LatencyClass.LATENCY:
        values["BERTH_SLO_MS"] = f"{slo_ms():g}"
    if job.learning_rate is not None:
        values["BERTH_LEARNING_RATE"] = learning_rate_at(job, gpus)
    if job.array_id:
        values |= {
            "BERTH_ARRAY_JOB_ID": job.array_id,
            "BERTH_ARRAY_INDEX": job.array_index,
            "BERTH_ARRAY_SIZE": Job.objects.values_list("array_size", flat=True).get(pk=job.array_id),
        }
    return {name: str(value) for name, value in values.items() if value is not None}


def learning_rate_at(description: Any, gpus: int) -> float | None:
    """Return the learning rate for `gpus` GPUs, None when none was given; also takes a Job (algorithms, section 1)."""
    rate = description.learning_rate
    if not rate:
        return None
    if "value" not in rate:
        value = rate.get(str(gpus))
        return None if value is None else float(value)
    scale = gpus / rate["at"]
    return float(rate["value"] * {"linear": scale, "sqrt": math.sqrt(scale), "none": 1.0}[rate["rule"]])
