"""The submit form: what it asks, and the values that its fields begin with.

`reading` reads what was filled in.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from portal.dashboard.submit.rates import rate_fields, rate_values
from portal.dashboard.submit.reading import FORM_OF
from portal.environment import env

if TYPE_CHECKING:
    from collections.abc import Mapping

    from django.http import QueryDict

    from portal.dashboard.parts.context import Choice, FieldContext

GIB_MIB = 1024
GPU_COUNTS = (1, 2, 4, 8, 16)
CATEGORIES = ("cv", "nlp", "speech", "other", "")
MODES = {"set": "Set", "range": "Range", "cpu": "CPU only"}


def initial_of(description: Mapping[str, Any]) -> dict[str, Any]:
    """Return form values for a description, to edit and relaunch it."""
    values: dict[str, Any] = {FORM_OF.get(field, field): value for field, value in description.items()}
    gpus = description.get("gpus", [1])
    values["gpu_mode"] = "range" if isinstance(gpus, dict) else "cpu" if gpus in (0, [0]) else "set"
    if isinstance(gpus, dict):
        values |= {"gpus_min": gpus.get("min"), "gpus_max": gpus.get("max"), "gpus": []}
    else:
        values["gpus"] = gpus if isinstance(gpus, list) else [gpus]
    if mib := description.get("memory_mib"):
        values["memory"] = f"{mib / GIB_MIB:g} GiB" if mib % GIB_MIB == 0 else f"{mib} MiB"
    if gib := description.get("disk_gib"):
        values["disk"] = f"{gib:g} GiB"
    for field, form in (("time_limit_s", "time_limit"), ("expected_duration_s", "expected_s")):
        if seconds := description.get(field):
            values[form] = f"{seconds / 3600:g} h" if seconds >= 3600 else f"{seconds:g} s"
    if isinstance(array := description.get("array"), dict):
        values |= {"array": array.get("size"), "array_limit": array.get("concurrency")}
    for form, field in (("env", "environment"), ("labels", "labels")):
        if isinstance(pairs := description.get(field), dict):
            values[form] = "\n".join(f"{name}={value}" for name, value in pairs.items())
    return values | rate_values(description.get("learning_rate", description.get("lr")))


def initial_of_post(post: QueryDict) -> dict[str, Any]:
    values: dict[str, Any] = {name: post.get(name, "") for name in post}
    values["gpus"] = [int(v) for v in post.getlist("gpus") if v.isascii() and v.isdigit() and len(v) < 6]
    values["gpu_types"] = post.getlist("gpu_types")
    return values


def usual_disk() -> str:
    """What a job gets whose form leaves the limit of disk empty."""
    gib = env("BERTH_JOB_DISK_GIB")
    return f"{gib} GiB" if gib else "no limit"


def fields_make(
    values: Mapping[str, Any],
    *,
    tenants: list[str],
    gpu_types: list[str],
    errors: Mapping[str, str],
    effects: Mapping[str, str],
) -> dict[str, FieldContext]:
    """Return every field with its value, its error if it has one, and its help."""

    def text(name: str, label: str, width: int, help_text: str = "", **more: Any) -> FieldContext:
        value = values.get(name)
        field: FieldContext = {
            "name": name,
            "label": label,
            "kind": "text",
            "value": "" if value is None or isinstance(value, (list, dict)) else str(value),
            "help": help_text,
            "error": errors.get(name),
            "width": width,
        }
        return {**field, **more}

    def check(name: str, label: str, help_text: str) -> FieldContext:
        return text(name, label, 6, help_text, kind="check", checked=bool(values.get(name)), effect=effects.get(name))

    def choice(value: str, label: str, chosen: bool, note: str = "") -> Choice:
        found: Choice = {"value": value, "label": label, "selected": chosen}
        return found | {"note": note} if note else found

    types = values.get("gpu_types") or []
    return {
        "name": text("name", "Name", 5, placeholder="from the command"),
        "model_label": text("model_label", "Model label", 4, "Jobs with one label share measured throughput."),
        "tenant": text(
            "tenant", "Tenant", 3, kind="select", choices=[choice(t, t, values.get("tenant") == t) for t in tenants]
        ),
        "command": text(
            "command",
            "Command",
            8,
            "Run by /bin/sh on the node.",
            kind="textarea",
            mono=True,
            required=True,
            placeholder="python train.py --epochs 30",
        ),
        "workdir": text("workdir", "Working directory", 4, "Empty: the job's own directory.", mono=True),
        "category": text(
            "category",
            "Category",
            12,
            kind="cards",
            choices=[
                choice(c, c or "none", (values.get("category") or "") == c, effects.get(f"category:{c}", ""))
                for c in CATEGORIES
            ],
        ),
        "pipelined": check("pipelined", "Pipelined", "Loads the next batch while the GPU computes."),
        "heavy": check("heavy", "Heavy work between iterations", "Augmentation or evaluation on the CPU."),
        "instrumented": check(
            "instrumented",
            "Records its iterations",
            "With berth_instrument. With several sizes it is first profiled on one idle GPU of each type, for a minute at most.",
        ),
        "checkpointable": check(
            "checkpointable", "Checkpointable", "May be stopped and resumed; saves on SIGTERM within 30 s."
        ),
        "restartable": check("restartable", "Restartable", "May be started again from zero after a node is lost."),
        "parameters": text("parameters", "Model parameters", 4, effects.get("parameters", ""), kind="number"),
        "gpu_types": text(
            "gpu_types",
            "GPU types",
            3,
            kind="select",
            choices=[choice("", "any", not types)] + [choice(t, t, t in types) for t in gpu_types],
        ),
        "batch_size": text("batch_size", "Batch a GPU", 3, "Stays the same at every size.", kind="number"),
        "samples": text("samples", "Total samples", 3, kind="number"),
        **rate_fields(values, text, choice),
        "expected_s": text("expected_s", "Expected duration", 3, "As 40 min or 6 h; helps to rank it."),
        "cores": text("cores", "CPU cores a GPU", 3, effects.get("cores", "CPU only: in all."), kind="number"),
        "memory": text("memory", "Memory", 3, "As 24 GiB; more ends the job.", placeholder="no limit"),
        "disk": text(
            "disk", "Disk", 3, "As 50 GiB: its files, logs, checkpoints; more ends the job.", placeholder=usual_disk()
        ),
        "time_limit": text("time_limit", "Time limit", 3, "As 10 h or 30 min.", placeholder="none"),
        "priority": text(
            "priority", "Priority", 3, "Orders only your tenant's own jobs.", kind="number", placeholder="0"
        ),
        "retries": text("retries", "Retries", 3, "Started again after a failure.", kind="number", placeholder="0"),
        "array": text("array", "Array of", 3, "Tasks; each gets BERTH_ARRAY_INDEX.", kind="number"),
        "array_limit": text("array_limit", "At once", 3, "At most so many tasks.", kind="number"),
        "dependencies": text("dependencies", "After jobs", 6, "Ids; it starts when they have completed.", mono=True),
        "labels": text("labels", "Labels", 6, "NAME=value, one a line.", kind="textarea", mono=True),
        "env": text("env", "Environment", 6, "NAME=value, one a line.", kind="textarea", mono=True),
    }
