"""Requests and answers of `/api/v1/templates`, for its document."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import OpenApiParameter
from rest_framework import serializers

from portal.foundation.api.schema import RawSchema, parameter
from portal.planning.templating.selectors import MOST_NUMBER

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
