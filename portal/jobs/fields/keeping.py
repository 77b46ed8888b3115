"""Checks of the fields `artefacts` and `inputs` of a job description."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from portal import checks
from portal.errors import BerthError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

MAX_PATTERNS, MAX_INPUTS, MAX_PATH_CHARS = 32, 32, 1024
MAX_ID = 2**63 - 1


def _relative(value: object, field: str) -> str:
    found = checks.text(value, field, max_chars=MAX_PATH_CHARS)
    if any(name in {"", ".", ".."} for name in found.split("/")) or "\\" in found:
        detail = (
            f"`{field}` must be a path such as out/best.pt: relative, without empty names, `.`, `..` or backslashes."
        )
        raise BerthError("bad_path", detail, field=field.split(".", maxsplit=1)[0])
    return found


def artefact_patterns(value: object) -> tuple[str, ...]:
    """Return patterns of files to keep, relative to the working directory: `out/*.pt`, `**` for any folders."""
    found = [_relative(each, "artefacts") for each in checks.items(value, "artefacts", max_items=MAX_PATTERNS)]
    if any(pattern.count("**") > 1 for pattern in found):
        raise BerthError("bad_path", "A pattern in `artefacts` may have `**` once.", field="artefacts")
    return tuple(found)


def job_inputs(value: object) -> tuple[tuple[int, str, str], ...]:
    """Return (job id, path of its artefact, path in the new job's directory), the last by default the file's name."""
    found = []
    for entry in checks.items(value, "inputs", max_items=MAX_INPUTS):
        each = checks.mapping(entry, "inputs", max_items=8)
        checks.known_keys(each, "inputs", required={"job", "path"}, optional={"as"})
        path = _relative(each["path"], "inputs.path")
        target = path.rpartition("/")[2] if each.get("as") is None else _relative(each["as"], "inputs.as")
        found.append((checks.whole(each["job"], "inputs.job", 1, MAX_ID), path, target))
    if len({target for _, _, target in found}) != len(found):
        raise BerthError("duplicate", "Two `inputs` have one name; give each its own with `as`.", field="inputs")
    return tuple(found)


def keeping_mismatches(values: Mapping[str, Any]) -> Iterator[BerthError]:
    if values.get("artefacts") and (values.get("working_directory") or "").startswith("/"):
        detail = "`artefacts` are patterns in the job's own directory; with an absolute one, write to $BERTH_ARTEFACTS."
        yield BerthError("not_with_absolute_directory", detail, field="artefacts")
    for _, _, target in values.get("inputs", ()):
        if target in (values.get("files") or {}):
            yield BerthError("duplicate", f"`inputs` and `files` both have {checks.quoted(target)}.", field="inputs")
