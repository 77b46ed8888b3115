"""`/api/v1/jobs/plan`, `/rounds`, `/plannings`, `/metrics`: a planning on request, those of the past, the cluster's figures."""

from __future__ import annotations

from typing import Any, ClassVar

from django.utils import timezone
from drf_spectacular.utils import OpenApiParameter
from rest_framework.request import Request
from rest_framework.response import Response

from portal.foundation.api.base import (
    MAX_PAGE,
    MAX_PAGE_SIZE,
    PAGE_PARAMETERS,
    ApiView,
    Query,
    ordered,
    page_of,
    page_url,
)
from portal.foundation.api.parsers import request_object
from portal.foundation.api.schema import PAGING, documented, ordering_parameter, page_schema, parameter, time_parameter
from portal.foundation.api.throttles import PlanThrottle
from portal.foundation.errors import BerthError
from portal.people.tenants.authentication import tenant_of
from portal.planning.rounds.asking.dryrun import dry_run
from portal.planning.rounds.read.history import number_of, planning_by_number, round_get, rounds_all
from portal.planning.rounds.read.lengths import similar_of_job
from portal.planning.rounds.read.outcomes import planning_outcomes
from portal.planning.rounds.read.selectors import cluster_metrics, planning_decisions
from portal.planning.rounds.read.series import RANGES, metrics_rounds, metrics_series, range_of
from portal.planning.rounds.record.decisions import decisions_read
from portal.planning.rounds.serializers import (
    MetricsAnswer,
    PlanAnswer,
    PlanningDetailSerializer,
    RoundDetailSerializer,
    RoundSerializer,
    SimilarAnswer,
    finite,
)
from portal.planning.rounds.settings.knobs import knobs_current
from portal.work.jobs.api.jobs import JOB_PATH, job_of
from portal.work.jobs.declaration.openapi import EXAMPLES, JobDescription
from portal.work.jobs.queue_counts import queue_counts, queue_told
from portal.work.jobs.services import submission

NUMBER_PATH = (OpenApiParameter("number", {"type": "integer", "minimum": 1}, OpenApiParameter.PATH),)
DECISIONS_BY_DEFAULT = 200
"""Each with its figures, an answer stays below 300 kB."""
DECISIONS_A_PAGE = OpenApiParameter(
    "page_size", {"type": "integer", "minimum": 1, "maximum": MAX_PAGE_SIZE, "default": DECISIONS_BY_DEFAULT}
)
ORDERINGS = ("number", "started_at")


class JobsPlanView(ApiView):
    """A dry run loads the whole queue and solves: the limit for each user a minute."""

    write_scope = "jobs:write"
    http_method_names: ClassVar[list[str]] = ["post"]
    throttle_classes: ClassVar[list[Any]] = [PlanThrottle]

    @documented(
        "Say what would happen to a job now, without submitting it",
        answer=PlanAnswer,
        refusals=(409, 413, 415, 429),
        request=JobDescription,
        examples=list(EXAMPLES),
        operation_id="jobs_plan",
        description="The body and its errors are those of a submission; nothing is stored. Of an array one task is planned.",
    )
    def post(self, request: Request) -> Response:
        tenant, parsed = submission.submission_check(
            user=request.user,
            tenant=tenant_of(request),
            description=request_object(request._request),  # noqa: SLF001 - the public way to the raw request
            r_num=knobs_current()["r_num"],
        )
        return Response(PlanAnswer(finite(dry_run(description=parsed, tenant=tenant, user=request.user))).data)


class JobSimilarView(ApiView):
    read_scope = "jobs:read"

    @documented(
        "Say what the tenant's jobs like this one took",
        answer=SimilarAnswer,
        refusals=(404,),
        parameters=JOB_PATH,
        operation_id="jobs_similar",
    )
    def get(self, request: Request, number: str) -> Response:
        return Response({"similar": similar_of_job(job_of(request, number), user=request.user)})


class RoundsView(ApiView):
    read_scope = "cluster:read"

    @documented(
        "List rounds",
        answer=page_schema(RoundSerializer, "RoundPage"),
        parameters=(
            *PAGING,
            ordering_parameter(ORDERINGS),
            time_parameter("since", "Begun at or after."),
        ),
        operation_id="rounds_list",
    )
    def get(self, request: Request) -> Response:
        query = Query(request, known=(*PAGE_PARAMETERS, "ordering", "since"))
        rounds = rounds_all()
        if since := query.time("since"):
            rounds = rounds.filter(started_at__gte=since)
        rounds = ordered(query, rounds, allowed=ORDERINGS, default="-number")
        return Response(page_of(query, rounds, lambda rows: RoundSerializer(rows, many=True).data))


class RoundView(ApiView):
    read_scope = "cluster:read"

    @documented(
        "Show a round with its plannings",
        answer=RoundDetailSerializer,
        refusals=(404,),
        parameters=NUMBER_PATH,
        operation_id="rounds_show",
    )
    def get(self, request: Request, number: str) -> Response:
        return Response(RoundDetailSerializer(round_get(number)).data)


class PlanningView(ApiView):
    read_scope = "cluster:read"

    @documented(
        "Show a planning with its decisions",
        answer=PlanningDetailSerializer,
        refusals=(404, 410),
        parameters=(*NUMBER_PATH, PAGING[0], DECISIONS_A_PAGE),
        operation_id="plannings_show",
        description="The decisions come in pages, in the order of the queue: `decisions_next` is the URL of the next ones.",
    )
    def get(self, request: Request, number: str) -> Response:
        query = Query(request, known=("page", "page_size"))
        page = query.whole("page", 1, 1, MAX_PAGE) or 1
        size = query.whole("page_size", DECISIONS_BY_DEFAULT, 1, MAX_PAGE_SIZE) or DECISIONS_BY_DEFAULT
        planning = planning_by_number(number_of(number))
        planning.decisions_count = count = len(decisions_read(planning))
        planning.decisions_next = page_url(query, page + 1) if page * size < count else None
        planning.decisions_previous = page_url(query, page - 1) if page > 1 else None
        planning.shown_decisions = planning_decisions(
            planning, request.user, tenant=tenant_of(request), start=(page - 1) * size, count=size
        )
        planning.shown_outcomes = planning_outcomes(planning, request.user, tenant=tenant_of(request))
        return Response(PlanningDetailSerializer(planning).data)


class MetricsView(ApiView):
    read_scope = "cluster:read"

    @documented(
        "The cluster's figures, now and over time",
        answer=MetricsAnswer,
        parameters=(
            parameter("range", {"type": "string", "enum": list(RANGES)}, "How far back; missing: 1h."),
            time_parameter("since", "Instead of a range: from when on."),
        ),
        operation_id="metrics",
    )
    def get(self, request: Request) -> Response:
        query = Query(request, known=("since", "range"))
        _, length = range_of(query.choice("range", RANGES))
        since = query.time("since")
        if since and query.values.get("range"):
            raise BerthError("conflict", "Give `range` or `since`, not both.", field="since")
        since = since or timezone.now() - length
        # As they are: taking some 20 000 plain numbers through a serializer costs more than all the rest.
        series, rounds = metrics_series(since=since), metrics_rounds(since=since)
        queue = queue_told(queue_counts(now=None))
        return Response({"now": finite(cluster_metrics()), "queue": queue, "series": series, "rounds": rounds})
