"""Problems for an operator: each with its cause, its time, its effect, and one act."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.db.models import Count, Q
from django.urls import reverse
from django.utils import timezone

from portal.cluster.models import Gpu, Node
from portal.engines.selectors import engines_attached
from portal.engines.services import PILOT_PREFIX
from portal.operate.health.health import health
from portal.pages.dashboard.parts.formatting import count_of
from portal.pages.dashboard.shell.banner import accounts_words

if TYPE_CHECKING:
    from datetime import datetime

    from portal.engines.models import Engine
    from portal.pages.dashboard.parts.snapshot import Snapshot

SHOWN = 5
MOST = 50
REFUSED_FOR = timedelta(minutes=10)
"""So long after it a refused order is a problem."""
UTC_TIME = re.compile(r"\b(\d{4}-\d\d-\d\d) (\d\d:\d\d)(?::\d\d)? UTC")
GUIDE = "operators-guide"
ACTS = {
    "nodes": ("Cluster", "cluster", "", ""),
    "node disks": ("What to do", "help-guide", GUIDE, "#disks"),
    "agents": ("Cluster", "cluster", "", ""),
    "plannings": ("Plannings", "rounds", "", ""),
    "disk": ("What to do", "help-guide", GUIDE, "#disks"),
}
"""By a sentence's subject: the act's word, its page with an argument, and the place there."""
OTHERWISE = ("What to do", "help-guide", GUIDE, "#when-something-fails")


def problems_make(snapshot: Snapshot) -> dict[str, Any]:
    """Return the first, and how many more there are. Those of nodes and GPUs are named; the others come from `/healthz`."""
    nodes = [*_nodes_away(), *_nodes_out(), *_gpus_out()]
    found = [*nodes, *_engines(), *map(_told, _sentences()), *_accounts()]
    return {"shown": found[:SHOWN], "more": len(found) - SHOWN}


def _problem(
    what: str,
    note: str,
    act: tuple[str, str],
    *,
    since: datetime | None = None,
    mild: bool = False,
    posts: bool = False,
) -> dict[str, Any]:
    """Return one. `posts`: its act is a button that acts, not a link."""
    at = since.isoformat() if since else None
    return {"what": what, "since": at, "note": note, "act": act[0], "url": act[1], "mild": mild, "posts": posts}


def _node_act(node: Node) -> tuple[str, str]:
    return "What to do", reverse("node-detail", args=[node.name])


def _nodes_away() -> list[dict[str, Any]]:
    """Nodes that should answer and do not, as `/healthz` counts them, with the jobs there."""
    jobs = Count("allocations__attempt__job", filter=Q(allocations__released_at=None), distinct=True)
    nodes = Node.objects.alive().filter(drained_at=None, token_revoked_at=None, last_contact_at__isnull=False)
    return [
        _problem(
            f"{node.name} does not answer",
            f"it has {count_of(node.jobs, 'job')}, which may still run" if node.jobs else "no job was on it",
            _node_act(node),
            since=node.last_contact_at,
        )
        for node in nodes.annotate(jobs=jobs).order_by("last_contact_at")[:MOST]
        if not node.is_reachable
    ]


def _nodes_out() -> list[dict[str, Any]]:
    nodes = Node.objects.alive().exclude(drained_by_check="").filter(drained_at__isnull=False).order_by("-drained_at")
    return [
        _problem(f"{node.name} is out: {node.drain_reason}", "its jobs go on", _node_act(node), since=node.drained_at)
        for node in nodes[:MOST]
    ]


def _gpus_out() -> list[dict[str, Any]]:
    """GPUs that a check took out, or that a stranger uses. Those that an operator took out are known to operators."""
    closed = Q(cordoned_at__isnull=False) & ~Q(cordon_check="") | Q(outside_since__isnull=False, cordoned_at=None)
    gpus = (
        Gpu.objects.present().filter(closed, node__dead_at=None).select_related("node").order_by("node__name", "index")
    )
    return [_gpu_out(gpu) for gpu in gpus[:MOST]]


def _gpu_out(gpu: Gpu) -> dict[str, Any]:
    name, mild = f"GPU {gpu.index} of {gpu.node.name}", gpu.cordoned_at is None
    what = f"{name} is used from outside Berth" if mild else f"{name} is out: {gpu.cordon_reason}"
    note, since = gpu.cordon_remedy or "no new job gets it", gpu.cordoned_at or gpu.outside_since
    return _problem(what, note, _node_act(gpu.node), since=since, mild=mild)


def _engines() -> list[dict[str, Any]]:
    """Partitions of other schedulers that do not answer, and those that refuse Berth's orders. One query."""
    found = []
    for engine in engines_attached()[:MOST]:
        act = ("Partition", reverse("engine-detail", args=[engine.pk]))
        if (since := engine.silent_since) is not None:
            why = engine.away_reason or "its bridge is not heard"
            found.append(_problem(f"{engine.name} does not answer", f"{why}; jobs there go on", act, since=since))
        elif (said := refusal_words(engine)) is not None:
            note = "Berth asks again, a minute after each refusal"
            found.append(_problem(said, note, act, since=engine.refused_at, mild=True))
    return found


def refusal_words(engine: Engine) -> str | None:
    """Say that the last orders were refused, and why; None where none was refused lately."""
    if engine.refused_at is None or timezone.now() - engine.refused_at > REFUSED_FOR:
        return None
    if engine.refused_reason.startswith(PILOT_PREFIX):
        return f"A pilot of {engine.name} failed: {engine.refused_reason}"
    return f"{engine.scheduler} refuses pilots of {engine.name}: {engine.refused_reason}"


def _accounts() -> list[dict[str, Any]]:
    """Return that jobs of several tenants run as one account; a demo's tenants trust each other."""
    said = None if settings.DEMO else accounts_words()
    if said is None:
        return []
    what, _, note = said.rstrip(".").partition(" and can ")
    url = f"{reverse('help-guide', args=[GUIDE])}#single-account-mode"
    return [_problem(what, f"can {note}" if note else "", ("What to do", url), mild=True)]


def _sentences() -> list[str]:
    """Return the problems of `/healthz` but those that are named above."""
    return [each for each in health()[1] if not re.match(r"nodes: \d+ unreachable", each)]


def _told(sentence: str) -> dict[str, Any]:
    """Split a sentence `subject: problem (names); more` into the problem and the rest."""
    subject, _, rest = UTC_TIME.sub(r"\1T\2Z", sentence).partition(": ")
    what, _, note = rest.partition("; ") if "; " in rest else rest.partition(" (")
    word, page, argument, place = ACTS.get(subject, OTHERWISE)
    url = reverse(page, args=[argument] if argument else []) + place
    is_backup, subject = subject == "backup", subject[:1].upper() + subject[1:]
    if is_backup:
        word, url = "Back up now", reverse("console-backup")
    return _problem(f"{subject}: {what}", note.removesuffix(")"), (word, url), mild=is_backup, posts=is_backup)
