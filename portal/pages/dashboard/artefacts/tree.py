"""A job's files as a tree: folders first, by name, with a limit of rows; a folder's link opens the rest of it."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from django.urls import reverse

from portal.work.previews.shown import holds_curves

if TYPE_CHECKING:
    from collections.abc import Iterable

    from portal.work.artefacts.models import Artefact
    from portal.work.jobs.models import Job

MOST_ROWS = 300
OPEN_UP_TO = 40
"""With no more files than this all folders are open."""
MOST_DEPTH = 12
PICTURES = (".png", ".jpg", ".jpeg", ".gif", ".webp")
TABLES = (".csv", ".tsv", ".jsonl")
BOXES = (".pt", ".pth", ".ckpt", ".safetensors", ".npy", ".npz", ".zip", ".tar", ".pkl", ".bin")


def page_url(job: Job, **query: str) -> str:
    """Return the page's address; empty parts of the query are left out."""
    told = {name: value for name, value in query.items() if value}
    return reverse("job-artefacts", args=[job.number]) + (f"?{urlencode(told)}" if told else "")


def continue_url(job: Job, path: str, **more: str) -> str:
    """Return the way to a new job like this one that begins with this artefact."""
    return f"{reverse('job-submit')}?{urlencode({'from': job.number, 'begin_with': path, **more})}"


def tensorboard_url(job: Job, path: str) -> str | None:
    """Return the way to a TensorBoard of an event file and those beside it; None where it is none."""
    folder, slash, name = path.rpartition("/")
    return continue_url(job, f"{folder}/" if slash else path, show="tensorboard") if ".tfevents." in name else None


def file_row(job: Job, row: Artefact, *, selected: str = "", under: str = "") -> dict[str, Any]:
    return {
        "name": row.path.rpartition("/")[2],
        "path": row.path,
        "key": f"{zlib.crc32(row.path.encode()):08x}",
        "url": page_url(job, path=row.path, under=under),
        "icon": icon_of(row.path),
        "size_bytes": row.size if row.size is not None else row.told_size,
        "at": row.modified_at.isoformat(),
        "note": note_of(row),
        "selected": row.path == selected,
    }


def note_of(row: Artefact) -> str | None:
    """Say what is not as it should be: on its way, or not kept and why."""
    if row.incoming:
        return "still being written"
    return f"not kept: {row.reason}" if row.reason else None


def icon_of(path: str) -> str:
    name = path.lower()
    if holds_curves(path):
        return "chart-line"
    if name.endswith(PICTURES):
        return "photo"
    if name.endswith(TABLES):
        return "table"
    return "box" if name.endswith(BOXES) else "file"


def tree_of(job: Job, rows: Iterable[Artefact], *, under: str, selected: str) -> tuple[dict[str, Any], int]:
    """Return the folder `under` with everything below it, and the count of its files without a row."""
    top, listed, hidden = _folder(job, "", under), 0, 0
    places = {under: top}
    for row in rows:
        folder = _place(job, places, row.path.rpartition("/")[0], under)
        size = row.size or 0
        for each in _upwards(folder, under):
            if each in places:
                places[each]["files"] += 1
                places[each]["size_bytes"] += size
        if listed < MOST_ROWS or row.path == selected:
            places[folder]["rows"].append(file_row(job, row, selected=selected, under=under))
            listed += 1
        else:
            hidden += 1
    if top["files"] <= OPEN_UP_TO:
        for place in places.values():
            place["open"] = True
    for each in _upwards(selected.rpartition("/")[0], under):
        if each in places:
            places[each]["open"] = True
    return top, hidden


def _folder(job: Job, name: str, path: str) -> dict[str, Any]:
    url, again = page_url(job, under=path), continue_url(job, f"{path}/")
    return {
        "name": name,
        "url": url,
        "continue_url": again,
        "files": 0,
        "size_bytes": 0,
        "open": False,
        "folders": [],
        "rows": [],
    }


def _place(job: Job, places: dict[str, dict[str, Any]], folder: str, under: str) -> str:
    """Return the folder that a file's row stands in; very deep ones stand in the last that is drawn."""
    start = len(under) + 1 if under else 0
    parts = folder[start:].split("/")[:MOST_DEPTH] if len(folder) >= start and folder != under else []
    path = under
    for part in parts:
        inner = f"{path}/{part}" if path else part
        if inner not in places:
            if len(places) > MOST_ROWS:
                return path
            places[inner] = _folder(job, part, inner)
            places[path]["folders"].append(places[inner])
        path = inner
    return path


def _upwards(folder: str, under: str) -> list[str]:
    """Return the folder and those above it, up to `under`."""
    found = [folder]
    while folder and folder != under:
        folder = folder.rpartition("/")[0]
        found.append(folder)
    return found
