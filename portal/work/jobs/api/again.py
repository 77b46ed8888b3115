"""`/api/v1/jobs/N/description`: the description of a job, to submit it again or to continue it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rest_framework.response import Response

from portal.foundation.api.base import ApiView
from portal.foundation.api.queries import Query
from portal.foundation.api.schema import documented, parameter
from portal.work.jobs.api.jobs import JOB_PATH, job_of
from portal.work.jobs.declaration.openapi import JobDescription
from portal.work.jobs.fields.keeping import MAX_PATH_CHARS
from portal.work.jobs.lineage import description_again

if TYPE_CHECKING:
    from rest_framework.request import Request

BEGIN_WITH = parameter(
    "begin_with",
    {"type": "string", "maxLength": MAX_PATH_CHARS},
    "An artefact of it, or with a / at its end a folder: it stands in `inputs`, under the path that it had.",
)


class JobDescriptionView(ApiView):
    read_scope = "jobs:read"

    @documented(
        "Show what a job was submitted with",
        answer=JobDescription,
        refusals=(404,),
        parameters=(*JOB_PATH, BEGIN_WITH),
        operation_id="jobs_description",
        description="POST /jobs takes it. With `begin_with` it is one job's, without array and dependencies.",
    )
    def get(self, request: Request, number: str) -> Response:
        query = Query(request, known=("begin_with",))
        artefact = query.text("begin_with", max_chars=MAX_PATH_CHARS)
        return Response(description_again(job_of(request, number), artefact or ""))
