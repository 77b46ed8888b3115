"""The job description for readers and tools: its OpenAPI schema with examples. `description_parse` is what checks."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import OpenApiExample

from portal.api.schema import RawSchema
from portal.jobs import description as d
from portal.jobs import description_parts as parts
from portal.jobs import software
from portal.jobs.fields import keeping, watching
from portal.jobs.fields.schema import CODE, SECRETS
from portal.uploads.manifest import SHA256_PATTERN

_TEXT: dict[str, Any] = {"type": "string"}
_RATE: dict[str, Any] = {
    "type": "number",
    "minimum": 0,
    "exclusiveMinimum": True,
    "maximum": parts.MAX_LEARNING_RATE,
}


def _whole(low: int, high: int, says: str, **more: Any) -> dict[str, Any]:
    return {"type": "integer", "minimum": low, "maximum": high, "nullable": True, "description": says, **more}


def _object(properties: dict[str, Any], required: list[str]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def _flag(says: str) -> dict[str, Any]:
    return {"type": "boolean", "nullable": True, "description": says}


_GPUS = {"type": "integer", "minimum": 1, "maximum": parts.MAX_GPUS}
_ID = {"type": "integer", "minimum": 1, "maximum": parts.MAX_ID}
_KIND = {"type": "string", "enum": list(parts.KINDS), "default": "ok"}
_NUMBER = {"oneOf": [_ID, {"type": "string", "pattern": f"^{keeping.NUMBER}$"}]}
_SINGLETON = {"type": "string", "enum": [parts.SINGLETON]}

PROPERTIES: dict[str, dict[str, Any]] = {
    "name": {**_TEXT, "maxLength": 128, "nullable": True, "description": "Missing: the program's name."},
    "tenant": {**_TEXT, "maxLength": 63, "nullable": True, "description": "May be left out by members of one tenant."},
    "command": {**_TEXT, "minLength": 1, "description": "Run by /bin/sh -c; a script may have many lines, 64 KiB."},
    "files": {
        "type": "object",
        "nullable": True,
        "maxProperties": parts.MAX_FILES,
        "additionalProperties": {"oneOf": [_TEXT, _object({"base64": {**_TEXT, "format": "byte"}}, ["base64"])]},
        "description": "Put into the job's directory: relative name -> text or base64; at most 1 MiB in all.",
    },
    "upload": {
        **_TEXT,
        "pattern": SHA256_PATTERN,
        "nullable": True,
        "description": "The digest of an upload (`POST /uploads`): its files lie in the job's directory. For more than 1 MiB.",
    },
    "artefacts": {
        "type": "array",
        "items": {**_TEXT, "maxLength": keeping.MAX_PATH_CHARS},
        "maxItems": keeping.MAX_PATTERNS,
        "nullable": True,
        "description": "Files to keep besides those in $BERTH_ARTEFACTS: patterns such as out/*.pt in its own directory.",
    },
    "inputs": {
        "type": "array",
        "items": _object({"job": _NUMBER, "path": _TEXT, "as": {**_TEXT, "nullable": True}}, ["job", "path"]),
        "maxItems": keeping.MAX_INPUTS,
        "nullable": True,
        "description": "Artefacts of the tenant's jobs, laid into this job's directory, `as` a path or by their name; with "
        "a / at its end `path` is a folder, with all in it.",
    },
    "log_matches": {
        "type": "array",
        "items": {**_TEXT, "minLength": 1, "maxLength": watching.MAX_CHARS},
        "maxItems": watching.MAX_PATTERNS,
        "nullable": True,
        "description": "Tell who chose *Log match* when a line of the log has this text; * stands for any text between.",
    },
    "working_directory": {
        **_TEXT,
        "maxLength": parts.MAX_PATH_CHARS,
        "nullable": True,
        "description": "Absolute, or below the job's own directory. Short: workdir.",
    },
    "environment": {
        "type": "object",
        "nullable": True,
        "additionalProperties": _TEXT,
        "maxProperties": parts.MAX_VARIABLES,
        "description": "Variables. BERTH_*, CUDA_VISIBLE_DEVICES, LD_PRELOAD and their like are refused.",
    },
    "secrets": SECRETS,
    "code": CODE,
    "software": {
        "type": "object",
        "properties": {
            "environment": {**_TEXT, "pattern": software.NAME_PATTERN, "description": "Registered on nodes."},
            "path": {**_TEXT, "maxLength": software.MAX_PATH_CHARS, "description": "Of one on the node."},
            "requirements": {**_TEXT, "description": "As in requirements.txt: built on the node, once."},
            "image": {
                **_TEXT,
                "pattern": software.IMAGE_PATTERN,
                "maxLength": software.MAX_IMAGE_CHARS,
                "description": "A container image with its registry, among those allowed to the tenant.",
            },
            "requirements_file": {**_TEXT, "description": "The same, from the job's `files`."},
        },
        "additionalProperties": False,
        "nullable": True,
        "maxProperties": 1,
        "description": "Python packages beside the node's own. Missing: none.",
    },
    "labels": {
        "nullable": True,
        "description": "At most 16; a list gives names without values.",
        "oneOf": [
            {"type": "object", "additionalProperties": {**_TEXT, "maxLength": 255}, "maxProperties": parts.MAX_LABELS},
            {"type": "array", "items": {**_TEXT, "maxLength": 63}, "maxItems": parts.MAX_LABELS},
        ],
    },
    "category": {**_TEXT, "enum": [*d.CATEGORIES, None], "nullable": True},
    "pipelined": _flag("Loads the next batch while the GPU computes."),
    "model": {**_TEXT, "maxLength": 128, "nullable": True, "description": "Jobs with one label share measurements."},
    "parameters": _whole(1, d.MAX_COUNT, "Of the model."),
    "heavy_between_iterations": _flag("Augmentation or evaluation on the CPU between iterations."),
    "instrumented": _flag(
        "It records its iterations with berth_instrument. With several GPU counts it is profiled before it first starts: a "
        "few iterations on one GPU of each type that is idle, in a scratch directory, with BERTH_PROFILE=1."
    ),
    "gpus": {
        "nullable": True,
        "default": 0,
        "description": "A number (0: a CPU job), a set of accepted numbers, or a range, cut into a set.",
        "oneOf": [
            {"type": "integer", "minimum": 0, "maximum": parts.MAX_GPUS},
            {"type": "array", "items": _GPUS, "minItems": 1, "maxItems": parts.MAX_SIZES, "uniqueItems": True},
            _object({"min": _GPUS, "max": _GPUS}, ["min", "max"]),
        ],
    },
    "gpu_types": {
        "type": "array",
        "items": {**_TEXT, "maxLength": 64},
        "maxItems": 64,
        "uniqueItems": True,
        "nullable": True,
        "description": "Allowed types; missing or empty: any. An instance of MIG (`... MIG 1g.10gb`) takes jobs of one GPU.",
    },
    "cores_per_gpu": _whole(1, d.MAX_CORES, "CPU cores for each GPU."),
    "cores_exactly": _flag("Start with exactly `cores_per_gpu`, never with fewer, and keep them: no tuning."),
    "cores": _whole(1, d.MAX_CORES, "CPU jobs only: cores in all."),
    "memory_mib": _whole(1, d.MAX_MEMORY_MIB, "Host memory; a job that takes more is ended."),
    "disk_gib": {
        "type": "number",
        "minimum": 0,
        "exclusiveMinimum": True,
        "maximum": d.MAX_DISK_GIB,
        "nullable": True,
        "description": "What the job's directory, its logs and its checkpoints may take on each node's disk; a job that "
        "has more is ended as FAILED. Missing: the operator's default.",
    },
    "time_limit_s": _whole(1, d.MAX_SECONDS, "An attempt that runs longer is ended as TIMEOUT."),
    "idle_timeout_s": _whole(
        d.IDLE_LEAST_S,
        d.MAX_SECONDS,
        "An attempt that nobody and nothing uses for so long is ended as TIMEOUT, after a warning.",
    ),
    "grace_s": _whole(
        1,
        d.MAX_GRACE_S,
        "Seconds from SIGTERM to SIGKILL when it is to stop; missing: 30. The operator sets the most (`grace_most_s`). A job "
        "that did not stop in time is not resized again.",
    ),
    "batch_per_gpu": _whole(1, d.MAX_SMALL, "Stays the same when the number of GPUs changes."),
    "samples": _whole(1, d.MAX_COUNT, "Total samples of the training."),
    "epochs": _whole(1, d.MAX_COUNT, "With dataset_size, instead of samples."),
    "dataset_size": _whole(1, d.MAX_COUNT, "Samples in an epoch."),
    "learning_rate": {
        "nullable": True,
        "description": "One, one at a reference size with a rule, or one a size. Short: lr.",
        "oneOf": [
            _RATE,
            _object(
                {"at": _GPUS, "value": _RATE, "rule": {**_TEXT, "enum": list(parts.RATE_RULES)}},
                ["at", "value", "rule"],
            ),
            {"type": "object", "additionalProperties": _RATE, "minProperties": 1, "maxProperties": parts.MAX_SIZES},
        ],
    },
    "expected_duration_s": {
        "type": "number",
        "minimum": 0,
        "exclusiveMinimum": True,
        "maximum": d.MAX_SECONDS,
        "nullable": True,
    },
    "checkpointable": _flag("May be stopped by SIGTERM and resumed from its own checkpoint."),
    "restartable": _flag("May be started again from zero."),
    "retries": _whole(0, 100, "New attempts after FAILED or OUT_OF_MEMORY.", default=0),
    "max_requeues": _whole(0, 1000, "New attempts after NODE_FAIL.", default=5),
    "array": {
        **_object(
            {
                "size": {"type": "integer", "minimum": 1, "maximum": parts.MAX_ARRAY_SIZE},
                "concurrency": _whole(1, parts.MAX_ARRAY_SIZE, "Tasks unfinished at once; missing: no cap."),
            },
            ["size"],
        ),
        "nullable": True,
        "description": "That many tasks, each with its BERTH_ARRAY_INDEX.",
    },
    "depends_on": {
        "type": "array",
        "nullable": True,
        "maxItems": parts.MAX_DEPENDENCIES,
        "items": {
            "oneOf": [_ID, _object({"job": _ID, "kind": _KIND}, ["job"]), _object({"kind": _SINGLETON}, ["kind"])],
        },
        "description": "Starts once those jobs have completed (kind ok), ended (any), or ended without success (notok). "
        '`{"kind": "singleton"}`: once all earlier jobs of the same owner, tenant and name have ended.',
    },
    "shareable": _flag(
        "It may run beside other jobs on one GPU, with a part of it: needs `gpus` 1, `gpu_compute` and `gpu_memory_mib`. While "
        "the cluster has shared GPUs that could hold it, it runs on these; else on a GPU of its own."
    ),
    "gpu_compute": {
        "type": "number",
        "minimum": parts.LEAST_GPU_SHARE,
        "maximum": 1,
        "nullable": True,
        "description": "Of a shareable job: the share of the GPU's compute that it needs, to three digits.",
    },
    "gpu_memory_mib": _whole(1, d.MAX_SMALL, "Of a shareable job: GPU memory; a job that takes more is ended."),
    "latency_class": {
        **_TEXT,
        "enum": [*d.LATENCY_CLASSES, None],
        "nullable": True,
        "default": "batch",
        "description": "Of a shareable job. latency: somebody waits for its answers, so it never gets less than it asks for.",
    },
    "priority": _whole(-100, 100, "Orders the tenant's own jobs only; members up to 0, managers up to 100.", default=0),
}


class JobDescription(RawSchema):
    """The body of POST /jobs."""

    schema = {
        **_object(PROPERTIES, ["command"]),
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
