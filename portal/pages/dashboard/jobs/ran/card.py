"""The card *What ran*: command, code, files, variables and software of a job, and the line that makes the same job."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode, urlsplit

from django.urls import reverse

from portal.pages.dashboard.jobs.facts import file_rows
from portal.pages.dashboard.jobs.ran.command import submit_line
from portal.pages.dashboard.jobs.ran.elsewhere import runs_named
from portal.work.jobs.fields.code import HEAD
from portal.work.jobs.lineage import description_again
from portal.work.jobs.software import software_words
from portal.work.jobs.states import QUEUED, JobState
from portal.work.uploads.selectors import upload_begin

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from portal.work.jobs.models import Attempt, Job, JobPayload

COMMAND_CHARS, VALUE_CHARS = 2000, 60
FIRST_FILES, MOST_FILES, FIRST_VARIABLES, MOST_VARIABLES = 2, 200, 4, 100
FIRST = ("train.py", "main.py", "run.sh")
"""Names that come before others, as the form takes a command from them."""


def ran_make(job: Job, attempts: Sequence[Attempt]) -> dict[str, Any]:
    payload = job.brought
    command = payload.command
    return {
        "title": "What will run" if job.state in QUEUED and not attempts else "What ran",
        "command": command[:COMMAND_CHARS],
        "more_chars": max(0, len(command) - COMMAND_CHARS),
        "code": _code(payload.code, attempts),
        "files": _files(job, payload),
        "variables": _variables(payload.environment),
        "elsewhere": runs_named(payload.environment),
        "secrets": sorted((payload.description.get("secrets") or {}).items()),
        "software": _software(payload.software),
        "making": job.state == JobState.STARTING and bool(payload.software or "git" in payload.code),
        "line": submit_line(description_again(job)),
        "relaunch_url": f"{reverse('job-submit')}?from={job.array_id or job.pk}",
    }


def _code(code: Mapping[str, Any], attempts: Sequence[Attempt]) -> dict[str, Any] | None:
    if "path" in code:
        return {"name": code["path"], "url": None, "commit": "", "ref": "on the nodes"}
    if "git" not in code:
        return None
    address = urlsplit(code["git"])
    name = "/".join(address.path.removesuffix(".git").strip("/").split("/")[-2:])
    commit = next((each.commit for each in attempts if each.commit), "") or code.get("commit", "")
    ref = "" if code["ref"] in {HEAD, commit} else code["ref"]
    return {
        "name": name or code["git"],
        "title": code["git"],
        "url": code["git"].removesuffix(".git") if address.scheme in {"http", "https"} else None,
        "commit": commit[:7],
        "ref": ref,
    }


def _files(job: Job, payload: JobPayload) -> dict[str, Any] | None:
    """Return the first files and the others, no more than `MOST_FILES`; None: it brought none. Two queries for an upload."""
    sent, count = upload_begin(payload.upload_id, first=FIRST, most=MOST_FILES) if payload.upload_id else ([], 0)
    rows = [*file_rows(payload.files), *({"name": path, "size_bytes": size} for path, size in sent)]
    if not rows:
        return None
    rows.sort(key=lambda row: (row["name"] not in FIRST, not row["name"].endswith((".py", ".sh")), row["name"]))
    address, count = reverse("job-sent", args=[job.number]), count + len(payload.files)
    links = [{**row, "url": f"{address}?{urlencode({'path': row['name']})}"} for row in rows[:MOST_FILES]]
    return {
        "first": links[:FIRST_FILES],
        "others": links[FIRST_FILES:],
        "more": count - FIRST_FILES,
        "unnamed": count - len(links),
    }


def _variables(environment: Mapping[str, str]) -> dict[str, Any]:
    told = [
        (name, value if len(value) <= VALUE_CHARS else f"{value[: VALUE_CHARS - 1]}\u2026")
        for name, value in sorted(environment.items())[:MOST_VARIABLES]
    ]
    return {
        "first": told[:FIRST_VARIABLES],
        "others": told[FIRST_VARIABLES:],
        "more": len(environment) - FIRST_VARIABLES,
    }


def _software(software: Mapping[str, str]) -> tuple[str, str]:
    """Return the words and a note."""
    words = software_words(software)
    what, comma, note = words.partition(", ")
    return (what, note) if comma else (words, "")
