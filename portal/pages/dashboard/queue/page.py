"""The queue page: each queue's order with the window drawn in, the reason of each place, and each job's need.

A constant number of queries whatever the length of the queue: the order comes from the last planning's columns, and
only the jobs of the rows shown are read. Foreign jobs keep their place and nothing else (invariant 8).
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from django.urls import reverse

from portal.foundation.errors import BerthError
from portal.pages.dashboard.parts.formatting import DASH, count_of, duration, number, share
from portal.pages.dashboard.parts.waiting import aside_words, counted, eligible_words
from portal.pages.dashboard.queue.rows import Rows
from portal.people.tenants.models import Tenant
from portal.planning.rounds.read.figures import QUEUES
from portal.planning.rounds.read.forecasts import RANGES_MOST, forecast_record
from portal.planning.rounds.read.kept import kept_now
from portal.planning.rounds.record.decisions import decisions_or_none
from portal.planning.rounds.record.packing import REASONS
from portal.work.jobs.models import Job
from portal.work.jobs.states import JobState

if TYPE_CHECKING:
    from collections.abc import Mapping

    from portal.pages.dashboard.parts.context import PageLinks, Rich
    from portal.pages.dashboard.parts.snapshot import Snapshot
    from portal.planning.rounds.read.kept import KeptFor
    from portal.planning.rounds.record.decisions import Decisions
    from portal.work.jobs.queue_counts import QueueCounts

PAGE_ROWS = 25
NOBODY = "nobody waits for a turn"
ARRAYS = ("gpu-large", "gpu-small", "cpu")
NOWHERE = {
    "nodes-unavailable": ("needs nodes that take no jobs now", "need nodes that take no jobs now"),
    "software-missing": ("needs nodes with its software", "need nodes with their software"),
    "checkpoint-elsewhere": ("needs nodes that read its checkpoint", "need nodes that read their checkpoints"),
}
TOO_MUCH = ("needs more than the cluster has", "need more than the cluster has")


def queue_context(snapshot: Snapshot, pages: Mapping[str, str]) -> dict[str, Any]:
    """Return the page. `pages`: the requested page of each array. Raises BerthError when one is not a positive number."""
    decisions = decisions_or_none(snapshot.planning)
    numbers = {array: _page(pages.get(array), array) for array in ARRAYS}
    places = {array: _places(decisions, array, numbers[array]) for array in ARRAYS}
    rows = Rows(snapshot, decisions, [place for own in places.values() for place in own])
    arrays = [
        _array(decisions, array, places[array], numbers, rows) for array in ARRAYS if len(_order(decisions, array))
    ]
    planning = snapshot.planning
    return {
        "subtitle": _subtitle(snapshot.queue),
        "planning_number": planning.number if planning else None,
        "planning_url": reverse("planning-detail", args=[planning.number]) if planning else None,
        "at": planning.started_at.isoformat() if planning else None,
        "arrays": arrays,
        "shares": _shares(snapshot, decisions),
        "kept": kept_words(kept_now(user=snapshot.user)),
        "aside": " ".join(filter(None, [_nowhere(decisions), aside_words(snapshot.queue.aside())])) or None,
        "newcomers": _newcomers(decisions),
        "record": _record(snapshot.queue.waiting),
        "query": _query({array: page for array, page in numbers.items() if page > 1}),
    }


def _page(text: str | None, array: str) -> int:
    if not text:
        return 1
    if not (text.isascii() and text.isdigit() and len(text) <= 7 and int(text) > 0):
        raise BerthError("invalid", f"`{array}` must be a page: a whole number from 1.", field=array)
    return int(text)


def _order(decisions: Decisions, array: str) -> Any:
    return decisions.order.get(array, ())


def _places(decisions: Decisions, array: str, page: int) -> list[int]:
    start = (page - 1) * PAGE_ROWS
    return [int(place) for place in _order(decisions, array)[start : start + PAGE_ROWS]]


def _subtitle(queue: QueueCounts) -> str:
    return (
        f"{number(queue.waiting)} wait{'s' if queue.waiting == 1 else ''}: {eligible_words(queue)}"
        if queue.waiting
        else NOBODY
    )


def _query(pages: Mapping[str, int]) -> str:
    return f"?{urlencode(pages)}" if pages else ""


# ---- one queue -------------------------------------------------------------------------------------------------------


def _array(
    decisions: Decisions, array: str, places: list[int], numbers: Mapping[str, int], rows: Rows
) -> dict[str, Any]:
    who = QUEUES[decisions.queue(array)]
    first = (numbers[array] - 1) * PAGE_ROWS
    total = len(_order(decisions, array))
    window = decisions.window(array)
    return {
        "name": array,
        "title": who[0].upper() + who[1:],
        "note": f"{number(total)} waiting",
        "window": _window_words(window, decisions.considered(array)) if window else None,
        "has_shares": _has_shares(decisions),
        "lines": _lines(decisions, array, places, first, rows),
        "paging": _paging(array, numbers, first=first, shown=len(places), total=total),
    }


def _has_shares(decisions: Decisions) -> bool:
    return any(each["capacity"] for each in decisions.head["shares"])


def _window_words(window: Mapping[str, Any], considered: Mapping[str, int]) -> Rich:
    """Name the jobs that the planning considered, the limit that closed the window, and the end of the front."""
    if not window["jobs"]:
        return f"It considered none of them; its window closes at {count_of(window['capacity'], 'GPU')}."
    jobs = f"{number(considered['considered'])} job{'s' if considered['considered'] != 1 else ''}"
    return [
        {"text": "It considered "},
        {"text": jobs, "bold": True},
        {"text": f" and started {number(considered['started']) if considered['started'] else 'none'}. They ask for "},
        {
            "text": f"{count_of(window['counted'], 'GPU')} at their smallest sizes; a planning considers jobs until they ask for "
        },
        {"text": count_of(window["capacity"], "GPU"), "bold": True},
        {"text": f". {_idle_words(window)}"},
    ]


def _idle_words(window: Mapping[str, Any]) -> str:
    if not window["idle"]:
        return "Nothing of the pool was idle."
    first = "its first job" if window["front_jobs"] == 1 else f"its first {number(window['front_jobs'])} jobs"
    were = "was" if window["idle"] == 1 else "were"
    return f"{count_of(window['idle'], 'GPU')} {were} idle: the front, {first}, comes before the others."


def _lines(decisions: Decisions, array: str, places: list[int], first: int, rows: Rows) -> list[dict[str, Any]]:
    """Return the rows with the borders between the sides drawn in where they lie."""
    lines: list[dict[str, Any]] = []
    before = decisions.entry(int(_order(decisions, array)[first - 1]))["side"] if first else None
    for offset, place in enumerate(places):
        row = rows.row(place, first + offset + 1)
        if before is not None and row["side"] != before:
            border = _border(row["side"], decisions.window(array), shares=_has_shares(decisions), swept=rows.swept)
            lines.append({"border": border, "row": None})
        lines.append({"border": None, "row": row})
        before = row["side"]
    return lines


def _border(after: str, window: Mapping[str, Any] | None, *, shares: bool, swept: bool) -> str:
    if after == "outside":
        counted = f": {number(window['counted'])} of {count_of(window['capacity'], 'GPU')} asked for" if window else ""
        order = " They stand by latency ratio; at their turn tenants with smaller shares go first." if shares else ""
        below = (
            "The GPUs that it leaves idle are offered to those below."
            if swept
            else "Those below are not considered yet."
        )
        return f"The window ends here{counted}. {below}{order}"
    return "The front ends here. Those below, the backfill, get what it leaves."


def _paging(array: str, numbers: Mapping[str, int], *, first: int, shown: int, total: int) -> PageLinks:
    def url(page: int) -> str:
        pages = {name: at for name, at in (dict(numbers) | {array: page}).items() if at > 1}
        return f"{reverse('queue')}{_query(pages)}#queue-{array}"

    page = numbers[array]
    spread = f"{number(first + 1)}{DASH}{number(first + shown)}" if shown else "none"
    return {
        "summary": f"{spread} of {number(total)}",
        "previous_url": url(page - 1) if page > 1 else None,
        "next_url": url(page + 1) if first + shown < total else None,
    }


# ---- beside the order ------------------------------------------------------------------------------------------------


def _shares(snapshot: Snapshot, decisions: Decisions) -> list[dict[str, Any]]:
    """Return the GPU shares of the tenants that the reader may see; all others are one row."""
    told = [each for each in decisions.head["shares"] if each["resource"] == "gpus" and each["capacity"]]
    names = dict(Tenant.objects.filter(pk__in=[each["tenant"] for each in told]).values_list("pk", "name"))
    own = [each for each in told if snapshot.reader.sees(each["tenant"])]
    rows = [
        _share(names.get(each["tenant"], ""), each["held"], each["with_picks"], each["capacity"], each["weight"])
        for each in own
    ]
    rest = [each for each in told if not snapshot.reader.sees(each["tenant"])]
    if rest:
        held = sum(each["held"] for each in rest)
        rows.append(_share("other tenants", held, None, rest[0]["capacity"], 1.0))
    return rows


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


def _newcomers(decisions: Decisions) -> int:
    """Return how many waiting jobs came after the planning read the queue: those with later ids, so that an index serves."""
    jobs = Job.objects.runnable().filter(state=JobState.PENDING, cancel_requested_at=None)
    return jobs.filter(pk__gt=int(decisions.jobs.max())).count() if len(decisions) else jobs.count()


def _record(waiting: int) -> str | None:
    """Say how past ranges fared, and which jobs have none."""
    known = record_words(forecast_record())
    if waiting <= RANGES_MOST:
        return known
    first = f"Start ranges are computed for the first {number(RANGES_MOST)} jobs in order of priority."
    return f"{first} {known}" if known else first


def record_words(record: Mapping[str, Any]) -> str | None:
    """Past start ranges held 83 % of the time (412 starts, median error 3 min), then each horizon's share where there are two."""
    if not record["starts"]:
        return None
    held = share(record["held"])
    whole = f"Past start ranges on this cluster held {held} of the time ({_starts(record)}"
    error = duration(record["median_error_s"])
    parts = record["by_horizon"]
    if len(parts) < 2:
        return f"{whole}, median error {error})."
    each = ", ".join(f"{share(part['held'])} {_ahead(part)} ({_starts(part)})" for part in parts)
    return f"{whole}, median error {error}): {each}."


def _starts(record: Mapping[str, Any]) -> str:
    return f"{number(record['starts'])} start{'s' if record['starts'] != 1 else ''}"


def _ahead(part: Mapping[str, Any]) -> str:
    """As: less than 5 min ahead."""
    if part["until_s"] is None:
        return f"further than {duration(part['from_s'])} ahead"
    if not part["from_s"]:
        return f"of those less than {duration(part['until_s'])} ahead"
    return f"up to {duration(part['until_s'])} ahead"
