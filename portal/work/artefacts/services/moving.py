"""Bring whole contents from the portal's disk to the store, where one is set, and note whether it answers.

Nothing is remembered of a move: a content lies on the disk until all of it is in the store. A kill in between leaves it here,
and the next turn sends it again under the same name.
"""

from __future__ import annotations

import json
import logging
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from portal.foundation.errors import NotFound
from portal.work.artefacts import remote, store
from portal.work.artefacts.models import Artefact
from portal.work.jobs.models import Job

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

logger = logging.getLogger(__name__)

REST_S = 60
"""A younger content stays on the disk: a file that grows all the time is replaced every ten seconds."""
TURN_S = 240


def artefacts_move(*, rest_s: float = REST_S) -> int:
    """Move what is whole, for some minutes at most; return how many contents. Where the store is away the rest waits."""
    if not remote.is_set():
        return 0
    moved, until = 0, time.monotonic() + TURN_S
    try:
        remote.try_out()
        for key, path in _whole(rest_s):
            if time.monotonic() > until:
                break
            with suppress(FileNotFoundError):  # it was replaced or removed meanwhile
                remote.send(key, path.name, path)
                path.unlink()
                moved += 1
    except (remote.StoreAway, NotFound, ValueError) as error:
        why = getattr(error, "why", None) or ("there is no such bucket" if isinstance(error, NotFound) else str(error))
        logger.warning("the store of artefacts: %s", why)
        _note(why)
    else:
        _note(None)
    return moved


def _whole(rest_s: float) -> Iterator[tuple[str, Path]]:
    """Yield the job's key and the file of each content that is kept and rested."""
    for key, folder in store.folders():
        rested = dict(_rested(folder, rest_s))
        kept = Artefact.objects.filter(job__key=key, blob__in=[path.name for path in rested]) if rested else ()
        sizes = {row.blob: row.size for row in kept}
        yield from ((key, path) for path, size in rested.items() if sizes.get(path.name) == size)


def _rested(folder: Path, rest_s: float) -> Iterator[tuple[Path, int]]:
    for path in folder.iterdir():
        with suppress(FileNotFoundError):
            found = path.stat()
            if time.time() - found.st_mtime >= rest_s:
                yield path, found.st_size


def _note(why: str | None) -> None:
    """Write down that the store answers, or since when it does not."""
    before = store_state()
    since = before["since"] if before and before["why"] and why else time.time()
    path = store.root() / "store.json"
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    partly = path.with_suffix(".new")
    partly.write_text(json.dumps({"why": why, "since": since}))
    partly.replace(path)


def store_state() -> dict[str, Any] | None:
    """Return `why` the store did not answer the last time (None: it did), and `since` when (Unix s); None: never asked."""
    try:
        found: dict[str, Any] = json.loads((store.root() / "store.json").read_text())
    except (FileNotFoundError, ValueError):
        return None
    return found


def remote_sweep() -> int:
    """Remove from the store what no row names, a day old or older, and uploads that a kill left; return how many went.

    Objects of unknown jobs stay: two installations may have been given one bucket.
    """
    if not remote.is_set():
        return 0
    removed = remote.unfinished_drop()
    late = time.time() - store.ORPHAN_S
    for page in remote.listing():
        names = {each.name for each in page}
        kept = set(Artefact.objects.filter(blob__in=names).values_list("blob", flat=True))
        jobs = set(Job.objects.filter(key__in={each.key for each in page}).values_list("key", flat=True))
        orphans = [
            (each.key, each.name)
            for each in page
            if each.key in jobs and each.name not in kept and each.changed_at.timestamp() < late
        ]
        if orphans:
            remote.drop(orphans)
        removed += len(orphans)
    return removed
