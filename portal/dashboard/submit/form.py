"""The submit form: what it asks, and the values that its fields begin with.

`reading` reads what was filled in.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from portal.dashboard.parts.formatting import GIB_MIB
from portal.dashboard.submit.code import code_values, secret_choices, secrets_help
from portal.dashboard.submit.rates import RULES, rate_values
from portal.dashboard.submit.reading import FORM_OF
from portal.dashboard.submit.software import software_choices, software_help, software_values
from portal.dashboard.submit.table import FIELDS
from portal.environment import env
from portal.jobs.fields.keeping import inputs_text
from portal.rounds.read.selectors import CATEGORIES

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from django.http import QueryDict

    from portal.dashboard.parts.context import Choice, FieldContext
    from portal.dashboard.submit.table import Field

GPU_COUNTS = (1, 2, 4, 8, 16)
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
        values["memory"] = _size(mib)
    if gib := description.get("disk_gib"):
        values["disk"] = f"{gib:g} GiB"
    for field, form in (
        ("time_limit_s", "time_limit"),
        ("idle_timeout_s", "idle_timeout"),
        ("expected_duration_s", "expected_s"),
        ("grace_s", "grace"),
    ):
        if seconds := description.get(field):
            values[form] = f"{seconds / 3600:g} h" if seconds >= 3600 else f"{seconds:g} s"
    if isinstance(array := description.get("array"), dict):
        values |= {"array": array.get("size"), "array_limit": array.get("concurrency")}
    for form, field in (("env", "environment"), ("labels", "labels"), ("secrets", "secrets")):
        if isinstance(pairs := description.get(field), dict):
            values[form] = "\n".join(f"{name}={value}" for name, value in pairs.items())
    values |= {"inputs": inputs_text(description.get("inputs")), "artefacts": _lines(description.get("artefacts"))}
    values["log_matches"] = _lines(description.get("log_matches"))
    values |= code_values(description.get("code")) | {"software": "", **software_values(description.get("software"))}
    values |= rate_values(description.get("learning_rate", description.get("lr")))
    return values | _sharing_values(description)


def _sharing_values(description: Mapping[str, Any]) -> dict[str, Any]:
    share, mib = description.get("gpu_compute"), description.get("gpu_memory_mib")
    return {
        "gpu_share": "" if share is None else f"{100 * share:g} %",
        "gpu_memory": _size(mib) if mib else "",
        "latency": description.get("latency_class") == "latency",
    }


def _lines(patterns: Any) -> str:
    return "\n".join(map(str, patterns)) if isinstance(patterns, list) else ""


def _size(mib: int) -> str:
    return f"{mib / GIB_MIB:g} GiB" if mib % GIB_MIB == 0 else f"{mib} MiB"


def initial_of_post(post: QueryDict) -> dict[str, Any]:
    values: dict[str, Any] = {name: post.get(name, "") for name in post}
    values["gpus"] = [int(v) for v in post.getlist("gpus") if v.isascii() and v.isdigit() and len(v) < 6]
    values["gpu_types"] = post.getlist("gpu_types")
    return values


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
    choices = {
        "tenant": [_choice(name, name, values.get("tenant") == name) for name in tenants],
        "category": [
            _choice(name, name or "none", (values.get("category") or "") == name, effects.get(f"category:{name}", ""))
            for name in CATEGORIES
        ],
        "git_secret": secret_choices(str(values.get("git_secret") or ""), secrets),
        "software": software_choices(str(values.get("software") or ""), software),
        "gpu_types": _type_choices(values.get("gpu_types") or [], gpu_types),
        "learning_rate_rule": _rule_choices(values.get("learning_rate_rule") or "none"),
    }
    found: dict[str, FieldContext] = {}
    for field in FIELDS:
        made = _field(field, values.get(field.name), errors.get(field.name))
        if field.name in choices:
            made["choices"] = choices[field.name]
        if field.kind == "check":
            made |= {"checked": bool(values.get(field.name)), "effect": effects.get(field.name)}
        elif field.name in effects:
            made["help"] = effects[field.name]
        found[field.name] = made
    found["disk"]["placeholder"] = usual_disk()
    found["software"]["help"] = software_help(software)
    found["secrets"]["help"] = secrets_help(secrets)
    return found


def _field(field: Field, value: Any, error: str | None) -> FieldContext:
    made: FieldContext = {
        "name": field.name,
        "label": field.label,
        "kind": field.kind,
        "value": "" if value is None or isinstance(value, (list, dict)) else str(value),
        "help": field.help,
        "error": error,
        "width": field.width,
        "mono": field.mono,
        "required": field.required,
    }
    if field.placeholder:
        made["placeholder"] = field.placeholder
    return made


def _choice(value: str, label: str, selected: bool, note: str = "") -> Choice:
    found: Choice = {"value": value, "label": label, "selected": selected}
    if note:
        found["note"] = note
    return found


def _type_choices(chosen: Collection[str], known: list[str]) -> list[Choice]:
    return [_choice("", "any", not chosen), *(_choice(name, name, name in chosen) for name in known)]


def _rule_choices(chosen: str) -> list[Choice]:
    return [_choice(rule, f"{rule}: {says}", rule == chosen) for rule, says in RULES.items()]
