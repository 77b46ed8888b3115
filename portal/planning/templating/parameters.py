"""A job template's parameters: their types, and how a value that somebody gives is read.

A value comes as JSON or as text (from a form, or from `--set`); both are read by the same rules. There are no patterns: a
tenant's regular expression could hang the portal.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

from portal.foundation import checks
from portal.foundation.errors import BerthError
from portal.planning.templating.references import NAME
from portal.work.jobs.description_parts import MAX_GPUS, MAX_SIZES, working_directory
from portal.work.secrets.services import secret_name_check

MOST_PARAMETERS = 50
MOST_CHOICES = 100
LONGEST, USUAL_LONGEST = 4096, 1000
MOST_WHOLE = 2**53
TYPES = ("text", "integer", "number", "choice", "boolean", "gpus", "path", "secret")
OWN = {
    "text": {"longest", "lines"},
    "integer": {"least", "most"},
    "number": {"least", "most"},
    "choice": {"choices"},
    "boolean": {"word"},
    "gpus": {"least", "most"},
}
COMMON = {"label", "help", "default"}
_NAME = re.compile(NAME)
_TRUE, _FALSE = frozenset({"true", "yes", "on", "1"}), frozenset({"false", "no", "off", "0", ""})


@dataclass(frozen=True)
class Parameter:
    """One parameter. `required`: it has no default. `word`: the text in the command while a boolean is true."""

    name: str
    type: str
    label: str
    help: str = ""
    required: bool = False
    default: Any = None
    least: float | None = None
    most: float | None = None
    longest: int = USUAL_LONGEST
    lines: bool = False
    choices: tuple[Any, ...] = ()
    word: str | None = None

    def as_json(self) -> dict[str, Any]:
        """Return it as a document holds it: without what it does not say."""
        given = asdict(self)
        found: dict[str, Any] = {"name": self.name, "type": self.type}
        for name in ("label", "help", "least", "most", "longest", "lines", "choices", "word"):
            is_said = given[name] is not None and given[name] is not False and given[name] not in ("", ())
            if is_said and (name != "longest" or given[name] != USUAL_LONGEST):
                found[name] = list(given[name]) if name == "choices" else given[name]
        if found.get("label") == self.name:
            del found["label"]
        return found if self.required else found | {"default": self.default}


def parameter_read(value: object, field: str) -> Parameter:
    """Return a parameter as a document says it. Raises BerthError, whose field begins with `field`."""
    found = checks.mapping(value, field, max_items=20)
    name = found.get("name")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        detail = f"`{field}.name` must be 1 to 40 letters, digits and `_`, first a letter."
        raise BerthError("bad_name", detail, field=f"{field}.name")
    kind = checks.choice(found.get("type", "text"), f"{field}.type", TYPES)
    checks.known_keys(found, field, required={"name"}, optional={"type"} | COMMON | OWN.get(kind, set()))
    made = Parameter(
        name=name,
        type=kind,
        label=_text(found, "label", field, 80) or name,
        help=_text(found, "help", field, 300),
        required="default" not in found,
        **_limits(found, kind, field),
    )
    if found.get("default") is None:
        return made
    return replace(made, default=value_read(made, found["default"], f"{field}.default"))


def _text(found: Mapping[str, Any], name: str, field: str, most: int) -> str:
    value = found.get(name)
    return "" if value is None else checks.text(value, f"{field}.{name}", max_chars=most, blank=True)


def _limits(found: Mapping[str, Any], kind: str, field: str) -> dict[str, Any]:
    limits: dict[str, Any] = {}
    for name in ("least", "most"):
        if found.get(name) is not None:
            read = _finite if kind == "number" else _whole
            limits[name] = read(found[name], f"{field}.{name}")
    if limits.get("least") is not None and limits.get("most") is not None and limits["least"] > limits["most"]:
        raise BerthError("out_of_range", f"`{field}.least` is greater than `most`; swap them.", field=f"{field}.least")
    if found.get("longest") is not None:
        limits["longest"] = checks.whole(found["longest"], f"{field}.longest", 1, LONGEST)
    if found.get("lines") is not None:
        limits["lines"] = checks.flag(found["lines"], f"{field}.lines")
    if found.get("word") is not None:
        limits["word"] = checks.text(found["word"], f"{field}.word", max_chars=200)
    if kind == "choice":
        limits["choices"] = _choices(found.get("choices"), f"{field}.choices")
    return limits


def _choices(value: object, field: str) -> tuple[Any, ...]:
    found = []
    for each in checks.items(value, field, max_items=MOST_CHOICES):
        if isinstance(each, bool) or not isinstance(each, (str, int, float)):
            raise checks.wrong_type(each, field, "texts and numbers (write yes and no in quotes)")
        found.append(checks.text(each, field, max_chars=200) if isinstance(each, str) else _finite(each, field))
    if not found:
        raise BerthError("blank", f"`{field}` is empty; name what may be chosen.", field=field)
    if len({str(each) for each in found}) != len(found):
        raise BerthError("duplicate", f"`{field}` names a choice twice; name each once.", field=field)
    return tuple(found)


# ---- values ----------------------------------------------------------------------------------------------------------


def value_read(parameter: Parameter, value: object, field: str) -> Any:
    """Return a value in its normal form, within the parameter's limits. Raises BerthError naming `field`."""
    return _READS[parameter.type](parameter, value, field)


