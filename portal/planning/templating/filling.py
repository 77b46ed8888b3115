"""A template's job with values in place of its references: the description that a submission takes.

A text that is one reference becomes the value itself: a number, a list of sizes. Within a longer text it is put in as text. In a
command it is quoted as one argument. A command that is a list has its parts filled one by one and is quoted as a whole.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from portal.foundation import checks
from portal.foundation.errors import BerthError
from portal.planning.templating.parameters import MOST_PARAMETERS, Parameter, value_read
from portal.planning.templating.references import replaced, whole_reference

TEXTS = frozenset({"name", "model", "working_directory", "workdir", "environment", "labels", "software"})
"""Fields whose values are texts under any type of parameter."""
_ABSENT = object()


def values_read(parameters: Sequence[Parameter], given: object) -> tuple[dict[str, Any], list[BerthError]]:
    """Return every parameter's value, given or by default, and the errors, at most one for each parameter."""
    found = {} if given is None else checks.mapping(given, "values", max_items=2 * MOST_PARAMETERS)
    known = {each.name: each for each in parameters}
    problems: list[BerthError] = []
    for name in found:
        if name not in known:
            shown = checks.quoted(name)
            detail = f"The template has no parameter {shown}; it has {', '.join(known) or 'none'}."
            problems.append(BerthError("unknown_parameter", detail, field=f"values.{shown.strip(chr(39))}"))
    values: dict[str, Any] = {}
    for each in parameters:
        try:
            values[each.name] = _value(each, found.get(each.name))
        except BerthError as error:
            problems.append(error)
    return values, problems


def _value(parameter: Parameter, given: object) -> Any:
    field = f"values.{parameter.name}"
    empty = given is None or (
        isinstance(given, str) and not given.strip() and parameter.type not in {"text", "boolean"}
    )
    if not empty:
        found = value_read(parameter, given, field)
        if parameter.required and found == "":
            raise BerthError("required", f"`{parameter.name}` is missing; give it a value.", field=field)
        return found
    if parameter.required:
        raise BerthError("required", f"`{parameter.name}` is missing; give it a value.", field=field)
    return parameter.default


def sample(parameters: Sequence[Parameter]) -> dict[str, Any]:
    """Return values to try a template with: the defaults, else the smallest that each allows."""
    return {each.name: _sample(each) if each.required else each.default for each in parameters}


def _sample(parameter: Parameter) -> Any:
    least = (
        parameter.least if parameter.least is not None else min(1, parameter.most if parameter.most is not None else 1)
    )
    by_type = {"integer": least, "number": least, "gpus": [int(least)], "boolean": False}
    if parameter.type == "choice":
        return parameter.choices[0]
    return by_type.get(parameter.type, "x")


def filled(job: Mapping[str, Any], parameters: Sequence[Parameter], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the description that these values make. It is not checked yet."""
    filler = _Filler({each.name: each for each in parameters}, values)
    found: dict[str, Any] = {}
    for name, value in job.items():
        if name == "files":
            made = value
        elif name == "command":
            made = filler.command(value)
        else:
            made = filler.field(value, typed=name not in TEXTS)
        if made is not _ABSENT:
            found[name] = made
    return found


def value_text(value: Any) -> str:
    """Return a value as the text that it is within a longer one: 1,2,4 of sizes, nothing of an empty one."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return ",".join(map(str, value))
    return f"{value['min']}-{value['max']}" if isinstance(value, dict) else str(value)


class _Filler:
    def __init__(self, parameters: Mapping[str, Parameter], values: Mapping[str, Any]) -> None:
        self._parameters, self._values = parameters, values

    def _text(self, name: str) -> str:
        """A boolean with a word is that word while it is true, and nothing else."""
        value, word = self._values[name], self._parameters[name].word
        if word is not None:
            return word if value else ""
        return value_text(value)

    def _argument(self, name: str) -> str:
        is_absent = self._values[name] is None or (self._parameters[name].word is not None and not self._values[name])
        return "" if is_absent else shlex.quote(self._text(name))

    def command(self, value: Any) -> Any:
        if isinstance(value, str):
            return replaced(value, self._argument)
        if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
            return value  # the description's own check says what is wrong
        parts = [(whole_reference(each), replaced(each, self._text)) for each in value]
        return shlex.join(part for name, part in parts if name is None or self._argument(name))

    def field(self, value: Any, *, typed: bool) -> Any:
        if isinstance(value, str):
            name = whole_reference(value)
            if name is not None and self._values[name] is None:
                return _ABSENT
            return self._values[name] if name is not None and typed else replaced(value, self._text)
        if isinstance(value, list):
            return [made for each in value if (made := self.field(each, typed=typed)) is not _ABSENT]
        if isinstance(value, dict):
            made_all = {name: self.field(each, typed=typed) for name, each in value.items()}
            return {name: made for name, made in made_all.items() if made is not _ABSENT}
        return value
