"""The one validation of a job description: for the form, REST and the admin console (algorithms, section 1).

Pure: no database. Checks that need one (membership, ceiling of priority, quotas, dependencies, whether any nodes could ever
hold it) are made by `portal.work.jobs.services.submission.job_submit`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from copy import copy
from types import SimpleNamespace
from typing import Any

from portal.foundation import checks
from portal.foundation.errors import BerthError, Forbidden
from portal.work.jobs import description_parts as parts
from portal.work.jobs.declaration.table import BY_NAME, COLUMNS, FIELDS, MAX_COUNT, PRIORITY_LIMIT, TABLE, JobField
from portal.work.jobs.fields import code, keeping
from portal.work.jobs.naming import name_of
from portal.work.jobs.software import software_check
from portal.work.uploads.manifest import sha256_check

GRACE_S, GRACE_MOST_S = 30, 600
"""The values of a job that names none; the time limit is also the operator's default."""
R_NUM = 8

NOT_SUPPORTED = frozenset("notify webhook container image deadline".split())
"""Fields of the full description whose engine does not exist yet."""
READ_ONLY = frozenset(
    """
        id number state owner url submitted_at started_at ended_at waited_s waiting_since age_s age_source
        latency_ratio epoch attempts failures requeues preemptions reason reason_figures reason_at in_window exit_code
        signal end_detail held_by cancel_requested_at array_index array_size array_concurrency array_counts array_made
        array_retries array_job gpu_memory_whole checkpoint_domain profiles overran_epoch template
    """.split()
)
"""Fields that an answer shows and a request may not set."""
NO_TEXTS = frozenset({"files", "upload", "secrets", "code"})  # contents, names, or of a grammar of its own
SHORT_NAMES = {"workdir": "working_directory", "lr": "learning_rate"}
"""Short spellings that a command line's example uses; both of one field at once is a conflict."""


class JobDescription(SimpleNamespace):
    """A valid description in normal form: each field of the table by its name, or by its columns' names."""

    def __init__(self, **values: Any) -> None:
        absent = {name: each.default for each in TABLE for name in each.columns or (each.name,)}
        super().__init__(**{name: copy(default) for name, default in absent.items()} | values)

    def but(self, **changes: Any) -> JobDescription:
        return JobDescription(**vars(self) | changes)

    def job_fields(self) -> dict[str, Any]:
        """Return keyword arguments for `Job(...)`, in JSON's own types; tenant, payload and dependencies are not among them."""
        values = {name: getattr(self, name) for name in COLUMNS}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}


def priority_parse(value: object, field: str = "priority") -> int:
    """Return the priority. A value above 100 is above everybody's ceiling, so it is refused with 403 as well."""
    found = checks.whole(value, field, -PRIORITY_LIMIT, MAX_COUNT)
    if found > PRIORITY_LIMIT:
        detail = "`priority` is at most 100, and members' jobs at most 0."
        raise Forbidden(detail, code="priority_too_high", field=field)
    return found


CHECKS: dict[str, Callable[[object, str], Any]] = {
    "command": lambda value, _: parts.command(value),
    "files": lambda value, _: parts.files(value),
    "upload": sha256_check,
    "working_directory": lambda value, _: parts.working_directory(value),
    "environment": lambda value, _: parts.environment(value),
    "secrets": lambda value, _: code.secret_variables(value),
    "code": lambda value, _: code.code_source(value),
    "labels": lambda value, _: parts.labels(value),
    "gpu_types": lambda value, _: parts.gpu_types(value),
    "depends_on": lambda value, _: parts.depends_on(value),
    "artefacts": lambda value, _: keeping.artefact_patterns(value),
    "inputs": lambda value, _: keeping.job_inputs(value),
    "log_matches": lambda value, _: keeping.log_patterns(value),
    "priority": priority_parse,
    "gpu_compute": parts.gpu_compute,
}
"""The checks of the fields whose kind does not say it all."""
COMPOSED = frozenset({"software", "gpus", "learning_rate", "array", "epochs", "dataset_size"})
"""Fields that need more than their own value."""


def _by_kind(field: JobField, value: object) -> Any:
    name, low, high = field.name, int(field.low), int(field.high)
    match field.kind:
        case "text":
            return checks.text(value, name, max_chars=field.most_chars, blank=field.default == "")
        case "whole":
            return checks.whole(value, name, low, high)
        case "number":
            return checks.number(value, name, above=low, high=high)
        case "flag":
            return checks.flag(value, name)
        case "choice":
            return checks.choice(value, name, field.choices)
        case "time":
            return checks.moment(value, name)
    raise NotImplementedError(name)


def description_parse(data: object, *, r_num: int = R_NUM) -> JobDescription:
    """Return the description in normal form, or raise BerthError with a code, the field and the remedy.

    `data` is what a JSON object says; `r_num` is the operator's limit on the sizes cut from a range of GPUs.
    """
    parsed, problems = description_examine(data, r_num=r_num)
    if parsed is None:
        raise problems[0]
    return parsed


