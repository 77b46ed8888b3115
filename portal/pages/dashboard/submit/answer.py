"""The answer beside the form: when the job would start and be over, and the same request as text for a shell and for Python."""

from __future__ import annotations

import json
import shlex
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from portal.pages.dashboard.parts.formatting import count_of, duration
from portal.pages.dashboard.parts.plain import reason_words
from portal.pages.dashboard.submit.form import GPU_COUNTS, write_value
from portal.pages.dashboard.submit.reading import form_field_of
from portal.people.tenants.models import Tenant
from portal.planning.rounds.asking.alternatives import alternatives_find
from portal.planning.rounds.asking.dryrun import dry_run as plan_dry_run
from portal.planning.rounds.settings.knobs import knobs_current
from portal.work.jobs.declaration.table import BY_NAME, INPUTS
from portal.work.jobs.services.submission import submission_check
from portal.work.jobs.use import WHOLE, tenants_use

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from django.http import HttpRequest, QueryDict

    from portal.foundation.errors import BerthError
    from portal.people.tenants.models import User
    from portal.work.jobs.description import JobDescription


OTHERS_MAX = 2
CHANGES = {
    "no-node-with-type": "Choose another type of GPU.",
    "software-missing": "Choose other software.",
    "not-enough-memory": "Ask for less memory.",
    "not-enough-cores": "Ask for fewer cores.",
    "not-enough-idle-gpus": "Ask for fewer GPUs.",
    "gpus-scattered": "Ask for fewer GPUs.",
    "no-shared-gpu": "Ask for a smaller part of a GPU.",
}
"""A change that may help where the cluster as it is cannot hold a job, by the reason."""


def dry_run_context(user: User, description: dict[str, Any]) -> dict[str, Any]:
    """Return the verdict of a planning of a valid description now. Raises BerthError where it is refused after all."""
    tenant, parsed = submission_check(user=user, description=description, r_num=knobs_current()["r_num"])
    answer = plan_dry_run(description=parsed, tenant=tenant, user=user)
    over, limit_s, start = answer["over_at"], parsed.job_fields()["time_limit_s"], answer["start"]
    verdict: dict[str, Any] = {"over": over and over.isoformat(), "asks_others": parsed.gpus != (0,)}
    verdict["similar"] = similar_context(answer["similar"])
    if answer["placeable"]:
        until = answer["at"] + timedelta(seconds=limit_s) if limit_s and not over else None
        said = {"tone": "run", "title": "Starts at once", "place": _place(answer["placement"], parsed)}
        note = _holds(tenant, answer["placement"], parsed)
        if not over and not until and not answer["similar"]:
            note = f"Give an expected duration to see when it ends. {note}"
        return verdict | said | {"until": until and until.isoformat(), "note": note}
    cause = reason_words(answer["reason"], answer["figures"], tenant=tenant.name)
    verdict["cause"] = f"{cause[:1].upper()}{cause[1:]}"
    if start is None and (answer["reason"] == "no-node-with-type" or answer["figures"].get("ever") is False):
        note = CHANGES.get(answer["reason"], "")
        return verdict | {"tone": "fail", "title": "Cannot start", "anyway": True, "over": None, "note": note}
    if start is None or start["median_at"] is None:
        return verdict | {"tone": "wait", "title": "Waits", "over": None, "note": "When it starts is not known yet."}
    times = {name: start[f"{name}_at"] and start[f"{name}_at"].isoformat() for name in ("earliest", "median", "latest")}
    return verdict | times | {"tone": "wait", "title": "Starts about", "at": times["median"]}


