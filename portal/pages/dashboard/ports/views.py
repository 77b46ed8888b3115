"""The way from a job's page to its ports: the buttons, and the link that signs in at the port's own origin."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.http import HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse

from portal.foundation.errors import BerthError, Conflict
from portal.foundation.job_names import job_host
from portal.pages.dashboard.ports.door import SIGN_IN
from portal.pages.dashboard.ports.visits import LINKS, Visit
from portal.pages.dashboard.terminal.rights import job_for, parts_of
from portal.people.accounts.models import SignIn
from portal.people.tenants.selectors import WORK, may
from portal.work.jobs.states import JobState

if TYPE_CHECKING:
    from django.http import HttpRequest, HttpResponse

    from portal.people.tenants.models import User
    from portal.work.jobs.models import Job

NOTEBOOKS = range(8888, 8939)
"""Jupyter listens on the first of these that is free."""


def job_port(request: HttpRequest, number: str, port: int) -> HttpResponse:
    """Lead to a port of a running job, signed in there; without names for jobs, say how `berth forward` does it."""
    job = job_for(user=request.user, number=number)
    if not 0 < port < 1 << 16:
        raise BerthError("invalid", "port must be from 1 to 65535.", field="port")
    if not parts_of(job):
        raise Conflict("not_running", f"Job {job.number} does not run now. This needs one that runs.")
    if not settings.JOBS_DOMAIN:
        return render(request, "ports/page.html", {"number": job.number, "name": job.name, "port": port})
    sign_in = SignIn.objects.filter(session_key=request.session.session_key or "", user=request.user).first()
    if sign_in is None:
        raise BerthError("signed_out", "Sign in again: this session is from before an upgrade.", status=403)
    token = LINKS.make(Visit(sign_in.pk, job.key, job.number, port))
    host = job_host(job.number, port, below=settings.JOBS_DOMAIN, beside=request.get_host())
    scheme = "https" if settings.BASE_URL.startswith("https://") else request.scheme
    answer = HttpResponseRedirect(f"{scheme}://{host}{SIGN_IN}?link={token}")
    answer.headers["Cache-Control"], answer.headers["Referrer-Policy"] = "no-store", "no-referrer"
    return answer


def ports_make(job: Job, user: User | None) -> list[dict[str, Any]] | None:
    """Return the buttons of a running job's ports, a notebook's first; None where the user may not work in it."""
    if job.state != JobState.RUNNING or job.array_size or user is None or not may(user, job.tenant, WORK):
        return None
    ports = sorted(
        {port for part in parts_of(job) for port in part.ports}, key=lambda each: (each not in NOTEBOOKS, each)
    )
    return [
        {
            "url": reverse("job-port", args=[job.number, port]),
            "words": "Open notebook" if port in NOTEBOOKS else f"Open port {port}",
        }
        for port in ports
    ]