def description_examine(data: object, *, r_num: int = R_NUM) -> tuple[JobDescription | None, list[BerthError]]:
    """Return the description in normal form, or None and all that is wrong with it, at most one error a field."""
    try:
        given = _known_fields(data)
    except BerthError as error:
        return None, [error]
    values: dict[str, Any] = {}
    problems: list[BerthError] = []

    def check(read: Callable[[], dict[str, Any]]) -> None:
        try:
            values.update(read())
        except BerthError as error:
            problems.append(error)

    for name in BY_NAME:
        if name in given and name not in COMPOSED:
            check(lambda name=name: {name: field_read(given[name], name)})  # type: ignore[misc]
    if "command" not in given:
        problems.append(BerthError("required", "`command` is missing; say what to run.", field="command"))
    _composed(given, values, check, r_num=r_num)
    if "gpus" in values:
        problems += _mismatches(values)
    if problems:
        return None, problems
    values.setdefault("name", name_of(command=values["command"], model=values.get("model", "")))
    return JobDescription(**values), []


def field_read(value: object, name: str) -> Any:
    """Return the normal form of a field that stands for itself: in a description, or in a change of a job."""
    found = CHECKS[name](value, name) if name in CHECKS else _by_kind(BY_NAME[name], value)
    if name not in NO_TEXTS:
        checks.credentials_refuse(value, name)
    return found


def _composed(
    given: Mapping[str, Any],
    values: Mapping[str, Any],
    check: Callable[[Callable[[], dict[str, Any]]], None],
    *,
    r_num: int,
) -> None:
    """Check the fields that depend on other fields; `values` grows with each check that passes."""
    if "software" in given:
        files = values.get("files") or {}
        check(lambda: {"software": software_check(given["software"], files, upload="upload" in values)})
    check(lambda: code.code_directory(values))
    check(lambda: {"gpus": parts.requirement_set(given.get("gpus", 0), r_num=r_num)})
    if "learning_rate" in given and "gpus" in values:
        check(lambda: {"learning_rate": parts.learning_rate(given["learning_rate"], values["gpus"])})
    if "array" in given:
        check(lambda: dict(zip(("array_size", "array_concurrency"), parts.array(given["array"]), strict=True)))
    if "epochs" in given or "dataset_size" in given:
        check(lambda: {"samples": _samples(given)})


def _known_fields(data: object) -> dict[str, Any]:
    """Return the given fields under their long names, without those that are null."""
    if not isinstance(data, dict):
        raise BerthError("not_an_object", f"A job description is a JSON object, not {checks.kind_of(data)}.")
    given: dict[str, Any] = {}
    for name, value in data.items():
        long_name = SHORT_NAMES.get(name, name)
        if long_name not in FIELDS:
            raise _refused_field(name)
        if long_name != name and long_name in data:
            raise BerthError("conflict", f"`{name}` and `{long_name}` are the same field; give one.", field=long_name)
        if value is not None:
            given[long_name] = value
    return given


def _refused_field(name: object) -> BerthError:
    shown = checks.quoted(name)
    field = shown.strip("'")
    if name in READ_ONLY:
        return BerthError("read_only", f"{shown} is set by Berth, not by a request; remove it.", field=field)
    if name in NOT_SUPPORTED:
        return BerthError("not_supported", f"{shown} is not supported yet; remove it.", field=field)
    remedy = f"remove it or correct its name.{checks.meant(field, sorted(FIELDS))}"
    return BerthError("unknown_field", f"A job description has no {shown}; {remedy}", field=field)


def _samples(given: Mapping[str, Any]) -> int:
    """Return epochs x data set size, the other way to say how long a training is."""
    if "samples" in given:
        raise BerthError("conflict", "Give `samples`, or `epochs` with `dataset_size`, not both.", field="samples")
    for name in ("epochs", "dataset_size"):
        if name not in given:
            raise BerthError("required", "`epochs` and `dataset_size` go together; give both.", field=name)
    epochs, size = (checks.whole(given[name], name, 1, MAX_COUNT) for name in ("epochs", "dataset_size"))
    if epochs * size > MAX_COUNT:
        raise BerthError("out_of_range", f"`epochs` times `dataset_size` may be {MAX_COUNT} at most.", field="epochs")
    return epochs * size


def _mismatches(values: Mapping[str, Any]) -> Iterator[BerthError]:
    """Refuse fields that mean nothing for this kind of job, instead of ignoring them."""
    yield from parts.sharing_mismatches(values)
    yield from keeping.keeping_mismatches(values)
    yield from code.code_mismatches(values)
    if values["gpus"] == (0,):
        for name in ("cores_per_gpu", "cores_exactly", "gpu_types", "batch_per_gpu"):
            if values.get(name):
                detail = f"`{name}` is for jobs with GPUs, and this one has none; remove it or ask for `gpus`."
                yield BerthError("not_for_cpu_jobs", detail, field=name)
    elif values.get("cores") is not None:
        detail = "`cores` is for jobs without GPUs; use `cores_per_gpu`."
        yield BerthError("only_for_cpu_jobs", detail, field="cores")
    elif values.get("cores_exactly") and not values.get("cores_per_gpu"):
        detail = "`cores_exactly` keeps the job at its `cores_per_gpu`: give that too, or leave `cores_exactly` out."
        yield BerthError("required", detail, field="cores_per_gpu")
