"""`/api/v1/templates`: list, show, keep and delete job templates; jobs from them, and dry runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from drf_spectacular.utils import OpenApiParameter
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from portal.foundation import checks
from portal.foundation.api.base import PAGE_PARAMETERS, ApiView, Query, idempotency_key_of, ordered, page_of
from portal.foundation.api.parsers import request_object
from portal.foundation.api.schema import (
    PAGING,
    RawSchema,
    documented,
    idempotency_parameter,
    ordering_parameter,
    page_schema,
    parameter,
)
from portal.foundation.api.throttles import PlanThrottle
from portal.foundation.errors import BerthError
from portal.people.tenants.authentication import scope_check, tenant_of, token_of
from portal.planning.rounds.asking.dryrun import dry_run
from portal.planning.rounds.serializers import PlanAnswer, finite
from portal.planning.rounds.settings.knobs import knobs_current
from portal.planning.templating.selectors import MOST_NUMBER, template_named, templates_for, version_get, versions_of
from portal.planning.templating.services import template_delete, template_owner, template_save
from portal.planning.templating.submitting import Order, of_parameter, order_make, order_submit
from portal.planning.templating.yaml_text import with_files, yaml_read, yaml_write
from portal.work.jobs.api.jobs import job_answer
from portal.work.jobs.serializers.jobs import JobDetailSerializer
from portal.work.jobs.services import submission

if TYPE_CHECKING:
    from portal.planning.templating.models import JobTemplate, TemplateVersion


ORDERINGS = ("name", "changed_at")
TEMPLATE_PATH = (
    OpenApiParameter("name", str, OpenApiParameter.PATH, description="The template's name."),
    parameter("tenant", str, "Of this tenant. Missing: of one of your tenants, else the operators'."),
    parameter("operators", {"type": "boolean", "default": False}, "The operators' one of this name."),
)
VERSION = parameter(
    "version", {"type": "integer", "minimum": 1, "maximum": MOST_NUMBER}, "This version. Missing: the last one."
)
_DOCUMENT: dict[str, Any] = {
    "type": "object",
    "additionalProperties": {},
    "description": "`name`, `title`, `about`, `parameters`, and `job`: the fields of a description, in whose texts "
    "`${{ parameter }}` stands for a value.",
}


class Template(serializers.Serializer):
    name = serializers.CharField()
    tenant = serializers.CharField(allow_null=True, help_text="Whose it is; null: the operators', for all tenants.")
    title = serializers.CharField()
    about = serializers.CharField()
    version = serializers.IntegerField(help_text="The last version's number.")
    changed_at = serializers.DateTimeField()


class TemplateDetail(Template):
    shown_version = serializers.IntegerField(help_text="The version that the rest is of.")
    made_by = serializers.CharField()
    made_at = serializers.DateTimeField()
    parameters = serializers.ListField(
        child=serializers.DictField(), help_text="Each has `name` and `type`; without `default` a value must be given."
    )
    job = serializers.DictField(help_text="The job's fields, with `${{ parameter }}` in place of values.")
    text = serializers.CharField(help_text="The whole template as YAML, to be imported elsewhere.")


class TemplateVersionRow(serializers.Serializer):
    version = serializers.IntegerField()
    made_by = serializers.CharField()
    made_at = serializers.DateTimeField()
    bytes = serializers.IntegerField()


class TemplateGiven(RawSchema):
    schema = {
        "type": "object",
        "properties": {
            "text": {"type": "string", "description": "The template as YAML; this or `document`.", "nullable": True},
            "document": {**_DOCUMENT, "nullable": True},
            "files": {
                "type": "object",
                "additionalProperties": {},
                "description": "Files that come along, as in a job's description, beside those of `text` or `document`.",
            },
            "tenant": {
                "type": "string",
                "nullable": True,
                "description": "For which tenant, where you are in several.",
            },
            "operators": {"type": "boolean", "description": "For all tenants: operators alone, with that scope."},
        },
        "additionalProperties": False,
    }


class TemplateValues(RawSchema):
    schema = {
        "type": "object",
        "properties": {
            "values": {
                "type": "object",
                "additionalProperties": {},
                "description": "By parameter; others: the default.",
            },
            "version": {"type": "integer", "minimum": 1, "maximum": MOST_NUMBER, "nullable": True},
            "tenant": {"type": "string", "nullable": True, "description": "For which tenant the job is."},
            "job": {
                "type": "object",
                "nullable": True,
                "additionalProperties": {},
                "description": "Fields of a description in place of the template's.",
            },
        },
        "additionalProperties": False,
    }


def _of(request: Request, name: str, query: Query) -> JobTemplate:
    """Return the template that path and query name."""
    checks.text_safe(name, "name")
    return template_named(
        name,
        user=request.user,
        token_tenant=tenant_of(request),
        tenant=query.text("tenant", max_chars=63),
        operators=query.flag("operators"),
    )


def _row(template: JobTemplate) -> dict[str, Any]:
    return {
        "name": template.name,
        "tenant": template.tenant.name if template.tenant else None,
        "title": template.title,
        "about": template.about,
        "version": template.version,
        "changed_at": template.changed_at,
    }


def _detail(template: JobTemplate, version: TemplateVersion, *, status: int = 200) -> Response:
    document = version.document
    answer = {
        **_row(template),
        "shown_version": version.number,
        "made_by": version.made_by,
        "made_at": version.made_at,
        "parameters": document["parameters"],
        "job": document["job"],
        "text": yaml_write(document),
    }
    return Response(TemplateDetail(answer).data, status=status)


class TemplatesView(ApiView):
    read_scope, write_scope = "jobs:read", "jobs:write"

    @documented(
        "List job templates",
        answer=page_schema(Template, "TemplatePage"),
        parameters=(
            *PAGING,
            ordering_parameter(ORDERINGS),
            parameter("q", {"type": "string", "maxLength": 200}, "Words of its name, title or text."),
            parameter("tenant", str, "Only this tenant's."),
        ),
        operation_id="templates_list",
        description="Those of your tenants, and the operators'.",
    )
    def get(self, request: Request) -> Response:
        query = Query(request, known=(*PAGE_PARAMETERS, "ordering", "q", "tenant"))
        found = templates_for(user=request.user, tenant=tenant_of(request), text=query.text("q", max_chars=200) or "")
        if tenant := query.text("tenant", max_chars=63):
            found = found.filter(tenant__name=tenant)
        found = ordered(query, found, allowed=ORDERINGS, default="name")
        return Response(page_of(query, found, lambda rows: Template([_row(each) for each in rows], many=True).data))

    @documented(
        "Save a job template: a new one, or the next version of the one with its name",
        answer=TemplateDetail,
        status=201,
        refusals=(409, 413, 415),
        request=TemplateGiven,
        operation_id="templates_save",
        description="A document equal to the last version makes no new one.",
    )
    def post(self, request: Request) -> Response:
        body = _body(request, ("text", "document", "files", "tenant", "operators"))
        is_operators = checks.flag(body.get("operators", False), "operators")
        if is_operators:
            scope_check(user=request.user, token=token_of(request), scope="operator")
        name = None if body.get("tenant") is None else checks.text(body["tenant"], "tenant", max_chars=63)
        tenant = template_owner(user=request.user, name=name, operators=is_operators, token_tenant=tenant_of(request))
        template, _ = template_save(actor=request.user, tenant=tenant, document=_document(body))
        return _detail(template, version_get(template), status=201)


def _body(request: Request, known: tuple[str, ...]) -> dict[str, Any]:
    body = request_object(request._request)  # noqa: SLF001 - the public way to the raw request
    for name in body:
        if name not in known:
            shown = checks.quoted(name)
            detail = f"This request has no field {shown}; it knows {', '.join(known)}."
            raise BerthError("unknown_field", detail, field=shown.strip("'"))
    return body


def _document(body: dict[str, Any]) -> Any:
    text, document = body.get("text"), body.get("document")
    if (text is None) == (document is None):
        detail = "Give the template as `text`, which is YAML, or as `document`: one of them."
        raise BerthError("required", detail, field="text")
    if text is not None and not isinstance(text, str):
        raise checks.wrong_type(text, "text", "text")
    return with_files(document if text is None else yaml_read(text), body.get("files"))


class TemplateView(ApiView):
    read_scope, write_scope = "jobs:read", "jobs:write"

    @documented(
        "Show a job template",
        answer=TemplateDetail,
        refusals=(404,),
        parameters=(*TEMPLATE_PATH, VERSION),
        operation_id="templates_show",
    )
    def get(self, request: Request, name: str) -> Response:
        query = Query(request, known=("tenant", "operators", "version"))
        template = _of(request, name, query)
        return _detail(template, version_get(template, query.whole("version", None, 1, MOST_NUMBER)))

    @documented(
        "Delete a job template with its versions",
        answer=None,
        status=204,
        refusals=(404,),
        parameters=TEMPLATE_PATH,
        operation_id="templates_delete",
        description="A tenant's managers may do this, and operators with theirs. Jobs keep what they were made of.",
    )
    def delete(self, request: Request, name: str) -> Response:
        template = _of(request, name, Query(request, known=("tenant", "operators")))
        if template.tenant is None:
            scope_check(user=request.user, token=token_of(request), scope="operator")
        template_delete(actor=request.user, template=template)
        return Response(status=204)


class TemplateVersionsView(ApiView):
    read_scope = "jobs:read"

    @documented(
        "List a job template's versions, the last first",
        answer=page_schema(TemplateVersionRow, "TemplateVersionPage"),
        refusals=(404,),
        parameters=(*PAGING, *TEMPLATE_PATH),
        operation_id="templates_versions",
    )
    def get(self, request: Request, name: str) -> Response:
        query = Query(request, known=(*PAGE_PARAMETERS, "tenant", "operators"))
        found = versions_of(_of(request, name, query))

        def rows(page: Any) -> Any:
            told = [
                {"version": v.number, "made_by": v.made_by, "made_at": v.made_at, "bytes": v.size_bytes} for v in page
            ]
            return TemplateVersionRow(told, many=True).data

        return Response(page_of(query, found, rows))


def _of_tenant(request: Request, name: str, query: Query, tenant: str | None) -> JobTemplate:
    """Return the template; the one of the tenant that the job is for comes first."""
    if tenant is not None and "tenant" not in query.values and not query.flag("operators"):
        own = templates_for(user=request.user, tenant=tenant_of(request)).filter(tenant__name=tenant, name=name).first()
        if own is not None:
            return own
    return _of(request, name, query)


def _ordered(request: Request, name: str) -> Order:
    """Return the order that a body's values make of the template. Raises the first error in them."""
    query = Query(request, known=("tenant", "operators"))
    body = _body(request, ("values", "version", "tenant", "job"))
    number = None if body.get("version") is None else checks.whole(body["version"], "version", 1, MOST_NUMBER)
    tenant = None if body.get("tenant") is None else checks.text(body["tenant"], "tenant", max_chars=63)
    template = _of_tenant(request, name, query, tenant)
    version = version_get(template, number)
    order, problems = order_make(template, version, body.get("values"), body.get("job"), tenant=tenant)
    if order is None:
        raise problems[0]
    return order


