"""How the queue is divided, for operators: the jobs that the last planning looked at, shares of tenants, kept GPUs."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from django.urls import reverse

from portal.pages.dashboard.parts.formatting import count_of, number, share
from portal.pages.dashboard.parts.record import record_words
from portal.pages.dashboard.parts.waiting import aside_words, counted
from portal.people.tenants.models import Tenant
from portal.planning.rounds.read.figures import QUEUES
from portal.planning.rounds.read.forecasts import RANGES_MOST, forecast_record
from portal.planning.rounds.read.kept import kept_now
from portal.planning.rounds.record.packing import REASONS

if TYPE_CHECKING:
    from portal.pages.dashboard.parts.context import Rich
    from portal.pages.dashboard.parts.snapshot import Snapshot
    from portal.planning.rounds.read.kept import KeptFor
    from portal.planning.rounds.record.decisions import Decisions

ARRAYS = ("gpu-large", "gpu-small", "cpu")
NOWHERE = {
    "nodes-unavailable": ("needs nodes that take no jobs now", "need nodes that take no jobs now"),
    "software-missing": ("needs nodes with its software", "need nodes with their software"),
    "checkpoint-elsewhere": ("needs nodes that read its checkpoint", "need nodes that read their checkpoints"),
}
TOO_MUCH = ("needs more than the cluster has", "need more than the cluster has")


def divided_context(snapshot: Snapshot, decisions: Decisions) -> dict[str, Any]:
    """Return the context of the folded row, and a digest of it."""
    planning = snapshot.planning
    orders = {array: len(decisions.order.get(array, ())) for array in ARRAYS}
    counts = [f"{number(count)} {QUEUES[decisions.queue(array)]}" for array, count in orders.items() if count]
    return {
        "digest": ", ".join(counts) or "no job waits for its turn",
        "url": reverse("planning-detail", args=[planning.number]) if planning else None,
        "at": planning.started_at.isoformat() if planning else None,
        "queues": [_queue(decisions, array, count) for array, count in orders.items() if count],
        "shares": _shares(decisions),
        "kept": kept_words(kept_now(user=snapshot.user)),
        "aside": " ".join(filter(None, [_nowhere(decisions), aside_words(snapshot.queue.aside())])) or None,
        "record": _record(snapshot.queue.waiting),
    }


def _queue(decisions: Decisions, array: str, count: int) -> str:
    """As: Large GPU jobs: 12 wait. It looked at 5 of them, which ask for 20 GPUs, up to 24; it started none."""
    title, window, seen = QUEUES[decisions.queue(array)], decisions.window(array), decisions.considered(array)
    said = f"{title[0].upper()}{title[1:]}: {number(count)} wait{'s' if count == 1 else ''}."
    if not window or not window["jobs"]:
        return f"{said} It looked at none of them." if window else said
    started = f"it started {number(seen['started']) if seen['started'] else 'none'}"
    asked = (
        f"which ask for {count_of(window['counted'], 'GPU')}; it looks until they ask for {number(window['capacity'])}"
    )
    free = count_of(window["idle"], "GPU")
    return f"{said} It looked at {number(seen['considered'])}, {asked}. {free} could be given; {started}."


def _shares(decisions: Decisions) -> list[dict[str, Any]]:
    """Return the tenants' shares of the GPUs."""
    told = [each for each in decisions.head["shares"] if each["resource"] == "gpus" and each["capacity"]]
    names = dict(Tenant.objects.filter(pk__in=[each["tenant"] for each in told]).values_list("pk", "name"))
    return [
        _share(names.get(each["tenant"], ""), each["held"], each["with_picks"], each["capacity"], each["weight"])
        for each in told
    ]


def _share(name: str, held: float, picked: float | None, capacity: float, weight: float) -> dict[str, Any]:
    part = held / capacity / weight
    note = None if picked is None else f"{share(picked / capacity / weight, 1)} with its considered jobs"
    weighed = f", weight {weight:g}" if weight != 1 else ""
    return {"name": name + weighed, "held": held, "total": capacity, "share": part, "note": note}


def kept_words(kept: list[KeptFor]) -> list[Rich]:
    """Say which GPUs are kept: "#1042: 4 GPUs on a100-01, until it starts", one line each."""
    lines: list[Rich] = []
    for each in kept:
        gpus = f"{each.gpus} GPU{'s' if each.gpus != 1 else ''} on " if each.gpus else ""
        where = f": {gpus}{', '.join(each.nodes)}, {each.until_words}."
        if each.number:
            url = reverse("job-detail", args=[each.number])
            lines.append([{"text": f"#{each.number}", "href": url}, {"text": f" {each.name}{where}"}])
        else:
            lines.append([{"text": each.name}, {"text": where}])
    return lines


def _nowhere(decisions: Decisions) -> str | None:
    """Say how many eligible jobs are in no queue, because no node could hold them now."""
    reasons = Counter(REASONS[code] for code in decisions.columns["reason"][decisions.nowhere].tolist())
    words = [counted(reasons.pop(reason), said) for reason, said in NOWHERE.items() if reasons[reason]]
    words += [counted(reasons.total(), TOO_MUCH)] if reasons.total() else []
    return f"In no queue: {', '.join(words)}." if words else None


def _record(waiting: int) -> str | None:
    """Say how past ranges fared, and which jobs have none."""
    known = record_words(forecast_record())
    if waiting <= RANGES_MOST:
        return known
    first = f"Start ranges are computed for the first {number(RANGES_MOST)} jobs in order of priority."
    return f"{first} {known}" if known else first
