"""A node of another scheduler in one row: the holders of its GPUs as cells, and how much of it is free."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.urls import reverse

from portal.cluster.gpu_states import count_words
from portal.cluster.models import GpuType
from portal.pages.dashboard.parts.formatting import count_of, number
from portal.pages.dashboard.parts.gpus import MANY, Caption, Cell, gpu_groups, gpu_key

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from portal.cluster.models import Node
    from portal.engines.models import Engine, EngineJob
    from portal.engines.selectors import Host
    from portal.pages.dashboard.parts.snapshot import Snapshot

Group = dict[str, Any]
STATES = (
    ("not_responding", "not responding"),
    ("drain", "drained"),
    ("maint", "in maintenance"),
    ("reserved", "reserved"),
    ("down", "down"),
)
"""Part of the other scheduler's state -> its word on a cell, the first that fits."""


def types_called() -> Callable[[str], str]:
    """Return a function from the other scheduler's word of a type of GPUs to Berth's, where only capitals differ. One query."""
    known = {name.casefold(): name for name in GpuType.objects.values_list("name", flat=True)} | {"gpu": "GPU"}
    return lambda kind: known.get(kind.casefold(), kind)


def host_row(host: Host, engine: Engine, snapshot: Snapshot, called: Callable[[str], str]) -> dict[str, Any]:
    """Return the context of `cluster/_host_row.html`."""
    seen, free = host.seen, host.free + free_gpus(host.jobs, snapshot)
    idle_cores = seen["cores"] - seen["cores_busy"] if seen["takes_jobs"] else 0
    said = number(free) if host.total else count_of(idle_cores, "core")
    groups = [group for job in host.jobs for group in _berths(job, engine, snapshot)]
    groups += _apart(host, engine)
    return {
        "name": seen["name"],
        "nodes": [_link(job.node) for job in host.jobs if job.node and job.node.dead_at is None],
        "has": ", ".join(count_words(count, called(kind)) for kind, count in seen["gpus"].items())
        or count_of(seen["cores"], "core"),
        "gpus": {"groups": groups, "many": sum(len(group["cells"]) for group in groups) > MANY},
        "free": free,
        "is_free": bool(free if host.total else idle_cores),
        "free_words": f"{said} free" if free or (idle_cores and not host.total) else "none free",
        "is_out": not seen["takes_jobs"] and not free,
    }


def _link(node: Node) -> dict[str, str]:
    return {"name": node.name, "url": reverse("node-detail", args=[node.name])}


def free_gpus(jobs: Iterable[EngineJob], snapshot: Snapshot) -> int:
    """Return how many GPUs of these orders no job holds, and none is kept for."""
    facts = snapshot.facts
    places = {name: place for place, name in enumerate(facts.names)}
    own = [places[job.node.name] for job in jobs if job.holds and job.node and job.node.name in places]
    return sum(max(0, facts.idle(place)[0] - facts.kept[place]) for place in own)


def _berths(job: EngineJob, engine: Engine, snapshot: Snapshot) -> list[Group]:
    """Return the GPUs of an order: as on its node's page, or nameless while its node is not there."""
    node = next((each for each in snapshot.nodes if each.pk == job.node_id and each.dead_at is None), None)
    if node is not None:
        return gpu_groups(node, snapshot)["groups"]
    word = "its node has left" if job.node_id else "its node starts"
    return [_group("others", "", f"held by Berth, {word}", job.gpus, Caption("Berth", note=word, is_job=True))]


def _apart(host: Host, engine: Engine) -> list[Group]:
    """Return the GPUs that Berth does not hold."""
    word = next((word for part, word in STATES if part in host.seen["state"]), "out")
    why = f"{word} in {engine.scheduler}"
    why += f": {host.seen['reason']}" if host.seen["reason"] else ""
    others = f"others' {engine.scheduler} jobs"
    return [
        group
        for group in (
            _group("theirs", "", others, host.others, Caption(others, is_job=True)),
            _group("free", "free", f"free in {engine.scheduler}", host.free, Caption()),
            _group("out", word, why, host.out, Caption(why)),
        )
        if group["cells"]
    ]


def _group(look: str, word: str, title: str, count: int, caption: Caption) -> Group:
    cells = [Cell(look=look, word=word, title=f"GPU, {title}", index=index) for index in range(count)]
    return {"caption": caption, "cells": cells}


def hosts_key(rows: Sequence[dict[str, Any]], engine: Engine, snapshot: Snapshot) -> list[dict[str, Any]]:
    """Return the words of the looks; of those that are seldom, only where one is shown."""
    shown = {
        look
        for row in rows
        for group in row["gpus"]["groups"]
        for cell in group["cells"]
        for look in cell["look"].split()
    }
    known = {each["looks"][0]: each for each in gpu_key(snapshot)}
    seldom = {"ours", "kept", "share", "lazy"}
    key = [each for look, each in known.items() if look not in seldom or look in shown]
    words = {"others": "others, by Berth"}
    key = [{**each, "word": words.get(each["looks"][0], each["word"])} for each in key]
    place = next(place for place, each in enumerate(key) if each["looks"][0] == "free")
    return [*key[:place], {"looks": ("theirs",), "word": f"others' {engine.scheduler} jobs"}, *key[place:]]
