"""The folded rows of the submit form: which fields each has, and the line that says what is in force while it is closed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from portal.foundation.errors import BerthError
from portal.pages.dashboard.parts.formatting import count_of
from portal.pages.dashboard.submit.apart import NAMED
from portal.pages.dashboard.submit.form import KINDS_OF_WORK, accepted_words, usual_disk, write_value
from portal.pages.dashboard.submit.reading import read_text
from portal.work.artefacts.selectors import kept_days
from portal.work.jobs.declaration.table import BY_NAME, INPUTS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from portal.pages.dashboard.parts.context import FieldContext
    from portal.people.tenants.models import Tenant

ROWS: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "software": ("Software", {"software": ""}),
    "speed": ("Speed", {"speed": ""}),
    "limits": ("Limits", {"limits": ""}),
    "more": ("More", {"more": "", "sharing": "A part of a GPU", "keeping": "Results"}),
}
"""Row -> title, and its groups of fields with their headings."""
FIRST = (
    *("category", "expected_duration_s", "batch_per_gpu", "checkpointable", "pipelined", "heavy_between_iterations"),
    *("model", "parameters", "samples", "learning_rate", "learning_rate.at", "learning_rate.rule"),
    *("time_limit_s", "memory_mib", "disk_gib", "idle_timeout_s"),
    *("environment", "secrets", "array.size", "array.concurrency", "depends_on", "start_after", "priority", "retries"),
    *("grace_s", "working_directory", "labels", "log_matches"),
)
"""Fields that stand first in their group. The others follow in the table's order."""
VALUE_MAX_CHARS = 40


def rows_context(
    fields: Mapping[str, FieldContext], values: Mapping[str, Any], tenant: Tenant | None, pythons: Iterable[str]
) -> list[dict[str, Any]]:
    """Return the rows with their fields and closed lines."""
    said = lines_make(values, tenant, pythons)
    return [
        {
            "name": row,
            "title": title,
            "line": said[row],
            "wrong": any(field.get("error") for group in groups for field in of_group(fields, group)),
            "groups": [(heading, of_group(fields, group)) for group, heading in groups.items()],
        }
        for row, (title, groups) in ROWS.items()
    ]


def of_group(fields: Mapping[str, FieldContext], group: str) -> list[FieldContext]:
    """Return the group's fields in the order in which they are shown."""
    return [fields[name] for name in dict.fromkeys((*FIRST, *INPUTS)) if INPUTS[name].group == group]


def lines_make(values: Mapping[str, Any], tenant: Tenant | None, pythons: Iterable[str]) -> dict[str, str]:
    """Return each row's closed line. `pythons`: the versions on the nodes."""
    lines = {
        "software": [_software(values, sorted(set(pythons)))],
        "speed": [*_speed(values), *_rest(values, ("speed",), {"category", "expected_duration_s"})],
        "limits": _limits(values),
        "more": [*_more(values, tenant), *_rest(values, ("more", "sharing", "keeping"), _TOLD)],
    }
    return {name: ", ".join(filter(None, words)) for name, words in lines.items()}


def _text(values: Mapping[str, Any], name: str) -> str:
    value = values.get(name)
    return "" if value is None or value is False or isinstance(value, (list, dict)) else str(value).strip()


def amount_words(values: Mapping[str, Any], name: str) -> str:
    """Return a field's amount with its unit, as `24 GiB` for 24; a text that cannot be read as it stands."""
    text = _text(values, name)
    try:
        return str(write_value(BY_NAME[name], read_text(BY_NAME[name], text))) if text else ""
    except BerthError:
        return _cut(text)


def _cut(text: str) -> str:
    return text if len(text) <= VALUE_MAX_CHARS else f"{text[: VALUE_MAX_CHARS - 1]}\u2026"


def _software(values: Mapping[str, Any], pythons: Sequence[str]) -> str:
    kind, path = _text(values, "software"), _cut(_text(values, "software.path"))
    node = f"Python {' or '.join(pythons)}" if 0 < len(pythons) < 3 else ""
    if kind.startswith(NAMED):
        return f"environment {kind.removeprefix(NAMED)}"
    if kind == "requirements":
        count = sum(bool(line.strip()) for line in _text(values, "software.requirements").splitlines())
        return f"{node or 'the node'} with {count_of(count, 'package')}"
    if kind == "requirements_file":
        return f"{node or 'the node'} with the packages of {path or 'a file'}"
    if kind:
        return path or "no directory or image named yet"
    return f"{node}, as on the node" if node else "as on the node"


def _speed(values: Mapping[str, Any]) -> list[str]:
    kind, lasts = KINDS_OF_WORK.get(_text(values, "category"), ""), amount_words(values, "expected_duration_s")
    return [
        accepted_words(values),
        kind.lower() if _text(values, "category") else "",
        f"about {lasts}" if lasts else "no expected duration",
    ]


def _limits(values: Mapping[str, Any]) -> list[str]:
    time, memory, disk, idle, cores, cores_per_gpu = (
        amount_words(values, name)
        for name in ("time_limit_s", "memory_mib", "disk_gib", "idle_timeout_s", "cores", "cores_per_gpu")
    )
    is_cpu = values.get("gpu_mode") == "cpu"
    usual = usual_disk()
    before, behind = ("exactly ", "") if _text(values, "cores_exactly") else ("", " asked")
    return [
        f"at most {time}" if time else "no time limit",
        f"{memory} of memory" if memory else "no memory limit",
        f"{disk or usual} of disk" if disk or usual != "no limit" else "no disk limit",
        f"{cores} core{'s' * (cores != '1')}" if cores and is_cpu else "",
        f"{before}{cores_per_gpu} core{'s' * (cores_per_gpu != '1')} a GPU{behind}"
        if cores_per_gpu and not is_cpu
        else "",
        f"ended when not used for {idle}" if idle else "",
    ]


_TOLD = {"environment", "secrets", "array.size", "array.concurrency"}


def _more(values: Mapping[str, Any], tenant: Tenant | None) -> list[str]:
    given = {
        noun: sum(bool(line.strip()) for line in _text(values, name).splitlines())
        for noun, name in (("variable", "environment"), ("secret", "secrets"))
    }
    tasks, days = _cut(_text(values, "array.size")), kept_days(tenant) if tenant else None
    kept = f"results kept {count_of(days, 'day')}" if days else "results kept until removed"
    return [
        " and ".join(count_of(count, noun) for noun, count in given.items() if count) or "no variables or secrets",
        f"{tasks} runs" if tasks else "one run",
        kept if tenant else "",
    ]


def _rest(values: Mapping[str, Any], groups: Sequence[str], told: set[str]) -> list[str]:
    """Name the other fields that have a value, so that nothing that is set hides."""
    usual = {"learning_rate.rule": "none", "priority": "0", "retries": "0"}
    found = (
        each.label
        for name, each in INPUTS.items()
        if each.group in groups and name not in told and _text(values, name) not in ("", usual.get(name))
    )
    return [f"{label[:1].lower()}{label[1:]}" for label in found]
