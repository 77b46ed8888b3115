"""Contexts of the submit form's templates; `parts.context` has the rules and the shared parts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypedDict

if TYPE_CHECKING:
    from portal.pages.dashboard.jobs.context import JobFile
    from portal.pages.dashboard.parts.context import Choice, Fact, FieldContext, Rich, StartsContext
    from portal.pages.dashboard.submit.cores_past import CoresPastContext
    from portal.pages.dashboard.submit.speeds import SpeedsContext
    from portal.work.jobs.imports import Line


class FilesContext(TypedDict):
    """The form's files. `kept` is JSON {name: base64}, for the hidden field."""

    kept: str
    files: list[JobFile]
    error: str | None
    max_files: int
    max_bytes: int
    max_uploaded: int
    upload: str  # the digest of larger files that were sent
    sent: str  # JSON of these files


class GroupContext(TypedDict):
    """The controls of one part of the form. `wrong`: one has an error; `used`: one has a value."""

    fields: list[FieldContext]
    wrong: bool
    used: bool


class FormProblem(TypedDict):
    """A line of the summary above the form; `target` is the id of the field, None for the whole form."""

    field: str
    label: str | None
    target: str | None
    detail: str


class GpuChoice(TypedDict):
    """A row of the requirement set's table; `cells` follow `gpu_columns`, `fits` says whether one block is idle now."""

    count: int
    checked: bool
    cells: list[str]
    fits: bool


class DryRunRow(TypedDict):
    configuration: str
    text: str
    note: str | None
    verdict: str
    chosen: bool


class DryRunContext(TypedDict):
    """The answer of a plan of this very form, without placing it."""

    at: str
    outcome: Literal["placeable", "waits", "impossible", "invalid"]
    word: str  # "Placeable"
    sentence: Rich
    rows: list[DryRunRow]
    starts: StartsContext | None  # of one that would wait
    facts: list[Fact]


class RequestContext(TypedDict):
    """The form as the text of the same request."""

    curl: str
    python: str


class ImportContext(TypedDict):
    """A script that was read into the form. `problems`: why it was not; `left_out`: directives without a field."""

    text: str
    arguments: str
    lines: list[Line]
    left_out: list[str]
    problems: list[str]


class SubmitContext(TypedDict):
    """The form. `fields` are its controls by name, `groups` the same as the page lays them out."""

    fields: dict[str, FieldContext]
    groups: dict[str, GroupContext]
    quotas: list[str]  # that are nearly used
    problems: list[FormProblem]  # all that is wrong, in the form's order
    files: FilesContext
    code_from: list[Choice]  # of files, git, path
    gpu_modes: list[Choice]  # of set, range, cpu
    gpu_columns: list[str]
    gpu_choices: list[GpuChoice]
    gpu_error: str | None
    gpu_min: str
    gpu_max: str
    gpu_note: str | None
    dry_run: DryRunContext | None
    request_text: RequestContext | None
    submit_note: str | None
    imported: ImportContext | None
    save_as: str
    save_error: str | None
    speeds: SpeedsContext | None
    cores_past: CoresPastContext | None
    start: dict[str, Any]  # templates, how many there are, saved settings: `submit.start`
