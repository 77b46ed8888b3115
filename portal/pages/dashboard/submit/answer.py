"""The cards beside the form: how a planning would treat the job now, and the same request as text for a shell and for Python."""

from __future__ import annotations

import json
import shlex
from typing import TYPE_CHECKING, Any

from django.utils import timezone

from portal.pages.dashboard.parts.expected import starts_make
from portal.pages.dashboard.queue.page import record_words
from portal.planning.rounds.asking.dryrun import dry_run as plan_dry_run
from portal.planning.rounds.read.figures import queue_words
from portal.planning.rounds.read.forecasts import Start, forecast_record
from portal.planning.rounds.settings.knobs import knobs_current
from portal.work.jobs.services.submission import submission_check

if TYPE_CHECKING:
    from collections.abc import Mapping

    from django.http import HttpRequest, QueryDict

    from portal.foundation.errors import BerthError
    from portal.pages.dashboard.parts.context import Fact, StartsContext
    from portal.people.tenants.models import User


def dry_run_context(user: User, description: dict[str, Any]) -> dict[str, Any]:
    """Return the result of a planning of a valid description now. Raises BerthError where it is refused after all."""
    tenant, parsed = submission_check(user=user, description=description, r_num=knobs_current()["r_num"])
    answer = plan_dry_run(description=parsed, tenant=tenant, user=user)
    none = "part of a GPU" if parsed.shareable else "CPU"
    rows: list[dict[str, Any]] = [
        {
            "configuration": f"{part['node']} \u00d7 {part['gpus'] or none}",
            "text": f"{part['cores']} core{'s' if part['cores'] != 1 else ''}",
        }
        for part in answer["placement"] or []
    ]
    place: list[Fact] = []
    if answer["place"]:
        place.append({"label": "Place", "value": queue_words(answer).removeprefix("place ")})
    unit = "Cores" if parsed.gpus == (0,) else "Cores a GPU"
    return {
        "at": answer["at"].isoformat(),
        "outcome": "placeable" if answer["placeable"] else "waits",
        "word": "Placeable" if answer["placeable"] else "Would wait",
        "sentence": answer["sentence"].replace("Placed on", "The next planning would place it on"),
        "rows": rows,
        "starts": _starts(answer),
        "facts": [
            *place,
            {"label": f"{unit} wanted", "value": str(answer["cores"])},
            {"label": "Tenant", "value": tenant.name},
        ],
    }


def _starts(answer: dict[str, Any]) -> StartsContext | None:
    """Return the expected start of a job that would wait."""
    if answer["placeable"] or answer["start"] is None:
        return None
    found = starts_make(Start(answer["at"], **answer["start"], passed=False))
    return {**found, "record": record_words(forecast_record())} if found else None


def refused_context(problems: list[BerthError]) -> dict[str, Any]:
    """Return the words of a card without anything to plan yet."""
    impossible = problems[0].code == "unsatisfiable" and len(problems) == 1
    more = f" {len(problems) - 1} more beside the fields." if len(problems) > 1 else ""
    return {
        "at": timezone.now().isoformat(),
        "outcome": "impossible" if impossible else "invalid",
        "word": "Impossible here" if impossible else "Not valid yet",
        "sentence": problems[0].detail + more,
        "rows": [],
        "starts": None,
        "facts": [],
    }


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
