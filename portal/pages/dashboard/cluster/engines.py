"""A partition of another scheduler: its page, and its row on the cluster page. Only counts are known of others' jobs there."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from django.core.paginator import Paginator
from django.urls import reverse
from django.utils import timezone

from portal.engines.selectors import engine_get, engines_attached, held_gpus, hosts_of, orders_open
from portal.foundation.errors import NotFound
from portal.pages.dashboard.cluster.abilities import abilities_of
from portal.pages.dashboard.cluster.hosts import free_gpus, host_row, hosts_key, types_called
from portal.pages.dashboard.overview.problems import refusal_words
from portal.pages.dashboard.parts.formatting import count_of, number
from portal.pages.dashboard.parts.snapshot import Snapshot
from portal.pages.dashboard.rounds.listing import page_links

if TYPE_CHECKING:
    from collections.abc import Sequence

    from portal.engines.models import Engine, EngineJob
    from portal.engines.selectors import Host
    from portal.people.tenants.models import User


ROWS_A_PAGE = 50


def engine_context(user: User, pk: int, *, page: str | None) -> dict[str, Any]:
    """Return the page's context. Raises NotFound."""
    engine = engine_get(pk=pk)
    now = now_context(engine, user, page=page)
    abilities = abilities_of(engine) if engine.standing != "detached" else []
    return {**head_context(engine), **now, "abilities": abilities}


def fragment_context(user: User, pk: int, fragment: str, *, page: str | None) -> dict[str, Any]:
    """Return one part's context. Raises NotFound for an unknown partition or part."""
    engine = engine_get(pk=pk)
    if fragment == "head":
        return head_context(engine)
    if fragment == "now":
        return now_context(engine, user, page=page)
    raise NotFound("fragment")


def head_context(engine: Engine) -> dict[str, Any]:
    return {"engine": engine, "standing": _standing(engine), "has": _has(engine)}


def _standing(engine: Engine) -> dict[str, Any]:
    since = engine.silent_since
    return {"word": engine.standing, "since": since.isoformat() if since else None}


def _has(engine: Engine) -> str:
    """Say how large the partition is: 4 nodes, 16 A100. One query."""
    counts, called = Counter[str](), types_called()
    for seen in engine.nodes:
        counts.update(seen["gpus"])
    gpus = [f"{number(count)} {called(kind)}" for kind, count in counts.most_common()]
    return ", ".join([count_of(len(engine.nodes), "node"), *gpus])


def now_context(engine: Engine, user: User, *, page: str | None) -> dict[str, Any]:
    jobs = orders_open([engine])[engine.pk]
    hosts = sorted(hosts_of(engine, jobs), key=lambda host: host.seen["name"])
    shown = Paginator(hosts, ROWS_A_PAGE).get_page(page)
    snapshot = Snapshot(user, names=[job.node.name for host in shown for job in host.jobs if job.node])
    called = types_called()
    rows = [host_row(host, engine, snapshot, called) for host in shown]
    return {
        "engine": engine,
        "standing": _standing(engine),
        "lead": _lead(engine, hosts, free_gpus(jobs, snapshot)),
        "may": _may(engine, hosts, jobs),
        "only": _only(engine, snapshot),
        "seen_at": engine.nodes_at.isoformat() if engine.nodes_at else None,
        "refusal": refusal_words(engine) if user.is_operator else None,
        "tells_reason": user.is_operator and engine.away_reason,
        "rows": rows,
        "key": hosts_key(rows, engine, snapshot),
        "page": shown.number,
        "paging": page_links(
            reverse("engine-detail", args=[engine.pk]),
            "node",
            shown.number,
            start=shown.start_index() - 1,
            shown=len(rows),
            total=len(hosts),
        )
        if shown.paginator.num_pages > 1
        else None,
        "waits": _waits(jobs),
    }


def _lead(engine: Engine, hosts: Sequence[Host], own: int) -> str:
    """Say how many GPUs jobs could have: `own` ones that Berth holds, and the scheduler's free ones where it is asked."""
    free = own if engine.standing == "detached" else own + sum(host.free for host in hosts)
    return f"{count_of(free, 'GPU')} {'is' if free == 1 else 'are'} free." if free else "No GPU is free."


def _may(engine: Engine, hosts: Sequence[Host], jobs: Sequence[EngineJob]) -> str:
    """Say how many GPUs Berth may use and holds."""
    held, total = held_gpus(jobs), sum(host.total for host in hosts)
    if engine.standing == "detached":
        return f"Berth holds {number(held)} until they end, and asks for no more." if held else "Berth holds none."
    most = f"all {number(total)}" if engine.gpus_max >= total else f"{number(engine.gpus_max)} of the {number(total)}"
    return f"Berth may use {most} here and holds {number(held)}; the rest is {engine.scheduler}'s."


def _only(engine: Engine, snapshot: Snapshot) -> str | None:
    """Say whose jobs alone run here. Others do not read the tenant's name."""
    if engine.tenant is None:
        return None
    return f"jobs of {engine.tenant.name}" if snapshot.reader.sees(engine.tenant.pk) else "jobs of one tenant"


def _waits(jobs: Sequence[EngineJob]) -> list[dict[str, Any]]:
    """Return the GPUs that are asked for and not given, those with the same reason and start together."""
    now, counts = timezone.now(), Counter[tuple[str, str | None]]()
    for job in jobs:
        if not job.holds and job.stop_at is None:
            is_listed = job.state == job.State.PENDING
            start = job.since.isoformat() if is_listed and job.since and job.since > now else None
            counts[(job.reason if is_listed else "", start)] += job.gpus
    return [
        {"gpus": count_of(gpus, "GPU"), "reason": reason, "at": start}
        for (reason, start), gpus in sorted(counts.items(), key=lambda each: (each[0][1] or "z", each[0][0]))
    ]


def engine_rows(_snapshot: Snapshot) -> dict[str, Any]:
    """Return the attached partitions for the cluster page, which has Berth's own GPUs there among its nodes. It names nobody."""
    engines = list(engines_attached())
    jobs = orders_open(engines) if engines else {}
    return {"engines": [_row(engine, jobs.get(engine.pk, ())) for engine in engines]}


def _row(engine: Engine, jobs: Sequence[EngineJob]) -> dict[str, Any]:
    hosts = hosts_of(engine, jobs)
    free = sum(host.free for host in hosts)
    return {
        "name": engine.name,
        "url": reverse("engine-detail", args=[engine.pk]),
        "has": _has(engine),
        "standing": _standing(engine),
        "may": _may(engine, hosts, jobs),
        "free": free,
        "free_words": f"{number(free)} more free" if free else "none more free",
    }
