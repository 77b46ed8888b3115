"""The fields of a submit form as the job description that REST takes; all mistakes are answered at once.

`description_examine` is the one that judges it: here a text only becomes a number, a list or a mapping.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from portal.foundation.checks import lines_of
from portal.foundation.errors import BerthError
from portal.pages.dashboard.parts.formatting import GIB_MIB
from portal.pages.dashboard.submit.apart import code_read, learning_rate_of, software_read
from portal.pages.dashboard.submit.files import files_of
from portal.work.jobs.declaration.table import BY_NAME, INPUTS, TABLE
from portal.work.jobs.description_parts import SINGLETON
from portal.work.jobs.fields.keeping import inputs_read

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from django.http import QueryDict

    from portal.pages.dashboard.submit.files import Uploads
    from portal.work.jobs.declaration.table import JobField


SECONDS = {"s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400}
MIB = {"mib": 1, "m": 1, "gib": 1024, "g": 1024, "gb": 1024, "mb": 1, "tib": 2**20, "t": 2**20, "tb": 2**20}
APART = frozenset(
    {"gpus", "gpu_types", "cores", "cores_per_gpu", "cores_exactly", "code", "software", "learning_rate", "array"}
)
"""Fields whose control depends on another one, or that have several."""
SHOWN_AT = {"software.image": "software.path", "software.requirements_file": "software.path", "upload": "files"}
"""Parts of a field that the form asks for in the control of another part."""


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
    """Read every field. A mistake is left out of the description and stands in `problems`."""
    reading = Reading()
    for field in TABLE:
        if field.form and field.name not in APART:
            reading.take(partial(_given, field, post))
    _gpus(post, reading)
    reading.description |= software_read(post) | code_read(post)
    for read in (_array, learning_rate_of):
        reading.take(partial(read, post))
    reading.take(lambda: files_of(post, uploads))
    return reading


def _given(field: JobField, post: QueryDict) -> dict[str, Any]:
    text = post.get(field.name, "").strip()
    value = read_text(field, text) if text else None
    return {} if value is None else {field.name: value}


def read_text(field: JobField, text: str) -> Any:
    """Return the value of a field's one control, as REST takes it; None for nothing."""
    name = field.name
    if name in OWN:
        return OWN[name](text)
    match field.kind:
        case "flag":
            return True
        case "choice" if field.form[0].widget == "check":
            return field.choices[-1]
        case "lines":
            return [line.strip() for line in lines_of(text) if line.strip()]
        case "pairs":
            return _pairs(text, name)
    if field.unit == "gib":
        mib = _measured(text, MIB, "gib", name, "24 GiB or 512 MiB")
        return round(mib) if name.endswith("_mib") else mib / GIB_MIB
    if field.unit:
        seconds = _measured(text, SECONDS, field.unit, name, "90 s, 30 min or 10 h")
        return seconds if field.kind == "number" and not seconds.is_integer() else round(seconds)
    return _whole(text, name) if field.kind == "whole" else text


def mode_of(post: QueryDict) -> str:
    """Return how the form asks for GPUs: cpu, range or set."""
    if "0" in post.getlist("gpus"):
        return "cpu"
    has_range = any(post.get(name, "").strip() for name in ("gpus.min", "gpus.max"))
    return "range" if has_range else post.get("gpu_mode", "set")


def _gpus(post: QueryDict, reading: Reading) -> None:
    mode = mode_of(post)
    if mode == "cpu":
        reading.description["gpus"] = 0
        reading.take(lambda: {"cores": 1} | _given(BY_NAME["cores"], post))
        return
    for name in ("cores_per_gpu", "cores_exactly"):
        reading.take(partial(_given, BY_NAME[name], post))
    reading.take(lambda: {"gpus": _range(post) if mode == "range" else _set(post)})
    if types := [name for name in post.getlist("gpu_types") if name]:
        reading.description["gpu_types"] = types


def _range(post: QueryDict) -> dict[str, int]:
    low, high = (_whole(post.get(name, "").strip() or "0", "gpus") for name in ("gpus.min", "gpus.max"))
    return {"min": low, "max": high}


def _set(post: QueryDict) -> list[int]:
    found = sorted(_whole(value, "gpus") for value in post.getlist("gpus"))
    if not found:
        raise BerthError("required", "Choose a number of GPUs, or None.", field="gpus")
    return found


def _share(text: str) -> float:
    """Read 25 % or 0.25."""
    try:
        return float(text.rstrip("% ")) / (100 if text.endswith("%") else 1)
    except ValueError:
        raise BerthError("wrong_type", "Write a share such as 25 % or 0.25.", field="gpu_compute") from None


def _dependency(word: str) -> int | dict[str, Any]:
    """Read 12, any:12, notok:12 or singleton."""
    if word == SINGLETON:
        return {"kind": SINGLETON}
    kind, colon, number = word.rpartition(":")
    return {"job": _whole(number, "depends_on"), "kind": kind} if colon else _whole(word, "depends_on")


def _dependencies(text: str) -> list[int | dict[str, Any]]:
    return [_dependency(word) for word in text.replace("#", " ").replace(",", " ").split()]


OWN: dict[str, Callable[[str], Any]] = {"gpu_compute": _share, "depends_on": _dependencies, "inputs": inputs_read}


def _array(post: QueryDict) -> dict[str, Any]:
    size, cap = (post.get(f"array.{part}", "").strip() for part in ("size", "concurrency"))
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
    """Return the name of the control at which an error stands."""
    if error.field is None or error.field in INPUTS:
        return error.field
    if error.field in SHOWN_AT:
        return SHOWN_AT[error.field]
    name = error.field.split(".", 1)[0].split("[", 1)[0]
    inputs = BY_NAME[name].form if name in BY_NAME else ()
    return (inputs[0].name or name) if inputs else name


def errors_of(problems: list[BerthError]) -> dict[str, str]:
    """Return each control's first error; "" is the whole form's."""
    found: dict[str, str] = {}
    for problem in problems:
        found.setdefault(form_field_of(problem) or "", problem.detail)
    return found
