"""The form's request as text, for a shell and for Python: copied and run beside the files it makes the same job."""

from __future__ import annotations

import json
import shlex
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from django.http import HttpRequest, QueryDict


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
