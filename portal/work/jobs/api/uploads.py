"""`/api/v1/uploads/{digest}`: show an upload with its files, and remove one that no job needs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from drf_spectacular.utils import OpenApiParameter
from rest_framework import serializers
from rest_framework.response import Response

from portal.foundation.api.base import ApiView, Query, body_of
from portal.foundation.api.schema import documented
from portal.people.tenants.authentication import tenant_of
from portal.people.tenants.selectors import work_check
from portal.work.jobs.services.asked.bringing import IN_USE
from portal.work.uploads.selectors import upload_files, upload_get
from portal.work.uploads.services import upload_delete

if TYPE_CHECKING:
    from rest_framework.request import Request

DIGEST_PATH = (OpenApiParameter("digest", str, OpenApiParameter.PATH),)


class UploadedFile(serializers.Serializer):
    path = serializers.CharField()
    sha256 = serializers.CharField()
    size_bytes = serializers.IntegerField()
    executable = serializers.BooleanField()


class UploadDetail(serializers.Serializer):
    """An upload with each of its files."""

    digest = serializers.CharField()
    tenant = serializers.CharField()
    size_bytes = serializers.IntegerField()
    created_at = serializers.DateTimeField()
    used_at = serializers.DateTimeField()
    files = UploadedFile(many=True)


class UploadView(ApiView):
    read_scope, write_scope = "jobs:read", "jobs:write"

    @documented(
        "Show an upload", answer=UploadDetail, refusals=(404,), parameters=DIGEST_PATH, operation_id="uploads_show"
    )
    def get(self, request: Request, digest: str) -> Response:
        Query(request, known=())
        found = upload_get(user=request.user, digest=digest, tenant=tenant_of(request))
        return Response(
            {
                "digest": found.digest,
                "tenant": found.tenant.name,
                "size_bytes": found.size_bytes,
                "created_at": found.created_at,
                "used_at": found.used_at,
                "files": upload_files(found.pk),
            }
        )

    @documented(
        "Remove an upload that no job needs any more",
        answer=None,
        status=204,
        refusals=(404, 409, 413, 415),
        parameters=DIGEST_PATH,
        request=None,
        operation_id="uploads_delete",
    )
    def delete(self, request: Request, digest: str) -> Response:
        found = upload_get(user=request.user, digest=digest, tenant=tenant_of(request))
        work_check(request.user, found.tenant)
        body_of(request)
        upload_delete(user=request.user, upload=found, in_use=IN_USE)
        return Response(status=204)
