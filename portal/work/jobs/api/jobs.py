"""`/api/v1/jobs`: submit, list, show, act. A view reads the request, calls one service or selector, and answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from drf_spectacular.utils import OpenApiParameter
from rest_framework.response import Response

from portal.foundation.api.base import PAGE_PARAMETERS, ApiView, Query, body_of, idempotency_key_of, ordered, page_of
from portal.foundation.api.parsers import request_object
from portal.foundation.api.schema import (
    PAGING,
    RawSchema,
    documented,
    idempotency_parameter,
    ordering_parameter,
    page_schema,
    parameter,
    time_parameter,
)
from portal.foundation.errors import Conflict
from portal.people.tenants.authentication import tenant_of, token_again, token_of
from portal.work.jobs import sizes
from portal.work.jobs.declaration.openapi import EXAMPLES, JobDescription
from portal.work.jobs.declaration.table import CATEGORIES
from portal.work.jobs.idle.using import job_keep
from portal.work.jobs.lineage import MOST_TOLD, began_from, continued_by
from portal.work.jobs.listing import attempts_of, job_find, jobs_for, jobs_with_nodes, profiles_of
from portal.work.jobs.searching import Between, JobFilters, jobs_kept, jobs_named, tasks_kept
from portal.work.jobs.serializers.jobs import JobDetailSerializer, JobSerializer
from portal.work.jobs.services import control, retrying, submission
from portal.work.jobs.services.asked.editing import changes_parse, job_edit
from portal.work.jobs.states import RETRIED, JobState

if TYPE_CHECKING:
    from collections.abc import Callable

    from django.db.models import QuerySet
    from rest_framework.request import Request

    from portal.work.jobs.models import Job

TIMES = {"since": "until", "started_since": "started_until", "ended_since": "ended_until"}
FILTERS = ("state", "tenant", "owner", "category", "label", "node", "name", "array", *TIMES, *TIMES.values())
ORDERINGS = ("id", "name", "state", "priority", "submitted_at", "started_at", "ended_at")
_PATH = parameter("number", str, "1044, or 1044_6 for task 6 of array 1044.")
JOB_PATH = (OpenApiParameter("number", str, OpenApiParameter.PATH, description=_PATH.description),)


def job_of(request: Request, number: str) -> Job:
    return job_find(user=request.user, number=number, tenant=tenant_of(request))


def job_again(request: Request, number: str) -> Job:
    """Find the job again in a request that lasts. Raises BerthError where its token was revoked, or the job is unseen."""
    if token := token_of(request):
        token_again(token)
    return job_of(request, number)


def job_answer(job: Job, *, user: Any, status: int = 200) -> Response:
    """Answer with the whole job as it stands now."""
    job = jobs_with_nodes(jobs_for(user=user)).select_related("payload", "array__payload").get(pk=job.pk)
    job.dependency_rows = list(job.dependencies.filter(on__in=jobs_for(user=user)).order_by("on"))
    job.attempt_rows, job.profile_rows = list(attempts_of(job)), list(profiles_of(job))
    later = continued_by(job)
    job.began_rows = began_from(job)
    job.continued_rows = {"count": later.count(), "jobs": [each.number for each in later[:MOST_TOLD]]}
    headers = {"Location": f"/api/v1/jobs/{job.number}"} if status == 201 else None
    return Response(JobDetailSerializer(job).data, status=status, headers=headers)


class JobsView(ApiView):
    read_scope, write_scope = "jobs:read", "jobs:write"

    @documented(
        "List jobs",
        answer=page_schema(JobSerializer, "JobPage"),
        parameters=(
            *PAGING,
            ordering_parameter(ORDERINGS),
            parameter("state", str, "One state or several with commas: RUNNING,PENDING."),
            parameter("tenant"),
            parameter("owner", str, "A user name."),
            parameter("category", {"type": "string", "enum": list(CATEGORIES)}),
            parameter("label", str, "`name` or `name=value`."),
            parameter("node", str, "A node on which it runs or ran."),
            parameter("name", str, "A part of the name."),
            parameter("array", {"type": "integer", "minimum": 1}, "The tasks of an array; lists show arrays folded."),
            time_parameter("since", "Submitted at or after."),
            time_parameter("until", "Submitted before."),
            time_parameter("started_since", "First started at or after."),
            time_parameter("started_until", "First started before."),
            time_parameter("ended_since", "Ended at or after."),
            time_parameter("ended_until", "Ended before."),
        ),
        operation_id="jobs_list",
    )
    def get(self, request: Request) -> Response:
        query = Query(request, known=(*PAGE_PARAMETERS, "ordering", *FILTERS))
        jobs = _filtered(query, jobs_for(user=request.user, tenant=tenant_of(request)))
        jobs = ordered(query, jobs_with_nodes(jobs), allowed=ORDERINGS, default="-id")
        return Response(page_of(query, jobs, lambda rows: JobSerializer(rows, many=True).data))

    @documented(
        "Submit a job",
        answer=JobDetailSerializer,
        status=201,
        refusals=(409, 413, 415),
        request=JobDescription,
        examples=list(EXAMPLES),
        parameters=(
            idempotency_parameter("The same key and body again answer 201 with the same job, another body 409."),
        ),
        operation_id="jobs_submit",
        description="201 only once the job is stored: whatever is killed afterwards, it is not lost.",
    )
    def post(self, request: Request) -> Response:
        key = idempotency_key_of(request)
        tenant = tenant_of(request)
        job = submission.job_submit(
            user=request.user,
            tenant=tenant,
            description=request_object(request._request),  # noqa: SLF001 - the public way to the raw request
            idempotency_key=key,
            r_num=sizes.r_num(),
        )
        if tenant and job.tenant_id != tenant.pk:
            detail = "This Idempotency-Key was used for another tenant; use a new key."
            raise Conflict("idempotency_conflict", detail, field="Idempotency-Key")
        return job_answer(job, user=request.user, status=201)


def _filtered(query: Query, jobs: QuerySet[Job]) -> QuerySet[Job]:
    array = query.whole("array", None, 1, 2**63 - 1)
    jobs = jobs.top_level() if array is None else jobs.filter(array_id=array)
    if states := query.choices("state", JobState.values):
        jobs = jobs.filter(state__in=states)
    top = array is None
    if name := query.text("name", max_chars=128):
        jobs = jobs_named(jobs, name) if top else jobs.filter(name__icontains=name)
    if tenant := query.text("tenant"):
        jobs = jobs.filter(tenant__name=tenant)
    submitted, started, ended = (Between(query.time(since), query.time(until)) for since, until in TIMES.items())
    filters = JobFilters(
        owner=query.text("owner"),
        category=query.choice("category", CATEGORIES),
        label=query.text("label", max_chars=320),
        node=query.text("node"),
        submitted=submitted,
        started=started,
        ended=ended,
    )
    return jobs_kept(jobs, filters) if top else tasks_kept(jobs, filters)


class JobChange(RawSchema):
    schema = {
        "type": "object",
        "properties": {
            "priority": {"type": "integer", "minimum": -100, "maximum": 100},
            "name": {"type": "string", "maxLength": 128},
            "labels": {"type": "object", "additionalProperties": {"type": "string"}},
            "time_limit_s": {
                "type": "integer",
                "nullable": True,
                "minimum": 1,
                "description": "Of a running job: a longer one, up to the operator's knob `time_limit_extend`.",
            },
            "gpus": {"description": "The sizes that it accepts, as in a description."},
        },
        "minProperties": 1,
        "additionalProperties": False,
    }


class JobView(ApiView):
    read_scope, write_scope = "jobs:read", "jobs:write"

    @documented(
        "Show a job", answer=JobDetailSerializer, refusals=(404,), parameters=JOB_PATH, operation_id="jobs_show"
    )
    def get(self, request: Request, number: str) -> Response:
        return job_answer(job_of(request, number), user=request.user)

    @documented(
        "Change a job",
        answer=JobDetailSerializer,
        refusals=(404, 409, 413, 415),
        parameters=JOB_PATH,
        request=JobChange,
        operation_id="jobs_change",
    )
    def patch(self, request: Request, number: str) -> Response:
        job = job_of(request, number)
        body = request_object(request._request)  # noqa: SLF001 - the public way to the raw request
        job_edit(job=job, actor=request.user, changes=changes_parse(body, r_num=sizes.r_num()))
        return job_answer(job, user=request.user)


class JobActionView(ApiView):
    """POST only, without a body."""

    write_scope = "jobs:write"
    http_method_names: ClassVar[list[str]] = ["post"]
    service: Callable[..., Job]

    def act(self, request: Request, number: str) -> Response:
        job = job_of(request, number)
        body_of(request)
        type(self).service(job=job, actor=request.user)
        return job_answer(job, user=request.user)


def _action(name: str, summary: str, service: Callable[..., Job]) -> type[JobActionView]:
    """Make the view of one verb; they differ in the service only."""

    @documented(
        summary,
        answer=JobDetailSerializer,
        refusals=(404, 409, 413, 415),
        parameters=JOB_PATH,
        request=None,
        operation_id=f"jobs_{name}",
    )
    def post(self: JobActionView, request: Request, number: str) -> Response:
        return self.act(request, number)

    return type(f"Job{name.title()}View", (JobActionView,), {"service": staticmethod(service), "post": post})


JobCancelView = _action("cancel", "Cancel a job that has not ended", control.job_cancel)
JobHoldView = _action("hold", "Keep a waiting job from starting", control.job_hold)
JobReleaseView = _action("release", "Let a held job wait again", control.job_release)
JobKeepView = _action("keep", "Let a running job's idle time begin anew", job_keep)
JobRequeueView = _action("requeue", "Stop a running job and let it wait again", control.job_requeue)


class JobRetryView(ApiView):
    write_scope = "jobs:write"
    http_method_names: ClassVar[list[str]] = ["post"]

    @documented(
        "Let a job that failed wait again",
        answer=JobDetailSerializer,
        refusals=(404, 409, 413, 415),
        parameters=(
            *JOB_PATH,
            parameter("state", str, "Of an array: only its tasks in these states, with commas: OUT_OF_MEMORY,TIMEOUT."),
        ),
        request=None,
        operation_id="jobs_retry",
        description="As its next attempt. Of an array: its failed tasks, a few at a time and within its `concurrency`; "
        "`array_retries` says how many are still to come.",
    )
    def post(self, request: Request, number: str) -> Response:
        states = Query(request, known=("state",)).choices("state", sorted(RETRIED))
        job = job_of(request, number)
        body_of(request)
        retrying.job_retry(job=job, actor=request.user, states=states or RETRIED)
        return job_answer(job, user=request.user)
