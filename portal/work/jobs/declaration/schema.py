"""JSON schemas of the fields whose value has parts; `portal.work.jobs.description` is what checks."""

from __future__ import annotations

from typing import Any

from portal.work.jobs import description_parts as parts
from portal.work.jobs import software
from portal.work.jobs.fields import keeping
from portal.work.jobs.fields.code import MAX_PATH_CHARS, MAX_REF_CHARS, MAX_SECRETS, MAX_URL_CHARS
from portal.work.secrets.services import NAME_PATTERN
from portal.work.uploads.manifest import SHA256_PATTERN

TEXT: dict[str, Any] = {"type": "string"}


def record(properties: dict[str, Any], required: list[str]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def _text(says: str, most: int) -> dict[str, Any]:
    return {"type": "string", "maxLength": most, "nullable": True, "description": says}


_NAME = {"type": "string", "pattern": NAME_PATTERN}
_COUNT = {"type": "integer", "minimum": 1, "maximum": parts.MAX_GPUS}
_ID = {"type": "integer", "minimum": 1, "maximum": parts.MAX_ID}
_KIND = {"type": "string", "enum": list(parts.KINDS), "default": "ok"}
_NUMBER = {"oneOf": [_ID, {"type": "string", "pattern": f"^{keeping.NUMBER}$"}]}
_SINGLETON = {"type": "string", "enum": [parts.SINGLETON]}
_RATE = {"type": "number", "minimum": 0, "exclusiveMinimum": True, "maximum": parts.MAX_LEARNING_RATE}
_TASKS = {"type": "integer", "minimum": 1, "maximum": parts.MAX_ARRAY_SIZE}

SCHEMAS: dict[str, dict[str, Any]] = {
    "command": {**TEXT, "minLength": 1},
    "working_directory": {**TEXT, "maxLength": parts.MAX_PATH_CHARS},
    "upload": {**TEXT, "pattern": SHA256_PATTERN},
    "gpu_compute": {"type": "number", "minimum": parts.LEAST_GPU_SHARE, "maximum": 1},
    "artefacts": {"items": {**TEXT, "maxLength": keeping.MAX_PATH_CHARS}, "maxItems": keeping.MAX_PATTERNS},
    "log_matches": {
        "items": {**TEXT, "minLength": 1, "maxLength": keeping.MAX_LOG_CHARS},
        "maxItems": keeping.MAX_LOG_PATTERNS,
    },
    "files": {
        "type": "object",
        "maxProperties": parts.MAX_FILES,
        "additionalProperties": {"oneOf": [TEXT, record({"base64": {**TEXT, "format": "byte"}}, ["base64"])]},
    },
    "inputs": {
        "type": "array",
        "items": record({"job": _NUMBER, "path": TEXT, "as": {**TEXT, "nullable": True}}, ["job", "path"]),
        "maxItems": keeping.MAX_INPUTS,
    },
    "environment": {"type": "object", "additionalProperties": TEXT, "maxProperties": parts.MAX_VARIABLES},
    "secrets": {"type": "object", "additionalProperties": _NAME, "maxProperties": MAX_SECRETS},
    "code": {
        "type": "object",
        "properties": {
            "git": _text("URL of a repository, without a password.", MAX_URL_CHARS),
            "ref": _text("Branch, tag or commit. Missing: the default branch.", MAX_REF_CHARS),
            "secret": {
                **_NAME,
                "nullable": True,
                "description": "With which it is fetched: token, NAME:PASSWORD or key.",
            },
            "submodules": {"type": "boolean", "nullable": True, "description": "Its submodules too."},
            "path": _text(
                "Instead of git: a directory on the nodes, below one that the operator opens.", MAX_PATH_CHARS
            ),
        },
        "additionalProperties": False,
    },
    "software": {
        "type": "object",
        "properties": {
            "environment": {**TEXT, "pattern": software.NAME_PATTERN, "description": "Registered on nodes."},
            "path": {**TEXT, "maxLength": software.MAX_PATH_CHARS, "description": "Of one on the node."},
            "requirements": {**TEXT, "description": "As in requirements.txt: built on the node, once."},
            "image": {
                **TEXT,
                "pattern": software.IMAGE_PATTERN,
                "maxLength": software.MAX_IMAGE_CHARS,
                "description": "A container image with its registry, among those allowed to the tenant.",
            },
            "requirements_file": {**TEXT, "description": "The same, from the job's `files`."},
        },
        "additionalProperties": False,
        "maxProperties": 1,
    },
    "labels": {
        "oneOf": [
            {"type": "object", "additionalProperties": {**TEXT, "maxLength": 255}, "maxProperties": parts.MAX_LABELS},
            {"type": "array", "items": {**TEXT, "maxLength": 63}, "maxItems": parts.MAX_LABELS},
        ]
    },
    "gpus": {
        "default": 0,
        "oneOf": [
            {"type": "integer", "minimum": 0, "maximum": parts.MAX_GPUS},
            {"type": "array", "items": _COUNT, "minItems": 1, "maxItems": parts.MAX_SIZES, "uniqueItems": True},
            record({"min": _COUNT, "max": _COUNT}, ["min", "max"]),
        ],
    },
    "gpu_types": {"type": "array", "items": {**TEXT, "maxLength": 64}, "maxItems": 64, "uniqueItems": True},
    "learning_rate": {
        "oneOf": [
            _RATE,
            record(
                {"at": _COUNT, "value": _RATE, "rule": {**TEXT, "enum": list(parts.RATE_RULES)}},
                ["at", "value", "rule"],
            ),
            {"type": "object", "additionalProperties": _RATE, "minProperties": 1, "maxProperties": parts.MAX_SIZES},
        ]
    },
    "array": record(
        {
            "size": _TASKS,
            "concurrency": {**_TASKS, "nullable": True, "description": "Tasks unfinished at once; missing: no cap."},
        },
        ["size"],
    ),
    "depends_on": {
        "type": "array",
        "maxItems": parts.MAX_DEPENDENCIES,
        "items": {"oneOf": [_ID, record({"job": _ID, "kind": _KIND}, ["job"]), record({"kind": _SINGLETON}, ["kind"])]},
    },
}
