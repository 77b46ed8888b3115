"""Checks of the fields `artefacts`, `inputs` and `log_matches` of a job description; a form has inputs as lines of text.

In `log_matches` a pattern is plain text; `*` stands for any text within the line. There are no regular expressions: a tenant's
pattern is looked for in all that comes, so its cost must be bounded.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from portal.foundation import checks
from portal.foundation.errors import BerthError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


MAX_PATTERNS, MAX_INPUTS, MAX_PATH_CHARS = 32, 32, 1024
MAX_ID = 2**63 - 1
NUMBER = r"[1-9][0-9]{0,17}(_(0|[1-9][0-9]{0,8}))?"
_NUMBER = re.compile(NUMBER + r"\Z", re.ASCII)


@dataclass(frozen=True, slots=True)
class Input:
    """An input of a job: the artefact `path` of the job with this number, laid at `target` in its own directory.

    A path with a / at its end is a folder: all that is kept below it, laid below `target`.
    """

    job: str
    path: str
    target: str

    @property
    def is_folder(self) -> bool:
        return self.path.endswith("/")


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


def job_inputs(value: object) -> tuple[Input, ...]:
    """Return the input that `{"job", "path", "as"}` names; without `as` it is laid under its file's or folder's name."""
    found = []
    for entry in checks.items(value, "inputs", max_items=MAX_INPUTS):
        each = checks.mapping(entry, "inputs", max_items=8)
        checks.known_keys(each, "inputs", required={"job", "path"}, optional={"as"})
        folder = "/" if isinstance(each["path"], str) and each["path"].endswith("/") else ""
        path = _relative(each["path"][:-1] if folder else each["path"], "inputs.path")
        laid = each.get("as")
        laid = laid.removesuffix("/") if folder and isinstance(laid, str) else laid
        target = path.rpartition("/")[2] if laid is None else _relative(laid, "inputs.as")
        found.append(Input(_number(each["job"]), path + folder, target))
    for one in found:
        if any(one is not other and _clash(one, other) for other in found):
            detail = f"Two `inputs` would be laid at {checks.quoted(one.target)}; give each its own place with `as`."
            raise BerthError("duplicate", detail, field="inputs")
    return tuple(found)


def _clash(one: Input, other: Input) -> bool:
    """Say whether both would be laid at one place, or `one` below a file."""
    return one.target == other.target or (not other.is_folder and one.target.startswith(other.target + "/"))


def _number(value: object) -> str:
    """Return a job's number: 41, "41", or "41_3" for a task of an array."""
    if isinstance(value, str) and _NUMBER.match(value):
        return value
    if isinstance(value, str):
        raise BerthError("invalid", "`inputs.job` must be a job's number such as 41 or 41_3.", field="inputs.job")
    return str(checks.whole(value, "inputs.job", 1, MAX_ID))


def inputs_read(text: str) -> list[dict[str, Any]]:
    """Read `41:model/last.pt as ckpt.pt`, each on a line of its own, as the description's `inputs`."""
    found = []
    for line in filter(None, map(str.strip, checks.lines_of(text))):
        source, _, target = line.rpartition(" as ") if " as " in line else (line, "", "")
        number, colon, path = source.strip().removeprefix("#").partition(":")
        if not colon or not path.strip():
            detail = (
                f"{line[:60]!r}: write JOB:PATH, such as 41:model/last.pt or 41:checkpoints/, each on its own line."
            )
            raise BerthError("invalid", detail, field="inputs")
        found.append({"job": number.strip(), "path": path.strip(), **({"as": target.strip()} if target else {})})
    return found


def inputs_text(inputs: object) -> str:
    """Return the form's text for the `inputs` of a description."""
    rows = [each for each in inputs if isinstance(each, dict)] if isinstance(inputs, (list, tuple)) else []
    return "\n".join(
        f"{each.get('job')}:{each.get('path')}" + (f" as {each['as']}" if each.get("as") else "") for each in rows
    )


def keeping_mismatches(values: Mapping[str, Any]) -> Iterator[BerthError]:
    if values.get("artefacts") and (values.get("working_directory") or "").startswith("/"):
        detail = "`artefacts` are patterns in the job's own directory; with an absolute one, write to $BERTH_ARTEFACTS."
        yield BerthError("not_with_absolute_directory", detail, field="artefacts")
    for each in values.get("inputs", ()):
        if each.target in (values.get("files") or {}):
            detail = f"`inputs` and `files` both have {checks.quoted(each.target)}."
            yield BerthError("duplicate", detail, field="inputs")


MAX_LOG_PATTERNS, MAX_LOG_CHARS, MAX_STARS = 3, 200, 4


def log_patterns(value: object) -> tuple[str, ...]:
    """Return the patterns, each once. Raises BerthError that names the field and the remedy."""
    found = [
        checks.text(each, "log_matches", max_chars=MAX_LOG_CHARS)
        for each in checks.items(value, "log_matches", max_items=MAX_LOG_PATTERNS)
    ]
    for each in found:
        if not each.replace("*", "").strip():
            detail = "A text in `log_matches` needs more than * and spaces, or every line would have it."
            raise BerthError("invalid", detail, field="log_matches")
        if each.count("*") > MAX_STARS:
            detail = f"A text in `log_matches` may have * {MAX_STARS} times; make it plainer."
            raise BerthError("invalid", detail, field="log_matches")
    return tuple(dict.fromkeys(found))