class TemplateSubmitView(ApiView):
    write_scope = "jobs:write"
    http_method_names: ClassVar[list[str]] = ["post"]

    @documented(
        "Submit a job from a template",
        answer=JobDetailSerializer,
        status=201,
        refusals=(404, 409, 413, 415),
        request=TemplateValues,
        parameters=(*TEMPLATE_PATH, idempotency_parameter("As of `POST /jobs`.")),
        operation_id="templates_submit",
        description="The error's field is `values.NAME` where one parameter alone fills what is wrong.",
    )
    def post(self, request: Request, name: str) -> Response:
        key = idempotency_key_of(request)
        order = _ordered(request, name)
        job = order_submit(order, user=request.user, tenant=tenant_of(request), key=key)
        return job_answer(job, user=request.user, status=201)


class TemplatePlanView(ApiView):
    write_scope = "jobs:write"
    http_method_names: ClassVar[list[str]] = ["post"]
    throttle_classes: ClassVar[list[Any]] = [PlanThrottle]

    @documented(
        "Say what would happen to a job from a template now, without submitting it",
        answer=PlanAnswer,
        refusals=(404, 409, 413, 415, 429),
        request=TemplateValues,
        parameters=TEMPLATE_PATH,
        operation_id="templates_plan",
    )
    def post(self, request: Request, name: str) -> Response:
        order = _ordered(request, name)
        try:
            tenant, parsed = submission.submission_check(
                user=request.user,
                tenant=tenant_of(request),
                description=order.description,
                r_num=knobs_current()["r_num"],
            )
        except BerthError as error:
            raise of_parameter(order.document, error) from None
        return Response(PlanAnswer(finite(dry_run(description=parsed, tenant=tenant, user=request.user))).data)
