"""`/api/v1/jobs/plan`: what a planning would do with a job."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from rest_framework.response import Response

from portal.api.base import ApiView
from portal.api.parsers import request_object
from portal.api.schema import documented
from portal.api.throttles import PlanThrottle
from portal.jobs import services
from portal.jobs.description_schema import EXAMPLES, JobDescription
from portal.rounds.asking.dryrun import dry_run
from portal.rounds.serializers import PlanAnswer, finite
from portal.rounds.settings.knobs import knobs_current
from portal.tenants.authentication import tenant_of

if TYPE_CHECKING:
    from rest_framework.request import Request


class JobsPlanView(ApiView):
    """A dry run loads the whole queue and solves, so each user has only so many a minute."""

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
        tenant, parsed = services.submission_check(
            user=request.user,
            tenant=tenant_of(request),
            description=request_object(request._request),  # noqa: SLF001 - the public way to the raw request
            r_num=knobs_current()["r_num"],
        )
        return Response(PlanAnswer(finite(dry_run(description=parsed, tenant=tenant, user=request.user))).data)
