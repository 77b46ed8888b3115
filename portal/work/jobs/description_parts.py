"""The composed parts of a job description: files, environment, labels, requirement set, learning rate, dependencies."""

from __future__ import annotations

import base64
import binascii
import re
from typing import TYPE_CHECKING, Any

from portal.foundation import checks
from portal.foundation.errors import BerthError
from portal.work.uploads.manifest import folders_check

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

MAX_COMMAND_BYTES = 64 * 1024
MAX_FILES = 1000
MAX_FILES_BYTES = 1024 * 1024
MAX_PATH_CHARS = 1024
MAX_PATH_PART_BYTES = 255
MAX_VARIABLES = 1000
MAX_VARIABLE_BYTES = 128 * 1024 - 256
"""Linux refuses to start a program with a longer variable (MAX_ARG_STRLEN, 128 KiB with the name)."""
MAX_ENVIRONMENT_BYTES = 512 * 1024
MAX_LABELS = 16
MAX_GPUS = 65_536
MAX_SIZES = 64
MAX_DEPENDENCIES = 256
KINDS = ("ok", "any", "notok")
SINGLETON = "singleton"
MAX_ID = 2**63 - 1
MAX_LEARNING_RATE = 1e6
MAX_ARRAY_SIZE = 100_000
LEAST_GPU_SHARE = 0.05
RATE_RULES = ("linear", "sqrt", "none")

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_LABEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]{0,62}\Z")
_FORBIDDEN_VARIABLES = {"LD_PRELOAD", "LD_AUDIT", "CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES"}
"""Variables that would reach into the agent's side of a job, or hand it foreign GPUs. BERTH_* names are ours."""


def command(value: object) -> str:
    """Return the shell command or script with Unix line ends, as a browser's text field does not send them."""
    if not isinstance(value, str):
        raise checks.wrong_type(value, "command", "text")
    found = checks.text_safe(value, "command").replace("\r\n", "\n")
    if not found.strip():
        raise BerthError("blank", "`command` is blank; say what to run.", field="command")
    if len(found.encode()) > MAX_COMMAND_BYTES:
        detail = "`command` is longer than 64 KiB; put the script into `files` and call it from `command`."
        raise BerthError("too_long", detail, field="command")
    return found


def working_directory(value: object) -> str:
    """Return a path below the job's own directory, or an absolute one on the node. Code path_escape for `..`."""
    found = checks.text(value, "working_directory", max_chars=MAX_PATH_CHARS, blank=True)
    if ".." in found.split("/"):
        detail = (
            "`working_directory` leads upwards with `..`; give an absolute path, or one below the job's own directory."
        )
        raise BerthError("path_escape", detail, field="working_directory")
    return found


def files(value: object) -> dict[str, str]:
    """Return {relative name: base64}; a text is taken as UTF-8. At most 1 MiB in all (code too_large)."""
    found: dict[str, str] = {}
    total = 0
    for name, content in checks.mapping(value, "files", max_items=MAX_FILES).items():
        data = _file_content(_file_name(name), content)
        total += len(data)
        if total > MAX_FILES_BYTES:
            detail = "`files` holds more than 1 MiB in all; put larger input on storage that the nodes can read."
            raise BerthError("too_large", detail, field="files")
        found[name] = base64.b64encode(data).decode()
    folders_check(found)
    return found


def _file_name(name: str) -> str:
    try:
        checks.text(name, "files", max_chars=MAX_PATH_CHARS)
    except BerthError as error:  # which of a thousand files
        detail = error.detail.replace("`files`", f"The file name {checks.quoted(name)}", 1)
        raise BerthError(error.code, detail, field="files") from None
    parts = name.split("/")
    if ".." in parts or name.startswith("/"):
        detail = f"The file name {checks.quoted(name)} leaves the job's directory; use a relative name without `..`."
        raise BerthError("path_escape", detail, field="files")
    if any(part.strip() in {"", "."} or len(part.encode()) > MAX_PATH_PART_BYTES for part in parts):
        detail = f"The file name {checks.quoted(name)} is not a plain relative name such as `data/input.txt`."
        raise BerthError("bad_file_name", detail, field="files")
    return name


def _file_content(name: str, content: object) -> bytes:
    if isinstance(content, str):
        return checks.text_safe(content, "files").encode()
    if isinstance(content, dict) and set(content) == {"base64"} and isinstance(content["base64"], str):
        try:
            return base64.b64decode(content["base64"], validate=True)
        except (binascii.Error, ValueError):
            detail = f"The content of file {checks.quoted(name)} is not valid base64; encode it again."
            raise BerthError("invalid_base64", detail, field="files") from None
    detail = f'The content of file {checks.quoted(name)} must be text or {{"base64": "..."}}.'
    raise BerthError("wrong_type", detail, field="files")


