"""What a submit form's fields say, as the job description that REST takes; all that cannot be read is told at once.

`description_examine` is the one that judges it: here a text only becomes a number, a list or a mapping.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from portal.checks import lines_of
from portal.dashboard.parts.formatting import GIB_MIB
from portal.dashboard.submit.code import code_read
from portal.dashboard.submit.files import files_of
from portal.dashboard.submit.rates import learning_rate_of
from portal.dashboard.submit.software import software_read
from portal.errors import BerthError
from portal.jobs.description_parts import SINGLETON
from portal.jobs.fields.keeping import inputs_read

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from django.http import QueryDict

    from portal.dashboard.submit.files import Uploads


# form field -> description field; the others have the same name
FORM_OF = {
    "model": "model_label",
    "working_directory": "workdir",
    "heavy_between_iterations": "heavy",
    "batch_per_gpu": "batch_size",
    "expected_duration_s": "expected_s",
    "cores_per_gpu": "cores",
    "memory_mib": "memory",
    "disk_gib": "disk",
    "gpu_compute": "gpu_share",
    "gpu_memory_mib": "gpu_memory",
    "latency_class": "latency",
    "time_limit_s": "time_limit",
    "idle_timeout_s": "idle_timeout",
    "grace_s": "grace",
    "environment": "env",
    "depends_on": "dependencies",
    "array.size": "array",
    "array.concurrency": "array_limit",
    "code": "git_url",
    "code.git": "git_url",
    "code.ref": "git_ref",
    "code.secret": "git_secret",
    "code.path": "code_path",
    "software.requirements": "requirements",
    "software.requirements_file": "software_path",
    "software.path": "software_path",
    "software.image": "software_path",
    "software.environment": "software",
    "learning_rate.at": "learning_rate_at",
    "learning_rate.rule": "learning_rate_rule",
    "learning_rate.value": "learning_rate",
}
PLAIN = ("name", "tenant", "command", "model_label", "workdir", "category")
WHOLE = {"parameters": "parameters", "samples": "samples", "batch_size": "batch_per_gpu", "retries": "retries"}
CHECKS = {
    "pipelined": "pipelined",
    "heavy": "heavy_between_iterations",
    "instrumented": "instrumented",
    "checkpointable": "checkpointable",
    "restartable": "restartable",
    "cores_exactly": "cores_exactly",
    "shareable": "shareable",
}
_FIELD_OF = {form: field for field, form in FORM_OF.items() if "." not in field}
_DURATIONS = (
    ("time_limit", "time_limit_s", "h"),
    ("idle_timeout", "idle_timeout_s", "min"),
    ("expected_s", "expected_duration_s", "min"),
    ("grace", "grace_s", "s"),
)
"""Form field, description field, and the unit of a bare number."""
_DURATION_S = {"s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400}
_SIZE_MIB = {"mib": 1, "m": 1, "gib": 1024, "g": 1024, "gb": 1024, "mb": 1, "tib": 2**20, "t": 2**20, "tb": 2**20}


class Reading:
    """The description as far as it could be read, and one error for each field that could not."""

    def __init__(self) -> None:
        self.description: dict[str, Any] = {}
        self.problems: list[BerthError] = []

    def take(self, read: Callable[[], Mapping[str, Any]]) -> None:
        try:
            self.description.update(read())
        except BerthError as error:
            self.problems.append(error)


def description_read(post: QueryDict, uploads: Uploads | None = None) -> Reading:
    """Read every field. What cannot be read is left out of the description and stands in `problems`."""
    reading = Reading()
    for form in PLAIN:
        if value := post.get(form, "").strip():
            reading.description[_FIELD_OF.get(form, form)] = value
    for form, field in WHOLE.items():
        if value := post.get(form, "").strip():
            reading.take(partial(_named, field, partial(_whole, value, field)))
    for form, field in CHECKS.items():
        if post.get(form):
            reading.description[field] = True
    _gpus(post, reading)
    _limits(post, reading)
    _more(post, reading)
    reading.take(lambda: files_of(post, uploads))
    return reading


def _named(field: str, read: Callable[[], Any]) -> dict[str, Any]:
    return {field: read()}


def _duration_s(value: str, unit: str, field: str) -> int:
    return round(_measured(value, _DURATION_S, unit, field, "90 s, 30 min or 10 h"))


def _gpus(post: QueryDict, reading: Reading) -> None:
    mode = post.get("gpu_mode", "set")
    cores = post.get("cores", "").strip()
    if mode == "cpu":
        reading.description["gpus"] = 0
        reading.take(lambda: {"cores": _whole(cores, "cores") if cores else 1})
        return
    if cores:
        reading.take(lambda: {"cores_per_gpu": _whole(cores, "cores_per_gpu")})
    reading.take(lambda: {"gpus": _range(post) if mode == "range" else _set(post)})
    if types := [name for name in post.getlist("gpu_types") if name]:
        reading.description["gpu_types"] = types


def _range(post: QueryDict) -> dict[str, int]:
    low, high = (_whole(post.get(name, "").strip() or "0", "gpus") for name in ("gpus_min", "gpus_max"))
    return {"min": low, "max": high}


def _set(post: QueryDict) -> list[int]:
    found = sorted(_whole(value, "gpus") for value in post.getlist("gpus"))
    if not found:
        raise BerthError("required", "Tick at least one number of GPUs, or choose CPU only.", field="gpus")
    return found


def _limits(post: QueryDict, reading: Reading) -> None:
    if memory := post.get("memory", "").strip():
        reading.take(
            lambda: {"memory_mib": round(_measured(memory, _SIZE_MIB, "gib", "memory_mib", "24 GiB or 512 MiB"))}
        )
    if disk := post.get("disk", "").strip():
        reading.take(lambda: {"disk_gib": _measured(disk, _SIZE_MIB, "gib", "disk_gib", "50 GiB or 512 MiB") / GIB_MIB})
    _sharing(post, reading)
    for form, field, unit in _DURATIONS:
        if value := post.get(form, "").strip():
            reading.take(partial(_named, field, partial(_duration_s, value, unit, field)))
    if priority := post.get("priority", "").strip():
        reading.take(lambda: {"priority": _whole(priority, "priority")})


def _sharing(post: QueryDict, reading: Reading) -> None:
    if share := post.get("gpu_share", "").strip():
        reading.take(lambda: {"gpu_compute": _share(share)})
    if memory := post.get("gpu_memory", "").strip():
        reading.take(
            lambda: {"gpu_memory_mib": round(_measured(memory, _SIZE_MIB, "gib", "gpu_memory_mib", "4 GiB or 512 MiB"))}
        )
    if post.get("latency"):
        reading.description["latency_class"] = "latency"


def _share(text: str) -> float:
    """Read 25 % or 0.25."""
    try:
        return float(text.rstrip("% ")) / (100 if text.endswith("%") else 1)
    except ValueError:
        raise BerthError("wrong_type", "Write a share such as 25 % or 0.25.", field="gpu_compute") from None


def _more(post: QueryDict, reading: Reading) -> None:
    reading.description |= software_read(post) | code_read(post)
    reading.take(lambda: _array(post))
    if value := post.get("dependencies", "").strip():
        words = value.replace("#", " ").replace(",", " ").split()
        reading.take(lambda: {"depends_on": [_dependency(word) for word in words]})
    if value := post.get("inputs", "").strip():
        reading.take(lambda: {"inputs": inputs_read(value)})
    if patterns := [line.strip() for line in lines_of(post.get("artefacts", "")) if line.strip()]:
        reading.description["artefacts"] = patterns
    if texts := [line.strip() for line in lines_of(post.get("log_matches", "")) if line.strip()]:
        reading.description["log_matches"] = texts
    for form, field in (("env", "environment"), ("labels", "labels"), ("secrets", "secrets")):
        if value := post.get(form, "").strip():
            reading.take(partial(_named, field, partial(_pairs, value, field)))
    reading.take(lambda: learning_rate_of(post))


def _dependency(word: str) -> int | dict[str, Any]:
    """Read 12, any:12, notok:12 or singleton."""
    if word == SINGLETON:
        return {"kind": SINGLETON}
    kind, colon, number = word.rpartition(":")
    return {"job": _whole(number, "depends_on"), "kind": kind} if colon else _whole(word, "depends_on")


def dependencies_text(depends_on: Iterable[tuple[int, str]]) -> str:
    """Return what the form's field says for these."""
    words = (SINGLETON if not job else str(job) if kind == "ok" else f"{kind}:{job}" for job, kind in depends_on)
    return " ".join(words)