def similar_context(found: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return the run times of similar jobs in words, and their middle as the field of the expected duration has it."""
    if found is None:
        return None
    low, high = duration(found["low_s"]), duration(found["high_s"])
    took = f"took {low}" if low == high else f"mostly took {low} to {high}"
    fields = {"expected_duration_s": write_value(BY_NAME["expected_duration_s"], found["declare_s"])}
    return {"words": f"{found['words']} {took}.", "middle": duration(found["declare_s"]), "fields": fields}


def _place(pieces: Sequence[Mapping[str, Any]], parsed: JobDescription) -> str:
    """Return as: on rtx-02 with 2 GPUs. The count of a job that accepts one only is not said again."""
    gpus = sum(piece["gpus"] for piece in pieces)
    size = f" with {count_of(gpus, 'GPU')}" if len(parsed.gpus) > 1 else ""
    names = [piece["node"] for piece in pieces]
    where = f"on {' and '.join(names)}" if len(names) < 3 else f"on {len(names)} nodes"
    return f"{'its first run ' if parsed.array_size else ''}{where}{size}"


def _holds(tenant: Tenant, pieces: Sequence[Mapping[str, Any]], parsed: JobDescription) -> str:
    """Return as: vision-lab then holds 10 of its 20 GPUs. Nothing for a job without GPUs."""
    more = sum(piece["gpus"] for piece in pieces) or float(parsed.job_fields().get("gpu_compute") or 0) / WHOLE
    if not more:
        return ""
    held = tenants_use(Tenant.objects.filter(pk=tenant.pk))[tenant.pk].gpus + more
    whole = f"{held:g} of its {count_of(tenant.gpu_quota, 'GPU')}" if tenant.gpu_quota else count_of(held, "GPU")
    return f"{tenant.name} then holds {whole}."


def refused_context(problems: list[BerthError]) -> dict[str, Any]:
    """Return the verdict on a form that would be refused. `blocks`: nothing that is set elsewhere can make it fit."""
    asked = INPUTS.get(form_field_of(problems[0]) or "") if problems[0].code == "invalid" else None
    detail = f"{asked.label}: {problems[0].detail}" if asked else problems[0].detail
    more = f"{count_of(len(problems) - 1, 'more problem')} at the fields." if len(problems) > 1 else ""
    blocks = problems[0].code == "unsatisfiable" and len(problems) == 1
    return {"tone": "fail", "title": "Cannot start", "cause": detail.rstrip("."), "note": more, "blocks": blocks}


def others_context(user: User, description: dict[str, Any]) -> dict[str, Any]:
    """Return at most two other counts or types of GPUs with which a job would be over sooner, with the fields to fill in."""
    tenant, parsed = submission_check(user=user, description=description, r_num=knobs_current()["r_num"])
    found, all_tried = alternatives_find(description=parsed, tenant=tenant, user=user, sizes=GPU_COUNTS)
    others = []
    for each in found[:OTHERS_MAX]:
        fields = {"gpu_types": each.gpu_type} if each.gpu_type else {"gpus": str(each.gpus)}
        if (
            parsed.job_fields()["samples"] is None
        ):  # a duration that is given is that of the counts and types that are given
            fields["expected_duration_s"] = f"{max(1, round(each.run_s / 60))} min"
        words = f"{each.gpus} {each.gpu_type}" if each.gpu_type else count_of(each.gpus, "GPU")
        others.append({"words": words, "over": each.over_at.isoformat(), "fields": fields})
    return {"others": others, "all_tried": all_tried}


NAMES = "file_names"
MARK = "@@berth-file-{}@@"


def request_text(request: HttpRequest, description: Mapping[str, Any]) -> dict[str, Any]:
    """Return both. Files are read where the text is run, so their names stand here, never their contents."""
    url = f"{request.scheme}://{request.get_host()}/api/v1/jobs"
    names = names_of(request.POST)
    plain = {name: value for name, value in description.items() if name != "files"}
    return {"curl": _curl(url, plain, names), "python": _python(url, plain, names)}


def names_of(post: QueryDict) -> list[str]:
    """Return the names of the files that the page keeps; a dry run is not sent their contents."""
    text = post.get(NAMES, "")
    try:
        names = json.loads(text) if text else []
        json.dumps(names, ensure_ascii=False).encode()  # no half of a surrogate pair
    except (ValueError, RecursionError):
        return []
    return [name for name in names if isinstance(name, str)] if isinstance(names, list) else []


def _curl(url: str, description: Mapping[str, Any], names: list[str]) -> str:
    """The body is quoted for the shell: a command may hold any character. A file's content is put in by the shell."""
    files = {name: {"base64": MARK.format(place)} for place, name in enumerate(names)}
    body = dict(description) | ({"files": files} if files else {})
    data = shlex.quote(json.dumps(body, indent=1, ensure_ascii=False))
    for place, name in enumerate(names):
        data = data.replace(MARK.format(place), f"'\"$(base64 < {shlex.quote(name)} | tr -d '\\n')\"'")
    return (
        f'curl -X POST {shlex.quote(url)} \\\n -H "Authorization: Bearer $BERTH_TOKEN" \\\n'
        f" -H 'Content-Type: application/json' \\\n --data {data}"
    )


def _python(url: str, description: Mapping[str, Any], names: list[str]) -> str:
    files = (
        f"names = {names!r}\n"
        'job["files"] = {n: {"base64": base64.b64encode(open(n, "rb").read()).decode()} for n in names}\n'
    )
    return (
        f"import {'base64, ' if names else ''}json, os, urllib.request\n\n"
        f"job = {dict(description)!r}\n{files if names else ''}"
        f"request = urllib.request.Request(\n    {url!r},\n    json.dumps(job).encode(),\n"
        '    {"Authorization": "Bearer " + os.environ["BERTH_TOKEN"], "Content-Type": "application/json"},\n)\n'
        'print(json.load(urllib.request.urlopen(request))["id"])'
    )