def _whole(value: object, field: str) -> int:
    if isinstance(value, str):
        text = value.strip()
        if not re.fullmatch(r"[-+]?[0-9]{1,16}", text, re.ASCII):
            raise BerthError(
                "wrong_type", f"`{field}` must be a whole number, not {checks.quoted(value)}.", field=field
            )
        value = int(text)
    return checks.whole(value, field, -MOST_WHOLE, MOST_WHOLE)


def _finite(value: object, field: str) -> float | int:
    if isinstance(value, str) and len(value) <= 40:
        text = value.strip()
        try:
            value = int(text) if re.fullmatch(r"[-+]?[0-9]{1,16}", text, re.ASCII) else float(text)
        except ValueError:
            detail = f"`{field}` must be a number such as 0.1 or 3e-4, not {checks.quoted(text)}."
            raise BerthError("wrong_type", detail, field=field) from None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise checks.wrong_type(value, field, "a number")
    if abs(value) > 1e300 or not math.isfinite(value):  # in this order: a whole number may be too large for a float
        raise BerthError("out_of_range", f"`{field}` must be a finite number.", field=field)
    return value


def _within(parameter: Parameter, value: float, field: str) -> None:
    low, high = parameter.least, parameter.most
    if (low is not None and value < low) or (high is not None and value > high):
        raise BerthError("out_of_range", f"`{field}` must be {limits_words(parameter)}.", field=field)


def limits_words(parameter: Parameter) -> str:
    """Return a number's limits in words; empty when there are none."""
    low, high = parameter.least, parameter.most
    if low is not None and high is not None:
        return f"between {low:.15g} and {high:.15g}"
    if low is not None:
        return f"at least {low:.15g}"
    return "" if high is None else f"at most {high:.15g}"


def _number(read: Callable[[object, str], float], parameter: Parameter, value: object, field: str) -> float:
    found = read(value, field)
    _within(parameter, found, field)
    return found


def _of_text(parameter: Parameter, value: object, field: str) -> str:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        value = str(value)
    if not isinstance(value, str):
        raise checks.wrong_type(value, field, "text")
    if not parameter.lines:
        return checks.text(value, field, max_chars=parameter.longest, blank=True)
    found = checks.text_safe(value, field).replace("\r\n", "\n")
    if len(found) > parameter.longest:
        detail = f"`{field}` has {len(found)} characters; at most {parameter.longest}."
        raise BerthError("too_long", detail, field=field)
    return found


def _choice(parameter: Parameter, value: object, field: str) -> Any:
    if isinstance(value, (str, int, float)) and not isinstance(value, bool):
        for each in parameter.choices:
            if str(each) == str(value):
                return each
    known = ", ".join(str(each) for each in parameter.choices)[:300]
    detail = f"`{field}` does not know {checks.quoted(value)}; choose one of {known}."
    raise BerthError("invalid_choice", detail, field=field)


def _boolean(_: Parameter, value: object, field: str) -> bool:
    if isinstance(value, str):
        text = value.strip().lower()
        if text in _TRUE | _FALSE:
            return text in _TRUE
    return checks.flag(value, field)


def _path(_: Parameter, value: object, field: str) -> str:
    if not isinstance(value, str):
        raise checks.wrong_type(value, field, "a path")
    try:
        return working_directory(value)
    except BerthError as error:
        raise BerthError(error.code, error.detail.replace("working_directory", field), field=field) from None


def _gpus(parameter: Parameter, value: object, field: str) -> list[int] | dict[str, int]:
    """Return sizes, ascending, or {"min", "max"}, of `4`, `[1, 2, 4]`, `{"min": 1, "max": 8}`, `1,2,4` or `1-8`."""
    given = _gpus_text(value, field) if isinstance(value, str) else value
    if isinstance(given, dict):
        checks.known_keys(checks.mapping(given, field, max_items=4), field, required={"min", "max"})
        low, high = (checks.whole(given[name], f"{field}.{name}", 1, MAX_GPUS) for name in ("min", "max"))
        if low > high:
            raise BerthError("out_of_range", f"`{field}`: its min is greater than its max; swap them.", field=field)
        sizes, found = [low, high], {"min": low, "max": high}
        for size in sizes:
            _within(parameter, size, field)
        return found
    listed = [given] if isinstance(given, (int, float)) else checks.items(given, field, max_items=MAX_SIZES)
    sizes = sorted({checks.whole(each, field, 0, MAX_GPUS) for each in listed})
    if not sizes or (0 in sizes and len(sizes) > 1):
        detail = f"`{field}` must name one size or several, such as 1, 2, 4; or 0 alone for a job without GPUs."
        raise BerthError("invalid", detail, field=field)
    for size in sizes:
        _within(parameter, size, field)
    return sizes


def _gpus_text(text: str, field: str) -> list[int] | dict[str, int]:
    low, dash, high = (part.strip() for part in text.partition("-"))
    parts = [part.strip() for part in text.split(",")]
    if dash and _is_count(low) and _is_count(high):
        return {"min": int(low), "max": int(high)}
    if len(parts) <= MAX_SIZES and all(map(_is_count, parts)):
        return [int(part) for part in parts]
    detail = f"`{field}`: {checks.quoted(text)} is no number of GPUs; write 4, or 1, 2, 4, or 1-8."
    raise BerthError("wrong_type", detail, field=field)


def _is_count(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 8


_READS: dict[str, Callable[[Parameter, object, str], Any]] = {
    "text": _of_text,
    "integer": partial(_number, _whole),
    "number": partial(_number, _finite),
    "choice": _choice,
    "boolean": _boolean,
    "gpus": _gpus,
    "path": _path,
    "secret": lambda _, value, field: secret_name_check(value, field),
}
