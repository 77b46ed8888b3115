"""The page of a job's terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.shortcuts import render

from portal.pages.dashboard.terminal.rights import job_for, parts_of, rank_of

if TYPE_CHECKING:
    from django.http import HttpRequest, HttpResponse


def job_terminal(request: HttpRequest, number: str) -> HttpResponse:
    """Show a terminal in one part of a running job; without the right to act on it 403, or 404 for a foreign job."""
    rank = rank_of(request.GET.get("rank", "0"))
    job = job_for(user=request.user, number=number)
    parts = parts_of(job)
    terminal = {
        "id": job.number,
        "name": job.name,
        "state": job.state,
        "rank": rank,
        "parts": [{"rank": part.rank, "node": part.node.name} for part in parts],
        "node": next((part.node.name for part in parts if part.rank == rank), None),
    }
    return render(request, "terminal/page.html", {"terminal": terminal})