def environment(value: object) -> dict[str, str]:
    """Return {name: value}. Code env_key_forbidden for names no shell takes, and for those Berth sets itself."""
    found: dict[str, str] = {}
    total = 0
    for name, content in checks.mapping(value, "environment", max_items=MAX_VARIABLES).items():
        variable_name(name)
        if not isinstance(content, str):
            raise BerthError(
                "wrong_type", f"The variable `{name}` must be text; write it in quotes.", field="environment"
            )
        size = len(name) + len(checks.text_safe(content, "environment").encode())
        total += size
        if size > MAX_VARIABLE_BYTES or total > MAX_ENVIRONMENT_BYTES:
            detail = "`environment` is too large (128 KiB a variable, 512 KiB in all); use `files` instead."
            raise BerthError("too_long", detail, field="environment")
        found[name] = content
    return found


def variable_name(name: str, field: str = "environment") -> None:
    if not _VARIABLE.match(name) or len(name) > MAX_PATH_PART_BYTES:
        detail = (
            f"{checks.quoted(name)} is no name of a variable; use letters, digits and `_`, not starting with a digit."
        )
    elif name in _FORBIDDEN_VARIABLES or name.startswith("BERTH_"):
        detail = f"`{name}` may not be set by a job: Berth or the node sets it; remove it."
    else:
        return
    raise BerthError("env_key_forbidden", detail, field=field)


def labels(value: object) -> dict[str, str]:
    """Return {name: value}; a list of names gives each an empty value."""
    if isinstance(value, (list, tuple)):
        names = checks.items(value, "labels", max_items=MAX_LABELS)
        value = {checks.text(name, "labels", max_chars=63): "" for name in names}
    found = checks.mapping(value, "labels", max_items=MAX_LABELS)
    for name in found:
        if not _LABEL.match(name):
            detail = (
                f"The label {checks.quoted(name)} is not 1 to 63 letters, digits and `._/-`, first a letter or digit."
            )
            raise BerthError("bad_label", detail, field="labels")
    return {name: checks.text(content, "labels", max_chars=255, blank=True) for name, content in found.items()}


def requirement_set(value: object, *, r_num: int) -> tuple[int, ...]:
    """Return the accepted GPU counts, ascending; (0,) is a CPU job (algorithms, sections 0 and 1)."""
    if isinstance(value, dict):
        return _range_cut(value, r_num)
    if not isinstance(value, (list, tuple)):
        if isinstance(value, str):
            raise checks.wrong_type(value, "gpus", 'a whole number, a list of them or {"min": ..., "max": ...}')
        return (checks.whole(value, "gpus", 0, MAX_GPUS),)
    sizes = [checks.whole(size, "gpus", 0, MAX_GPUS) for size in checks.items(value, "gpus", max_items=MAX_SIZES)]
    if not sizes:
        raise BerthError("blank", "`gpus` is an empty list; name a number of GPUs, or 0 for a CPU job.", field="gpus")
    if len(set(sizes)) != len(sizes):
        raise BerthError("duplicate", "`gpus` names a number twice; name each once.", field="gpus")
    if 0 in sizes and len(sizes) > 1:
        detail = "`gpus` mixes 0 with other numbers; a job runs either with GPUs or, as 0 alone, without."
        raise BerthError("conflict", detail, field="gpus")
    return tuple(sorted(sizes))


