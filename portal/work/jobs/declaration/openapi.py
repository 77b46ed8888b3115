"""The job description for readers and tools: its OpenAPI schema with examples. `description_parse` is what checks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from drf_spectacular.utils import OpenApiExample

from portal.foundation.api.schema import RawSchema
from portal.work.jobs.declaration.schema import record
from portal.work.jobs.declaration.table import TABLE

if TYPE_CHECKING:
    from portal.work.jobs.declaration.table import JobField


def property_of(field: JobField) -> dict[str, Any]:
    """Return the field's OpenAPI schema."""
    found: dict[str, Any] = {**_kind(field), **field.schema}
    if field.name != "command":
        found["nullable"] = True
    if field.says:
        found["description"] = field.says
    if field.default is not None and field.kind in {"whole", "choice"}:
        found["default"] = field.default
    return found


def _kind(field: JobField) -> dict[str, Any]:
    match field.kind:
        case "text":
            return {"type": "string", "maxLength": field.most_chars}
        case "whole":
            return {"type": "integer", "minimum": field.low, "maximum": field.high}
        case "number":
            return {"type": "number", "minimum": field.low, "exclusiveMinimum": True, "maximum": field.high}
        case "flag":
            return {"type": "boolean"}
        case "choice":
            return {"type": "string", "enum": [*field.choices, None]}
        case "time":
            return {"type": "string", "format": "date-time"}
        case "lines":
            return {"type": "array"}
    return {}


PROPERTIES = {field.name: property_of(field) for field in TABLE}


class JobDescription(RawSchema):
    """The body of POST /jobs."""

    schema = {
        **record(PROPERTIES, ["command"]),
        "description": "What to run and what it needs. null is the same as not given; unknown fields are refused.",
    }


EXAMPLES = (
    OpenApiExample(
        "An elastic training",
        request_only=True,
        value={
            "name": "convnext-b-aerial",
            "model": "convnext-b",
            "command": "torchrun --nproc_per_node=$BERTH_GPUS train.py --epochs 30",
            "working_directory": "/home/lena/aerial",
            "category": "cv",
            "pipelined": True,
            "parameters": 89_000_000,
            "gpus": [1, 2, 4],
            "cores_per_gpu": 4,
            "memory_mib": 24_576,
            "time_limit_s": 36_000,
            "batch_per_gpu": 128,
            "samples": 5_760_000,
            "learning_rate": {"at": 4, "value": 4.0e-4, "rule": "linear"},
            "checkpointable": True,
        },
    ),
    OpenApiExample(
        "A CPU array with its script",
        request_only=True,
        value={
            "name": "count-words",
            "command": "python count.py",
            "gpus": 0,
            "cores": 1,
            "files": {"count.py": "import os\nprint(os.environ['BERTH_ARRAY_INDEX'])\n"},
            "array": {"size": 20, "concurrency": 4},
        },
    ),
)
