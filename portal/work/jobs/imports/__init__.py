"""Jobs described elsewhere: a batch script for sbatch, or a description in YAML, read for form, REST and command line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from portal.foundation import checks
from portal.foundation.errors import BerthError
from portal.foundation.strict_yaml import YamlError, yaml_strict
from portal.work.jobs.imports.answers import Imported, Line
from portal.work.jobs.imports.marks import looks
from portal.work.jobs.imports.sbatch import sbatch_import

if TYPE_CHECKING:
    from collections.abc import Sequence

    from portal.work.jobs.imports.answers import Begins

FORMATS = ("sbatch", "yaml")
MOST_CHARS = 1024 * 1024
"""The most characters of one text in a YAML description, as long as a file of a job."""

__all__ = ["FORMATS", "Imported", "Line", "text_import"]


def text_import(
    text: str,
    *,
    format: str | None = None,  # noqa: A002 - as in REST
    gpu_types: Sequence[str] = (),
    arguments: Sequence[str] = (),
    begins: Begins | None = None,
) -> Imported:
    """Return the job that a text describes. `format` None: a script begins with #!, or has a line that begins with #SBATCH.

    `arguments`: those that a script is called with; `begins`: see `sbatch_import`. Raises BerthError for a text that cannot be
    read at all. Whether the job can run here is for its submission to say.
    """
    checks.text_safe(text, "text")
    if format is None:
        head = text.removeprefix("\ufeff")
        format = "sbatch" if head.startswith("#!") or looks(head) else "yaml"  # noqa: A001
    if format == "sbatch":
        return sbatch_import(text, gpu_types=gpu_types, arguments=arguments, begins=begins)
    if arguments:
        detail = "A job in YAML takes no arguments; write them into its `command`."
        raise BerthError("not_a_script", detail, field="arguments")
    return _yaml_import(text)


def _yaml_import(text: str) -> Imported:
    try:
        found = yaml_strict(text, most_chars=MOST_CHARS)
    except YamlError as error:
        where = f" (line {error.line}, column {error.column})" if error.line else ""
        raise BerthError("parse_error", f"The text {error.detail}{where}.", field="text") from None
    if not isinstance(found, dict) or not all(isinstance(name, str) for name in found):
        detail = "A job in YAML is a mapping of the description's fields, such as `command: python train.py`."
        raise BerthError("not_an_object", detail, field="text")
    return Imported("yaml", found)
