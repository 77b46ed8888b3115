"""`/api/v1/jobs/N/artefacts`: what a job wrote, as a list, one file, or all as a tar; and their removal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter
from rest_framework import serializers
from rest_framework.response import Response

from portal.foundation.api.base import PAGE_PARAMETERS, ApiView, Query, page_of
from portal.foundation.api.schema import PAGING, documented, parameter
from portal.work.artefacts.download import download_all, download_answer, download_file
from portal.work.artefacts.models import PATH_CHARS, Artefact
from portal.work.artefacts.selectors import artefact_get, artefacts_of, artefacts_summary, tenant_use
from portal.work.artefacts.services.removing import artefacts_remove
from portal.work.jobs.api.jobs import JOB_PATH, job_of

if TYPE_CHECKING:
    from django.http.response import HttpResponseBase
    from rest_framework.request import Request

STATES = ("none", "watching", "uploading", "complete")
UNDER = parameter("under", {"type": "string", "maxLength": PATH_CHARS}, "Only what lies below this folder.")
RANGE = OpenApiParameter(
    "Range", str, OpenApiParameter.HEADER, description="One range: `bytes=START-END`; answers 206."
)


class ArtefactNote(serializers.Serializer):
    path = serializers.CharField()
    why = serializers.CharField()


class ArtefactRow(serializers.Serializer):
    path = serializers.CharField()
    state = serializers.ChoiceField(
        choices=Artefact.State.choices,
        help_text="`kept`: it can be downloaded, also where a newer content is on its way.",
    )
    size = serializers.IntegerField(allow_null=True, help_text="Bytes that are kept; null: none yet.")
    modified_at = serializers.DateTimeField(help_text="By its node's clock.")
    sha256 = serializers.CharField(help_text="Of what is kept; empty: nothing is.")
    uploading = serializers.SerializerMethodField(help_text="Bytes of the content that is on its way; null: none is.")
    reason = serializers.CharField(help_text="Why the newest content is not kept; empty: it is, or will be.")
    attempt = serializers.IntegerField(source="epoch")
    rank = serializers.IntegerField()

    def get_uploading(self, row: Artefact) -> int | None:
        return row.told_size


class ArtefactPage(serializers.Serializer):
    count = serializers.IntegerField()
    page = serializers.IntegerField(allow_null=True)
    page_size = serializers.IntegerField()
    next = serializers.URLField(allow_null=True)
    previous = serializers.URLField(allow_null=True)
    results = ArtefactRow(many=True)
    state = serializers.ChoiceField(choices=STATES, help_text="`watching`: the job has not ended; more may come.")
    files = serializers.IntegerField()
    bytes = serializers.IntegerField(help_text="That count against the tenant's quota.")
    looked_at = serializers.DateTimeField(allow_null=True)
    kept_until = serializers.DateTimeField(allow_null=True)
    notes = ArtefactNote(
        many=True,
        help_text="Files that are not taken, and why; the first 20 of a node, and 50 that the portal refused.",
    )
    notes_more = serializers.IntegerField(help_text="How many others are not taken, at least.")
    tenant_bytes = serializers.IntegerField()
    tenant_quota_bytes = serializers.IntegerField()


class ArtefactsRemoved(serializers.Serializer):
    removed = serializers.IntegerField(help_text="How many files.")


class JobArtefactsView(ApiView):
    read_scope, write_scope = "jobs:read", "jobs:write"

    @documented(
        "List what a job wrote",
        answer=ArtefactPage,
        refusals=(404,),
        parameters=(*JOB_PATH, *PAGING, UNDER),
        operation_id="jobs_artefacts",
        description="Files that its command wrote to `$BERTH_ARTEFACTS`, while it runs and after.",
    )
    def get(self, request: Request, number: str) -> Response:
        query = Query(request, known=(*PAGE_PARAMETERS, "under"))
        job = job_of(request, number)
        rows = artefacts_of(job, under=query.text("under", max_chars=PATH_CHARS) or "")
        found, use = artefacts_summary(job), tenant_use(job.tenant)
        more: dict[str, Any] = {
            "state": found.state,
            "files": found.files,
            "bytes": found.counted,
            "looked_at": found.looked_at,
            "kept_until": found.kept_until,
            "notes": [{"path": path, "why": why} for path, why in found.notes],
            "notes_more": found.notes_more,
            "tenant_bytes": use.counted,
            "tenant_quota_bytes": use.quota,
        }
        return Response(page_of(query, rows, lambda page: ArtefactRow(page, many=True).data) | more)

    @documented(
        "Remove all that a job wrote",
        answer=ArtefactsRemoved,
        refusals=(404,),
        parameters=JOB_PATH,
        operation_id="jobs_artefacts_remove",
        description="What its command writes after that is kept again.",
    )
    def delete(self, request: Request, number: str) -> Response:
        Query(request, known=())
        job = job_of(request, number)
        return Response({"removed": artefacts_remove(job=job, actor=request.user)})


class JobArtefactsTarView(ApiView):
    read_scope = "jobs:read"

    @documented(
        "Download all that a job wrote",
        answer=None,
        refusals=(404, 416),
        parameters=(*JOB_PATH, UNDER, RANGE),
        more_answers={(200, "application/x-tar"): OpenApiTypes.BINARY, (206, "application/x-tar"): OpenApiTypes.BINARY},
        operation_id="jobs_artefacts_tar",
        description="A tar of what is kept, without compression. `Range` with `If-Range` goes on with a broken download.",
    )
    def get(self, request: Request, number: str) -> HttpResponseBase:
        query = Query(request, known=("under",))
        job = job_of(request, number)
        rows = artefacts_of(job, under=query.text("under", max_chars=PATH_CHARS) or "")
        return download_answer(request._request, download_all(job, list(rows)), content_type="application/x-tar")  # noqa: SLF001 - the public way to the raw request


class JobArtefactView(ApiView):
    read_scope, write_scope = "jobs:read", "jobs:write"
    paths = (*JOB_PATH, OpenApiParameter("path", str, OpenApiParameter.PATH, description="As the list gives it."))

    @documented(
        "Download one file that a job wrote",
        answer=None,
        refusals=(404, 409, 416),
        parameters=(*paths, RANGE),
        more_answers={
            (200, "application/octet-stream"): OpenApiTypes.BINARY,
            (206, "application/octet-stream"): OpenApiTypes.BINARY,
        },
        operation_id="jobs_artefact_get",
        description="Always as a download. 409 `not_kept` while it is on its way, or where it is not kept.",
    )
    def get(self, request: Request, number: str, path: str) -> HttpResponseBase:
        Query(request, known=())
        job = job_of(request, number)
        found = download_file(job, artefact_get(job, path))
        return download_answer(request._request, found, content_type="application/octet-stream")  # noqa: SLF001 - as above

    @documented(
        "Remove one file, or a folder, that a job wrote",
        answer=ArtefactsRemoved,
        refusals=(404,),
        parameters=paths,
        operation_id="jobs_artefact_remove",
    )
    def delete(self, request: Request, number: str, path: str) -> Response:
        Query(request, known=())
        job = job_of(request, number)
        return Response({"removed": artefacts_remove(job=job, actor=request.user, path=path)})
