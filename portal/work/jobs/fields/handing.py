"""Hand a job's code and secrets to a node; the secrets' values apart, when the job starts there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from portal.foundation.errors import NotFound
from portal.work.jobs.fields.code import GIT, code_roots, git_schemes
from portal.work.jobs.models import Allocation, JobPayload
from portal.work.secrets.services import secrets_open

if TYPE_CHECKING:
    from portal.cluster.models import Node

OF_BUILDS = ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "APPTAINER_DOCKER_USERNAME", "APPTAINER_DOCKER_PASSWORD")
"""Variables of a job that are its build's too, where they are secrets: its own package indexes, and its registry."""


def code_spec(payload: JobPayload) -> dict[str, Any]:
    """Return the spec's `code`, `code_roots`, `secrets` and `build_secrets`. A node judges by the operator's present setting."""
    code, secrets = payload.code, payload.description.get("secrets") or {}
    told = (
        {"git": code[GIT], "ref": code.get("commit") or code["ref"], "submodules": code["submodules"]}
        if GIT in code
        else {}
    )
    return {
        "code": told and {**told, "schemes": git_schemes()},
        "code_roots": code_roots() if "path" in code else None,
        "secrets": bool(secrets or code.get("secret")),
        "build_secrets": {name: secrets[name] for name in OF_BUILDS if name in secrets},
    }


def part_secrets(*, node: Node, key: str) -> dict[str, Any]:
    """Return the values for the attempt with this key: by variable, and that of its code ("": none).

    Raises NotFound unless a part of it is wanted on the node, BerthError for a secret that was removed or cannot be opened.
    """
    part = Allocation.objects.filter(attempt__key=key, node=node, released_at=None).select_related(
        "attempt__job__tenant"
    )
    found = part.first()
    if found is None:
        raise NotFound("attempt on this node")
    job = found.attempt.job
    named = JobPayload.objects.values_list("description__secrets", "code__secret").get(pk=job.array_id or job.pk)
    variables, secret = named[0] or {}, named[1] or ""
    values = secrets_open(tenant=job.tenant, names={*variables.values(), *filter(None, [secret])})
    return {
        "environment": {variable: values[name] for variable, name in variables.items()},
        "code": values.get(secret, ""),
    }