def _range_cut(value: dict[str, Any], r_num: int) -> tuple[int, ...]:
    """Cut [min, max] into at most `r_num` (>= 2) equally spaced whole numbers, both ends kept."""
    checks.known_keys(checks.mapping(value, "gpus", max_items=8), "gpus", required={"min", "max"})
    low = checks.whole(value["min"], "gpus.min", 1, MAX_GPUS)
    high = checks.whole(value["max"], "gpus.max", 1, MAX_GPUS)
    if low > high:
        raise BerthError("out_of_range", "`gpus.min` is greater than `gpus.max`; swap them.", field="gpus")
    steps = min(max(r_num, 2), high - low + 1) - 1
    if steps == 0:
        return (low,)
    return tuple(low + (2 * i * (high - low) + steps) // (2 * steps) for i in range(steps + 1))


def learning_rate(value: object, gpus: tuple[int, ...]) -> dict[str, Any]:
    """Return {"at", "value", "rule"} or {"1": rate, "2": rate} with one rate for each size of the requirement set."""
    if not isinstance(value, dict):
        rate = checks.number(value, "learning_rate", above=0, high=MAX_LEARNING_RATE)
        return {"at": max(gpus[0], 1), "value": rate, "rule": "none"}
    if gpus == (0,):
        raise BerthError("not_for_cpu_jobs", "`learning_rate` of a CPU job is one number.", field="learning_rate")
    if "value" in value or "at" in value or "rule" in value:
        return _reference_rate(value)
    rates = checks.mapping(value, "learning_rate", max_items=MAX_SIZES)
    if set(rates) != {str(size) for size in gpus}:
        wanted = ", ".join(f'"{size}"' for size in gpus)
        detail = f"`learning_rate` must give one rate for each number of GPUs: {wanted}."
        raise BerthError("conflict", detail, field="learning_rate")
    return {
        str(size): checks.number(rates[str(size)], f"learning_rate.{size}", above=0, high=MAX_LEARNING_RATE)
        for size in gpus
    }


def _reference_rate(value: dict[str, Any]) -> dict[str, Any]:
    found = checks.mapping(value, "learning_rate", max_items=8)
    checks.known_keys(found, "learning_rate", required={"at", "value", "rule"})
    return {
        "at": checks.whole(found["at"], "learning_rate.at", 1, MAX_GPUS),
        "value": checks.number(found["value"], "learning_rate.value", above=0, high=MAX_LEARNING_RATE),
        "rule": checks.choice(found["rule"], "learning_rate.rule", RATE_RULES),
    }


def depends_on(value: object) -> tuple[tuple[int, str], ...]:
    """Return ((job id, kind), ...); a bare id means kind ok: that job has to complete. `{"kind": "singleton"}` is (0, "single"):
    one after the other with all of its owner's jobs of its name.
    """
    found: list[tuple[int, str]] = []
    for entry in checks.items(value, "depends_on", max_items=MAX_DEPENDENCIES):
        if isinstance(entry, dict):
            checks.mapping(entry, "depends_on", max_items=8)
            if entry == {"kind": SINGLETON}:
                found.append((0, "single"))
                continue
            checks.known_keys(entry, "depends_on", required={"job"}, optional={"kind"})
            kind = "ok" if entry.get("kind") is None else checks.choice(entry["kind"], "depends_on.kind", KINDS)
            found.append((checks.whole(entry["job"], "depends_on.job", 1, MAX_ID), kind))
        else:
            found.append((checks.whole(entry, "depends_on", 1, MAX_ID), "ok"))
    if len({job for job, _ in found}) != len(found):
        raise BerthError("duplicate", "`depends_on` names a job twice; name each once.", field="depends_on")
    return tuple(found)


def array(value: object) -> tuple[int, int | None]:
    """Return (size, concurrency); concurrency None lets all tasks run at once."""
    found = checks.mapping(value, "array", max_items=8)
    checks.known_keys(found, "array", required={"size"}, optional={"concurrency"})
    size = checks.whole(found["size"], "array.size", 1, MAX_ARRAY_SIZE)
    concurrency = found.get("concurrency")
    return size, None if concurrency is None else checks.whole(concurrency, "array.concurrency", 1, MAX_ARRAY_SIZE)


def gpu_types(value: object) -> tuple[str, ...]:
    names = [checks.text(name, "gpu_types", max_chars=64) for name in checks.items(value, "gpu_types", max_items=64)]
    if len(set(names)) != len(names):
        raise BerthError("duplicate", "`gpu_types` names a type twice; name each once.", field="gpu_types")
    return tuple(names)


def gpu_compute(value: object, field: str = "gpu_compute") -> int:
    """Return thousandths of a GPU from a share such as 0.25."""
    share = checks.number(value, field, above=0, high=1)
    if share < LEAST_GPU_SHARE:
        raise BerthError("out_of_range", f"`{field}` is a share of the GPU from {LEAST_GPU_SHARE} to 1.", field=field)
    return round(1000 * share)


SHARING = ("gpu_compute", "gpu_memory_mib")


def sharing_mismatches(values: Mapping[str, Any]) -> Iterator[BerthError]:
    """Yield the faults in how it shares a GPU: one GPU, and both parts of it, or none of these fields."""
    if not values.get("shareable"):
        for name in (*SHARING, "latency_class"):
            if values.get(name) not in (None, "batch"):
                detail = f"`{name}` is for a job that shares a GPU; set `shareable` to true, or remove it."
                yield BerthError("only_for_shareable_jobs", detail, field=name)
        return
    if values["gpus"] != (1,):
        detail = "A `shareable` job runs on a part of one GPU; set `gpus` to 1, or leave `shareable` out."
        yield BerthError("needs_one_gpu", detail, field="shareable")
    for name, example in zip(SHARING, ("0.25 for a quarter of the GPU's compute", "4096"), strict=True):
        if values.get(name) is None:
            detail = f"A `shareable` job says how much of the GPU it needs; give `{name}`, for example {example}."
            yield BerthError("required", detail, field=name)
