"""The page of a job's artefacts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from django.urls import reverse

from portal.foundation.errors import BerthError
from portal.pages.dashboard.artefacts.curves import AXES, SCALES, SMOOTHINGS, choices_of, curves_of
from portal.pages.dashboard.artefacts.previews import picture_url, preview_or_why
from portal.pages.dashboard.artefacts.tree import continue_url, file_row, page_url, tensorboard_url, tree_of
from portal.pages.dashboard.parts.formatting import number
from portal.people.tenants.selectors import WORK, may
from portal.work.artefacts.selectors import artefact_get, artefacts_of, artefacts_summary, tenant_use
from portal.work.jobs.states import LIVE
from portal.work.previews.shown import holds_curves

if TYPE_CHECKING:
    from collections.abc import Sequence

    from django.http import QueryDict

    from portal.pages.dashboard.parts.context import PlotContext
    from portal.people.tenants.models import User
    from portal.work.artefacts.selectors import Summary
    from portal.work.jobs.models import Job

PAGE_PLOTS = 12
NOTES_SHOWN = 70
"""The portal's own refusals, and those of a node."""
REFRESH_S = 10
QUERY_CHARS = 1024
WORDS = {
    "none": "nothing was written",
    "watching": "the job is not over: more may come",
    "uploading": "still being written",
}


@dataclass(frozen=True)
class ArtefactQuery:
    """The address in values: the folder, the file, and how curves are drawn."""

    under: str = ""
    path: str = ""
    scale: str = SCALES[0]
    smooth: str = SMOOTHINGS[0]
    axis: str = AXES[0]

    @classmethod
    def of(cls, given: QueryDict) -> ArtefactQuery:
        """Raises BerthError with the field that cannot be."""
        for field, choices in (("scale", SCALES), ("smooth", SMOOTHINGS), ("axis", AXES)):
            if given.get(field, choices[0]) not in choices:
                raise BerthError("invalid", f"`{field}` must be one of {', '.join(choices)}.", field=field)
        for field in ("under", "path"):
            if len(given.get(field, "")) > QUERY_CHARS or "\0" in given.get(field, ""):
                raise BerthError("invalid", f"`{field}` has at most {QUERY_CHARS} characters.", field=field)
        found = {name: given.get(name, "") for name in ("path", "scale", "smooth", "axis") if given.get(name)}
        return cls(under=given.get("under", "").strip("/"), **found)

    def told(self, **changed: str) -> dict[str, str]:
        """Return the query's parts that are not the usual ones."""
        parts = {**vars(self), **changed}
        usual = (SCALES[0], SMOOTHINGS[0], AXES[0])
        return {name: value for name, value in parts.items() if value and value not in usual}


def artefacts_context(*, job: Job, query: ArtefactQuery, user: User) -> dict[str, Any]:
    """Fill the page. Raises NotFound for a file that is not there."""
    rows = list(artefacts_of(job, under=query.under))
    tree, hidden = tree_of(job, rows, under=query.under, selected=query.path)
    found = artefacts_summary(job)
    parts = reverse("job-artefacts-fragment", args=[job.number, "tree"]), urlencode(query.told())
    return {
        "id": job.number,
        "name": job.name,
        "state": job.state,
        "words": WORDS.get(found.state, "all that was kept is here"),
        "tree": tree,
        "under": query.under,
        "parent_url": page_url(job, under=query.under.rpartition("/")[0]) if query.under else None,
        "hidden": hidden,
        "shown": shown_make(job, query),
        "curves": None if query.path else curves_make(job, query, most=PAGE_PLOTS),
        "quota": _quota(job, found),
        "notes": list(found.notes[:NOTES_SHOWN]),
        "notes_more": max(0, len(found.notes) - NOTES_SHOWN) + found.notes_more,
        "all_url": all_url(job, query.under) if any(row.size is not None for row in rows) else None,
        "tree_url": "?".join(part for part in parts if part),
        "shown_url": parts[0].replace("/tree", "/shown") + (f"?{parts[1]}" if parts[1] else ""),
        "may_remove": may(user, job.tenant, WORK),
    }


def shown_part(*, job: Job, query: ArtefactQuery, user: User) -> dict[str, Any]:
    """Fill only the pane of the selected file."""
    return {"id": job.number, "shown": shown_make(job, query), "may_remove": may(user, job.tenant, WORK)}


def shown_make(job: Job, query: ArtefactQuery) -> dict[str, Any] | None:
    """Fill the pane of the selected file. Raises NotFound."""
    if not query.path:
        return None
    row = artefact_get(job, query.path)
    preview = preview_or_why(job, row) if row.size is not None else None
    return {
        "name": row.path.rpartition("/")[2],
        "path": row.path,
        "row": file_row(job, row, selected=row.path, under=query.under),
        "preview": preview,
        "picture_url": picture_url(job, row) if preview is not None and preview.kind == "picture" else None,
        "download_url": f"{reverse('job-artefacts-download', args=[job.number])}?{urlencode({'path': row.path})}"
        if row.size is not None
        else None,
        "continue_url": continue_url(job, row.path) if row.size is not None else None,
        "tensorboard_url": tensorboard_url(job, row.path) if row.size is not None else None,
        "sha256": row.sha256,
        "attempt": row.epoch,
        "curves": curves_make(job, query, most=PAGE_PLOTS) if holds_curves(row.path) and row.size else None,
    }


def curves_make(job: Job, query: ArtefactQuery, *, most: int) -> dict[str, Any] | None:
    """Fill the plots of the job's curves; None where there are none."""
    told = curves_of(job)
    if told is None:
        return None
    names = list(told["series"])
    return {
        "plots": [curve_plot(job, name, told["series"][name], query) for name in names[:most]],
        "scales": choices_of(query.scale, SCALES, lambda to: page_url(job, **query.told(scale=to))),
        "axes": choices_of(query.axis, AXES, lambda to: page_url(job, **query.told(axis=to))) if told["times"] else [],
        "smoothings": choices_of(query.smooth, SMOOTHINGS, lambda to: page_url(job, **query.told(smooth=to))),
        "notes": told["notes"],
        "more": max(0, len(names) - most),
    }


def curve_plot(job: Job, name: str, series: Sequence[Any], query: ArtefactQuery) -> PlotContext:
    told = urlencode({"name": name, "scale": query.scale, "smooth": query.smooth, "axis": query.axis})
    plot: PlotContext = {
        "name": name,
        "title": name,
        "note": f"over {number(len(series[0]))} points, to step {number(series[0][-1])}",
        "url": f"{reverse('job-artefacts-figure', args=[job.number])}?{told}",
        "height_px": 160,
        "topics": "own-artefacts",
    }
    return plot | {"refresh_s": REFRESH_S} if job.state in LIVE else plot


def _quota(job: Job, found: Summary) -> dict[str, Any]:
    use = tenant_use(job.tenant)
    kept = f"Kept for {use.days} days after the job's end" if use.days else "Kept until somebody removes them"
    return {
        "used": use.counted,
        "quota": use.quota,
        "own": found.counted,
        "tenant": job.tenant.name,
        "kept": kept,
        "until": found.kept_until.isoformat() if found.kept_until else None,
    }


def all_url(job: Job, under: str) -> str:
    return reverse("job-artefacts-download", args=[job.number]) + (f"?{urlencode({'under': under})}" if under else "")