def _array(post: QueryDict) -> dict[str, Any]:
    size, cap = post.get("array", "").strip(), post.get("array_limit", "").strip()
    if not size:
        if cap:
            detail = "A limit of tasks is given without an array; fill in the number of tasks, or remove the limit."
            raise BerthError("required", detail, field="array.concurrency")
        return {}
    found = {"size": _whole(size, "array.size")}
    return {"array": found | ({"concurrency": _whole(cap, "array.concurrency")} if cap else {})}


def _whole(text: str, field: str) -> int:
    try:
        return int(text.replace("\u202f", "").replace(" ", ""))
    except ValueError:
        raise BerthError("invalid", f"{text[:30]!r} is not a whole number.", field=field) from None


def _measured(text: str, units: Mapping[str, int], default: str, field: str, example: str) -> float:
    """Read `24 GiB`, `10 h`, or a bare number in the default unit."""
    number = text.rstrip("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ ")
    unit = text[len(number) :].strip().lower() or default
    try:
        value = float(number.replace(" ", "").replace(",", "."))
    except ValueError:
        raise BerthError("invalid", f"{text[:30]!r} is not an amount; write it like {example}.", field=field) from None
    if unit not in units or not 0 < value < 1e12:
        raise BerthError("invalid", f"{text[:30]!r} is not an amount; write it like {example}.", field=field)
    return value * units[unit]


def _pairs(text: str, field: str) -> dict[str, str]:
    """Read NAME=value, each on a line of its own."""
    pairs = {}
    for line in lines_of(text):
        name, equals, value = line.partition("=")
        if not line.strip():
            continue
        if not equals:
            raise BerthError("invalid", f"{line[:40]!r}: write NAME=value, each on a line of its own.", field=field)
        pairs[name.strip()] = value
    return pairs


def form_field_of(error: BerthError) -> str | None:
    """Return the form's name of the field that an error names."""
    if error.field is None:
        return None
    if error.field in FORM_OF:
        return FORM_OF[error.field]
    if error.field == "upload":
        return "files"
    field = error.field.split(".", 1)[0].split("[", 1)[0]
    return FORM_OF.get(field, field)


def errors_of(problems: list[BerthError]) -> dict[str, str]:
    """Return each form field's first error; "" is the whole form's."""
    found: dict[str, str] = {}
    for problem in problems:
        found.setdefault(form_field_of(problem) or "", problem.detail)
    return found
