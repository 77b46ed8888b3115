"""The GPUs of a node as cells, as the reader may see them; neighbours with one holder stand over one caption.

Operators see how busy each GPU is, in five steps, and which are held without computing. Others see whose each GPU is: then the
answer differs by user, so what is made of it may be shared by the tabs of one user only.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict

from django.urls import reverse

from portal.cluster.gpu_states import GpuState, gpu_state
from portal.pages.dashboard.parts.formatting import count_of, percent
from portal.pages.dashboard.parts.neighbours import names_words, part_words
from portal.pages.dashboard.parts.snapshot import OTHER_TENANT
from portal.people.tenants.models import Tenant
from portal.work.jobs.selectors import ANOTHERS
from portal.work.jobs.use import WHOLE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from portal.cluster.models import Gpu, Node
    from portal.pages.dashboard.parts.snapshot import Snapshot
    from portal.work.jobs.models import Allocation, Job

STEPS = 5
UNUSED_S = 600
"""Seconds without computing after which a held GPU is shown as idle."""
MANY = 16
"""More cells than this are narrow, and take several lines."""


class Cell(TypedDict):
    look: str  # its classes without `b-`: "u5", "lazy", "mine", "free", "share share-used"
    word: str
    title: str
    index: int


class Caption(NamedTuple):
    """The text under cells. `until`: an expected time after the note. Neighbours with equal captions are one group."""

    text: str = ""
    url: str | None = None
    note: str = ""
    until: str | None = None
    is_job: bool = False


def gpu_groups(node: Node, snapshot: Snapshot) -> dict[str, Any]:
    """Return the context of `parts/_gpus.html`: the node's GPUs by index, in groups. No query of its own but the snapshot's."""
    told = _Told(node, snapshot)
    rows = [told.row(gpu) for gpu in node.gpus_present]
    groups = [
        {"caption": caption, "cells": [cell for cell, _, _ in members]}
        for (_, caption), group in groupby(rows, key=lambda row: (row[2], row[1]))
        for members in [list(group)]
    ]
    return {"groups": groups, "many": len(rows) > MANY}


def gpu_key(snapshot: Snapshot) -> list[dict[str, Any]]:
    """Return the words of the looks, for `parts/_gpu_key.html`. One query for a reader who is no operator."""
    if snapshot.user.is_operator:
        whose = [(("u1", "u3", "u5"), "busy, 0 to 100\u00a0%"), (("lazy",), "held, idle")]
    else:
        own = list(Tenant.objects.filter(pk__in=snapshot.reader.tenant_ids).values_list("name", flat=True)[:2])
        ours = own[0] if len(own) == 1 else "your tenants"
        whose = [(("mine",), "yours"), (("ours",), ours), (("others",), "others")]
    free = [
        ((look,), word) for look, word in (("free", "free"), ("kept", "kept"), ("share", "for sharing"), ("out", "out"))
    ]
    return [{"looks": looks, "word": word} for looks, word in [*whose, *free]]


class _Told:
    """A node's GPUs in words and looks, for one reader."""

    def __init__(self, node: Node, snapshot: Snapshot) -> None:
        self._node, self._snapshot = node, snapshot
        self._uses = {index: each.get("utilisation") for index, each in node.live_gpus.items()}
        self._unused, self._is_up = node.unused_gpus, node.health == "up"
        self._holders: dict[int, list[Allocation]] = defaultdict(list)
        for part in snapshot.parts_by_node[node.pk]:
            for held in part.gpu_allocations.all():
                self._holders[held.gpu_id].append(part)
        free = sum(self._state(gpu) is GpuState.IDLE for gpu in node.gpus_present)
        self._plain_free = free - snapshot.kept_counts.get(node.name, 0)  # the others are kept, and drawn as the last

    def _state(self, gpu: Gpu) -> GpuState:
        held, shared = bool(self._holders[gpu.pk]), gpu.mode == gpu.Mode.SHARED
        return gpu_state(held=held, closed=bool(gpu.closed_because), shared=shared, is_up=held or self._is_up)

    def row(self, gpu: Gpu) -> tuple[Cell, Caption, object]:
        """Return its cell, its caption, and its holder: two jobs of other tenants have equal captions, and are two."""
        state, parts = self._state(gpu), self._holders[gpu.pk]
        if gpu.mode == gpu.Mode.SHARED and state in {GpuState.HELD, GpuState.FOR_SHARING}:
            return self._for_sharing(gpu, parts)
        if state is GpuState.HELD:
            job = parts[0].attempt.job
            return self._held(gpu, parts[0]), self._caption(parts[0]), job.array_id or job.pk
        if state is GpuState.OUT:
            why = gpu.closed_because or f"{self._node.name} takes no jobs"
            return self._cell(gpu, "out", "out", why), Caption(gpu.cordon_reason), None
        self._plain_free -= 1
        if self._plain_free >= 0:
            return self._cell(gpu, "free", "free", "free"), Caption(), None
        return self._kept(gpu)

    def _cell(self, gpu: Gpu, look: str, word: str, title: str) -> Cell:
        return {"look": look, "word": word, "title": f"GPU {gpu.index}, {title}", "index": gpu.index}

    def _held(self, gpu: Gpu, part: Allocation) -> Cell:
        if not self._snapshot.user.is_operator:
            return self._whose(gpu, part.attempt.job)
        use, since = (each.get(str(gpu.index)) for each in (self._uses, self._unused))
        begun_s = part.attempt.created_at.timestamp()
        title = "busy not measured" if use is None else f"busy {percent(use)}"
        if gpu.closed_because:
            title += f", {gpu.closed_because}, takes no new jobs"
        if since is not None and self._snapshot.now.timestamp() - max(since, begun_s) >= UNUSED_S:
            return self._cell(gpu, "lazy", percent(use), title)
        step = 1 if use is None else min(STEPS, int(use * STEPS / 100) + 1)
        return self._cell(gpu, f"u{step}", "", title)

    def _whose(self, gpu: Gpu, job: Job) -> Cell:
        if job.owner_id == self._snapshot.user.pk:
            return self._cell(gpu, "mine", "", f"yours, {job.name}")
        if self._snapshot.reader.sees(job.tenant_id):
            return self._cell(gpu, "ours", "", f"{job.owner.username}'s, {job.name}")
        return self._cell(gpu, "others", "", ANOTHERS)

    def _caption(self, part: Allocation) -> Caption:
        job, reader = part.attempt.job, self._snapshot.reader
        operator = self._snapshot.user.is_operator
        end = None if operator else self._snapshot.ends.get(job.array_id or job.pk)
        until, about = (end.isoformat(), "until about") if end else (None, "")
        if not reader.sees(job.tenant_id):
            return Caption(OTHER_TENANT, None, about, until, is_job=True)
        url = reverse("job-detail", args=[job.array_id or job.number])
        if operator:
            return Caption(job.name, url, job.tenant.name, is_job=True)
        if job.owner_id != self._snapshot.user.pk:
            return Caption(job.name, url, job.owner.username, is_job=True)
        return Caption(job.name, url, about, until, is_job=True)

    def _for_sharing(self, gpu: Gpu, parts: Sequence[Allocation]) -> tuple[Cell, Caption, object]:
        held = [row for part in parts for row in part.gpu_allocations.all() if row.gpu_id == gpu.pk]
        milli = sum(row.compute for row in held)
        used = " share-full" if milli > WHOLE / 2 else " share-used" if milli else ""
        jobs = [part.attempt.job for part in parts]
        own = [f"#{job.number}" for job in jobs if self._snapshot.reader.sees(job.tenant_id)]
        given = part_words(milli, sum(row.memory_mib or 0 for row in held))
        title = (
            f"for sharing, {given} given to {names_words(own, len(jobs) - len(own))}"
            if jobs
            else "for sharing, none on it"
        )
        return self._cell(gpu, f"share{used}", "", title), Caption("for sharing"), None

    def _kept(self, gpu: Gpu) -> tuple[Cell, Caption, object]:
        kept = self._snapshot.kept_by_node[self._node.name]
        title = "kept for " + (kept[0].who if len(kept) == 1 else count_of(len(kept), "job"))
        caption = Caption("another tenant's job" if kept else "")
        if kept and kept[0].number:
            until = kept[0].starts[0] if kept[0].starts else kept[0].until
            caption = Caption(
                f"#{kept[0].number}", reverse("job-detail", args=[kept[0].number]), "about", until.isoformat()
            )
        return self._cell(gpu, "kept", "kept", title), caption, "kept"
