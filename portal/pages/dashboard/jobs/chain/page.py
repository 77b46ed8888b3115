"""The chain that a job stands in: a sentence on what broke or comes next, a drawing and a list; and the jobs it began from."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from django.urls import reverse

from portal.pages.dashboard.artefacts.tree import page_url
from portal.pages.dashboard.jobs.chain.chain import chain_of, drawing
from portal.work.jobs.finding.lineage import MOST_TOLD, began_from, continued_by
from portal.work.jobs.models import JobDependency
from portal.work.jobs.states import FINAL, JobState

if TYPE_CHECKING:
    from portal.pages.dashboard.jobs.chain.chain import Chain
    from portal.pages.dashboard.parts.context import Rich, Segment
    from portal.work.jobs.finding.lineage import Began
    from portal.work.jobs.models import Job

Kind = JobDependency.Kind
ANOTHERS = "a job of another tenant"
KIND_WORDS: dict[str, str] = {
    Kind.OK: "completed",
    Kind.ANY: "ended",
    Kind.NOT_OK: "failed",
    Kind.SINGLE: "ended, as it has the same name",
}
NAMED = 5
_STUCK = re.compile(r"job ([0-9]+) did not complete\Z")
_SPARED = re.compile(r"job ([0-9]+) completed\Z")


def chain_make(job: Job) -> dict[str, Any] | None:
    """Fill the card; None for a job without dependencies."""
    chain = chain_of(job)
    if chain is None:
        return None
    sentence, broken = _sentence(chain)
    levels = chain.levels()
    rows = [_row(chain, key) for key in sorted(levels, key=lambda key: (levels[key], key))]
    return {"sentence": sentence, "broken": broken, "drawing": drawing(chain, levels), "rows": rows, "more": chain.more}


def _row(chain: Chain, key: int) -> dict[str, Any]:
    job = chain.jobs.get(key)
    waits = [f"after {called(chain, on)} {KIND_WORDS[kind]}" for on, waiting, kind in chain.edges if waiting == key]
    return {
        "words": called(chain, key),
        "url": reverse("job-detail", args=[key]) if job else None,
        "state": job.state if job else None,
        "own": key == chain.own,
        "after": ", ".join(waits),
    }


def called(chain: Chain, key: int) -> str:
    job = chain.jobs.get(key)
    return f"#{key} {job.name}" if job else ANOTHERS


def _sentence(chain: Chain) -> tuple[Rich, bool]:
    """Say where the chain broke and the consequences, else which jobs it waits for. The flag: whether it broke."""
    broke: dict[int, list[int]] = {}
    for key, job in chain.jobs.items():
        cause = _cause(chain, job)
        if cause is not None:
            broke.setdefault(cause, []).append(key)
    if broke:
        return [
            part for cause, stopped in sorted(broke.items()) for part in _broke(chain, cause, sorted(stopped))
        ], True
    return _goes_on(chain), False


def _cause(chain: Chain, job: Job) -> int | None:
    """Return the job whose end was the first cause that this one was cancelled; None where it was not."""
    cause: int | None = None
    while job.state == JobState.CANCELLED and (found := _STUCK.match(job.end_detail)):
        cause = int(found[1])
        if cause not in chain.jobs:
            return cause
        job = chain.jobs[cause]
    return cause


def _broke(chain: Chain, cause: int, stopped: list[int]) -> list[Segment]:
    job = chain.jobs.get(cause)
    how = f" ({JobState(job.state).label.lower()}{f': {job.end_detail}' if job.end_detail else ''})" if job else ""
    at: Segment = {"text": called(chain, cause), "bold": True}
    if job:
        at["href"] = reverse("job-detail", args=[cause])
    names = ", ".join(called(chain, key) for key in stopped[:NAMED])
    more = f" and {len(stopped) - NAMED} more" if len(stopped) > NAMED else ""
    was = "was" if len(stopped) == 1 else "were"
    return [
        {"text": "The chain broke at "},
        at,
        {
            "text": f"{how}: {names}{more} {was} cancelled and will not run. Retry or mend it, then relaunch what follows. "
        },
    ]


def _goes_on(chain: Chain) -> list[Segment]:
    own = chain.jobs.get(chain.own)
    spared = _SPARED.match(own.end_detail) if own and own.state == JobState.CANCELLED else None
    if spared:
        on = int(spared[1])
        return [{"text": f"It was not needed: it was to run if {called(chain, on)} failed, and that completed."}]
    if own is not None and own.state not in FINAL:
        waits = [
            (on, kind)
            for on, job, kind in chain.edges
            if job == chain.own and not (on in chain.jobs and chain.jobs[on].state in FINAL)
        ]
        if waits:
            words = " and ".join(f"{called(chain, on)} has {KIND_WORDS[kind]}" for on, kind in waits[:NAMED])
            more = f" and {len(waits) - NAMED} more" if len(waits) > NAMED else ""
            return [{"text": f"It may start once {words}{more}."}]
    follow = [key for on, key, _ in chain.edges if on == chain.own]
    ahead = [key for key in follow if key in chain.jobs and chain.jobs[key].state not in FINAL]
    if own is not None and own.state not in FINAL and ahead:
        return [{"text": f"{', '.join(called(chain, key) for key in ahead[:NAMED])} waits for it."}]
    open_ = sum(job.state not in FINAL for job in chain.jobs.values())
    words = (
        f"{open_} of {len(chain.jobs)} jobs of this chain have not ended." if open_ else "All jobs of this chain ended."
    )
    return [{"text": words}]


def lineage_make(job: Job) -> dict[str, Any] | None:
    """Fill the card; None where the job stands alone. At most five queries, and one for each folder that it began from."""
    began, later = began_from(job), continued_by(job)
    shown = list(later[: MOST_TOLD + 1])
    if not began and not shown:
        return None
    count = later.count() if len(shown) > MOST_TOLD else len(shown)
    rows = [{"number": each.number, "name": each.name, "state": each.state} for each in shown[:MOST_TOLD]]
    return {
        "began": [
            {
                "words": f"#{each.job.number}'s {each.path}" if each.job else f"{each.path} of a job that is gone",
                "url": _url(each),
                "target": each.target,
                "note": _note(each),
            }
            for each in began
        ],
        "later": rows,
        "others": count - 1,
        "more": count - len(rows),
    }


def _url(began: Began) -> str | None:
    if began.job is None:
        return None
    if not began.is_kept:
        return reverse("job-detail", args=[began.job.number])
    name = "under" if began.path.endswith("/") else "path"
    return page_url(began.job, **{name: began.path.rstrip("/")})


def _note(began: Began) -> str | None:
    if began.is_kept:
        return None
    return "not kept any more" if began.job is None or began.job.ended_at else "not there yet"
