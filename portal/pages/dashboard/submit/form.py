"""The submit form: its fields, and the values that they begin with.

`reading` reads what was filled in.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from portal.foundation.environment import env
from portal.pages.dashboard.parts.formatting import GIB_MIB
from portal.pages.dashboard.parts.plain import sizes_gpus
from portal.pages.dashboard.submit.apart import (
    RULES,
    code_values,
    rate_values,
    secret_choices,
    secrets_help,
    software_choices,
    software_help,
    software_values,
)
from portal.pages.dashboard.submit.reading import mode_of
from portal.work.jobs.declaration.table import BY_NAME, INPUTS
from portal.work.jobs.description import SHORT_NAMES
from portal.work.jobs.fields.keeping import inputs_text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from django.http import QueryDict

    from portal.pages.dashboard.parts.context import Choice, FieldContext
    from portal.work.jobs.declaration.table import Input, JobField

GPU_COUNTS = (1, 2, 4, 8)
KINDS_OF_WORK = {"": "Not said", "cv": "Images", "nlp": "Text", "speech": "Speech", "cpu": "CPU work", "other": "Other"}


def initial_of(description: Mapping[str, Any]) -> dict[str, Any]:
    """Return form values for a description, to edit and relaunch it."""
    given = {SHORT_NAMES.get(name, name): value for name, value in description.items() if value is not None}
    if "epochs" in given and "dataset_size" in given:
        given["samples"] = given["epochs"] * given["dataset_size"]
    values: dict[str, Any] = {
        name: write_value(BY_NAME[name], value) if name in BY_NAME else value for name, value in given.items()
    }
    gpus = given.get("gpus", 0 if given else 1)
    values["gpu_mode"] = "range" if isinstance(gpus, dict) else "cpu" if gpus in (0, [0]) else "set"
    if isinstance(gpus, dict):
        values |= {"gpus.min": _whole(gpus.get("min")), "gpus.max": _whole(gpus.get("max")), "gpus": []}
    else:
        values["gpus"] = [_whole(each) for each in (gpus if isinstance(gpus, list) else [gpus])]
    if isinstance(array := given.get("array"), dict):
        values |= {f"array.{part}": _whole(array.get(part)) for part in ("size", "concurrency")}
    values |= code_values(given.get("code")) | {"software": "", **software_values(given.get("software"))}
    return values | rate_values(given.get("learning_rate"))


def write_value(field: JobField, value: Any) -> Any:
    """Return a value of the description as the field's one control says it."""
    if field.name in WRITTEN:
        return WRITTEN[field.name](value)
    if field.kind == "lines":
        return "\n".join(map(str, value)) if isinstance(value, list) else ""
    if field.kind == "pairs" and isinstance(value, dict | list):
        pairs = value.items() if isinstance(value, dict) else ((name, "") for name in value)
        return "\n".join(f"{name}={each}" for name, each in pairs)
    if field.kind == "choice" and field.form[0].widget == "check":
        return value == field.choices[-1]
    return _amount(field, value) if field.unit and value is not None else _whole(value)


def _whole(value: Any) -> Any:
    """Return 64 for 64.0, which REST takes too."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _amount(field: JobField, value: float) -> str:
    if field.unit == "share":
        return f"{100 * value:g} %"
    if field.unit == "gib":
        return f"{value:.15g} GiB" if field.name.endswith("_gib") else _size(int(value))
    hours = f"{value / 3600:g}"
    if value >= 3600 and float(hours) * 3600 == value:
        return f"{hours} h"
    return f"{value / 60:.0f} min" if value >= 60 and value % 60 == 0 else f"{value:.15g} s"


def dependencies_text(depends_on: object) -> str:
    """Return the form's value for the `depends_on` of a description."""
    found = []
    for each in depends_on if isinstance(depends_on, list) else []:
        job, kind = (each.get("job"), each.get("kind") or "ok") if isinstance(each, dict) else (each, "ok")
        found.append(str(job) if kind == "ok" else f"{kind}:{job}" if job else kind)
    return " ".join(found)


WRITTEN: Mapping[str, Callable[[object], str]] = {"inputs": inputs_text, "depends_on": dependencies_text}


def _size(mib: int) -> str:
    return f"{mib // GIB_MIB} GiB" if mib % GIB_MIB == 0 else f"{mib} MiB"


