"""Descriptions of jobs: a job's own, to submit it again or to continue it, and those read from a batch script or YAML."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from rest_framework import serializers
from rest_framework.response import Response

from portal.cluster.selectors import gpu_type_names
from portal.foundation import checks
from portal.foundation.api.base import ApiView, Query
from portal.foundation.api.parsers import request_object
from portal.foundation.api.schema import RawSchema, documented, parameter
from portal.foundation.errors import BerthError
from portal.work.jobs.api.jobs import JOB_PATH, job_of
from portal.work.jobs.declaration.openapi import JobDescription
from portal.work.jobs.fields.keeping import MAX_PATH_CHARS
from portal.work.jobs.imports import FORMATS, text_import
from portal.work.jobs.lineage import description_again

if TYPE_CHECKING:
    from collections.abc import Callable

    from rest_framework.request import Request

    from portal.people.tenants.models import User
    from portal.work.jobs.imports.answers import Begins


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


MOST_ARGUMENTS = 1000


class ImportAsked(RawSchema):
    schema = {
        "type": "object",
        "properties": {
            "text": {"type": "string", "minLength": 1, "description": "The script, or the description in YAML."},
            "format": {
                "type": "string",
                "enum": [*FORMATS, None],
                "nullable": True,
                "description": "Missing: a script begins with #!, or has a line that begins with #SBATCH.",
            },
            "arguments": {
                "type": "array",
                "items": {"type": "string"},
                "maxItems": MOST_ARGUMENTS,
                "description": "With which the script is called: its `$1`, `$2` and so on.",
            },
        },
        "required": ["text"],
        "additionalProperties": False,
    }


class ImportedLine(serializers.Serializer):
    """One directive of the script, and what became of it."""

    line = serializers.IntegerField(help_text="The line's number, from 1.")
    text = serializers.CharField(help_text="The option as it stands there.")
    verdict = serializers.ChoiceField(
        choices=["mapped", "looser", "ignored", "refused"],
        help_text="Looser: it became what is like it, such as a GPU type of which less is known, or cores that are tuned. "
        "Refused: it cannot be had here, and without it the job would be another one.",
    )
    detail = serializers.CharField(help_text="What it became, or why it became nothing.")
    field = serializers.CharField(allow_null=True, help_text="The description's field that it went to.")


class ImportAnswer(serializers.Serializer):
    format = serializers.ChoiceField(choices=FORMATS)
    description = serializers.DictField(
        help_text="What POST /jobs takes. It holds nothing of refused lines, and is checked when it is sent."
    )
    lines = ImportedLine(many=True)


class JobsImportView(ApiView):
    write_scope = "jobs:write"
    http_method_names: ClassVar[list[str]] = ["post"]
    begins_for: Callable[[User], Begins] | None = None  # from a room above, which knows the start rule of cores

    @documented(
        "Read a batch script or YAML as a job description, without submitting it",
        answer=ImportAnswer,
        refusals=(413, 415),
        request=ImportAsked,
        operation_id="jobs_import",
        description="Each directive of a script is mapped, mapped to something looser, ignored or refused, with the reason.",
    )
    def post(self, request: Request) -> Response:
        body = request_object(request._request)  # noqa: SLF001 - the public way to the raw request
        text, form = _asked(body)
        types, arguments = gpu_type_names(), _arguments(body.get("arguments") or [])
        begins = self.begins_for(request.user) if self.begins_for else None
        found = text_import(text, format=form, gpu_types=types, arguments=arguments, begins=begins)
        return Response(found.as_json())


def _arguments(given: Any) -> list[str]:
    if not isinstance(given, list) or not all(isinstance(each, str) for each in given):
        raise checks.wrong_type(given, "arguments", "a list of texts")
    if len(given) > MOST_ARGUMENTS:
        raise BerthError("too_many", f"`arguments` has {len(given)}; at most {MOST_ARGUMENTS}.", field="arguments")
    return [checks.text_safe(each, "arguments") for each in given]


def _asked(body: dict[str, Any]) -> tuple[str, str | None]:
    for name in body:
        if name not in {"text", "format", "arguments"}:
            shown = checks.quoted(name)
            detail = f"This request has no field {shown}; it knows text, format, arguments."
            raise BerthError("unknown_field", detail, field=shown.strip("'"))
    text, form = body.get("text"), body.get("format")
    if text is None:
        raise BerthError("required", "`text` is missing; send the script, or the description in YAML.", field="text")
    if not isinstance(text, str):
        raise checks.wrong_type(text, "text", "text")
    return text, None if form is None else checks.choice(form, "format", FORMATS)