def initial_of_post(post: QueryDict) -> dict[str, Any]:
    values: dict[str, Any] = {name: post.get(name, "") for name in post}
    values["gpus"] = [int(v) for v in post.getlist("gpus") if v.isascii() and v.isdigit() and len(v) < 6]
    values["gpu_types"] = post.getlist("gpu_types")
    return values | {"gpu_mode": mode_of(post)}


def gpus_context(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the counts to press, one of which is chosen, and the others that the job may also run on."""
    chosen = sorted({int(v) for v in values.get("gpus") or []} - {0})
    mode = values.get("gpu_mode", "set")
    first = 0 if mode == "cpu" else chosen[0] if chosen and mode == "set" else None
    counts = sorted({*GPU_COUNTS, *chosen})
    return {
        "counts": [{"value": n, "label": str(n or "None"), "selected": n == first} for n in (0, *counts)],
        "also": [{"value": n, "label": str(n), "selected": n in chosen[1:]} for n in counts],
        "min": str(values.get("gpus.min") or ""),
        "max": str(values.get("gpus.max") or ""),
    }


def accepted_words(values: Mapping[str, Any]) -> str:
    """As: always 1 GPU; 1, 2 or 4 GPUs; 1 to 8 GPUs; no GPU."""
    mode, chosen = values.get("gpu_mode"), sorted({int(v) for v in values.get("gpus") or []} - {0})
    if mode == "cpu":
        return "no GPU"
    if mode == "range":
        low, high = (str(values.get(f"gpus.{name}") or "?")[:9] for name in ("min", "max"))
        return f"{low} to {high} GPUs"
    if not chosen:
        return "no number of GPUs"
    return f"{'always ' if len(chosen) == 1 else ''}{sizes_gpus(chosen)}"


def usual_disk() -> str:
    """Return the limit of disk for a job whose form leaves it empty."""
    gib = env("BERTH_JOB_DISK_GIB")
    return f"{gib} GiB" if gib else "no limit"


def fields_make(
    values: Mapping[str, Any],
    *,
    tenants: list[str],
    gpu_types: list[str],
    software: Sequence[Mapping[str, Any]],
    secrets: Sequence[str],
    errors: Mapping[str, str],
    effects: Mapping[str, str],
) -> dict[str, FieldContext]:
    """Return every field with its value, its error if it has one, and its help."""
    types, rule = values.get("gpu_types") or [], values.get("learning_rate.rule") or "none"
    choices = {
        "tenant": [_choice(name, name, values.get("tenant") == name) for name in tenants],
        "category": [
            _choice(name, _kind_words(name, effects), (values.get("category") or "") == name) for name in KINDS_OF_WORK
        ],
        "code.secret": secret_choices(str(values.get("code.secret") or ""), secrets),
        "software": software_choices(str(values.get("software") or ""), software),
        "gpu_types": [
            _choice("", "of any type", not types),
            *(_choice(name, name, name in types) for name in gpu_types),
        ],
        "learning_rate.rule": [_choice(each, f"{each}: {says}", each == rule) for each, says in RULES.items()],
    }
    found: dict[str, FieldContext] = {}
    for name, each in INPUTS.items():
        made = found[name] = _field(each, values.get(name), errors.get(name))
        if name in choices:
            made["choices"] = choices[name]
        if each.widget == "check":
            made |= {"checked": bool(values.get(name)), "effect": effects.get(name)}
        elif name in effects:
            made["help"] = effects[name]
    found["disk_gib"]["placeholder"] = usual_disk()
    found["software"]["help"] = software_help(software)
    found["secrets"]["help"] = secrets_help(secrets)
    return found


def _kind_words(name: str, effects: Mapping[str, str]) -> str:
    cores = effects.get(f"category:{name}")
    return f"{KINDS_OF_WORK[name]} ({cores})" if cores else KINDS_OF_WORK[name]


def _field(each: Input, value: Any, error: str | None) -> FieldContext:
    return {
        "name": each.name,
        "label": each.label,
        "kind": each.widget,
        "value": "" if value is None or isinstance(value, (list, dict)) else str(value),
        "help": each.help,
        "error": error,
        "width": each.width,
        "mono": each.mono,
        "required": each.required,
        "placeholder": each.placeholder,
    }


def _choice(value: str, label: str, selected: bool) -> Choice:
    return {"value": value, "label": label, "selected": selected}
