"""YAML, strictly: bounded, and built from the parser's events, so that nothing recurses and reading ends at the first excess.

libyaml's own loader recurses for each level, in C: a text of 25 kB ended the process. Its scanner takes time in the square
of the levels of flow brackets. As events, one by one, both are harmless as long as the depth is watched.
Read are texts, numbers, true and false, null as YAML 1.2 has them, lists, mappings, anchors and `<<`; no tags, no dates.
"""

from __future__ import annotations

import math
import re
import unicodedata
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import yaml

if TYPE_CHECKING:
    from collections.abc import Hashable

LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""libyaml's where it was built: six times as fast."""
MOST_DEPTH = 32
MOST_VALUES, MOST_WRITTEN = 500_000, 2 * 1024 * 1024
"""Values, and characters of texts in all, counted as if each alias were written out."""
MOST_CHARS = 1000
"""The most in one text, unless the reader allows more."""
MOST_NUMBER_CHARS = 40
MOST_DIRECTIVES = 8

_INT = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(
    r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)"
)
_LED_BY_NOUGHT = re.compile(r"[-+]?0[0-9_]+")
_ENDS_LINE = re.compile("[\\r\\x85\\u2028\\u2029\\ufeff]")
"""Characters that become a line end, or nothing, where they stand without an escape."""
_NO_LINE_END = re.compile("[\\x85\\u2028\\u2029]")
"""They end a line for libyaml, as in YAML 1.1, and none in YAML 1.2, nor on a screen."""
_ODD = "[\\u00a0\\u00ad\\u1680\\u2000-\\u200f\\u202a-\\u202f\\u205f-\\u206f\\u3000\\ufeff]"
_ODD_EDGE = re.compile(f"\\A{_ODD}|{_ODD}\\Z|(?<=:){_ODD}")
"""White space, or nothing, to the eye, and a part of the word to YAML."""
_BASES = {"0o": 8, "0x": 16}
_WORDS = {
    spelling: value
    for word, value in {"true": True, "false": False, "null": None}.items()
    for spelling in (word, word.title(), word.upper())
} | {"": None, "~": None}
_TEXT_TAGS = {None, "!", "tag:yaml.org,2002:str"}
_NO_KEY = object()


class _Mark(NamedTuple):
    line: int
    column: int


class YamlError(ValueError):
    """A text that is not read: `line` and `column` from 1 on (None: all of it), and the fault."""

    def __init__(self, detail: str, mark: _Mark | yaml.Mark | None = None) -> None:
        super().__init__(detail)
        self.detail = detail
        self.line: int | None = mark.line + 1 if mark else None
        self.column: int | None = mark.column + 1 if mark else None


def yaml_strict(text: str, *, most_chars: int = MOST_CHARS) -> Any:
    """Return the value of a YAML text of one document. `most_chars`: of one text in it. Raises YamlError."""
    text = text.removeprefix("\ufeff")
    if text.count("\n%") + text.startswith("%") > MOST_DIRECTIVES:
        raise YamlError(f"holds more than {MOST_DIRECTIVES} lines that begin with %")
    if sign := _NO_LINE_END.search(text):
        detail = f"holds {_named(sign)}, which ends a line for some readers; write it as an escape in quotation marks"
        at = sign.start()
        raise YamlError(detail, _Mark(text.count("\n", 0, at), at - text.rfind("\n", 0, at) - 1))
    builder = _Builder(most_chars)
    try:
        for event in yaml.parse(text, Loader=LOADER):
            builder.take(event)
    except yaml.YAMLError as error:
        raise _not_yaml(text, error) from error
    except UnicodeEncodeError:
        raise YamlError("is not YAML: half of a surrogate pair") from None
    return builder.value


def _not_yaml(text: str, error: yaml.YAMLError) -> YamlError:
    problem = getattr(error, "problem", None) or "an odd character"
    mark = getattr(error, "problem_mark", None)
    if mark is None:
        return YamlError(f"is not YAML: {problem}")
    if "nesting depth" in problem:  # a parser that reads ahead came to a bound of its own before we came to ours
        return YamlError(f"is nested deeper than {MOST_DEPTH} levels", mark)
    began = error.context_mark.line if "simple key" in (error.context or "") else mark.line
    for place, line in enumerate(text.split("\n")[began : mark.line + 1], start=began):
        if sign := _ODD_EDGE.search(line):
            return YamlError(_odd(sign), _Mark(place, sign.start()))
    return YamlError(f"is not YAML: {problem}", mark)


class _Open:
    """A list or a mapping that is being read."""

    __slots__ = ("anchor", "before", "key", "merged", "value")

    def __init__(self, value: list[Any] | dict[Hashable, Any], anchor: str | None, before: tuple[int, int]) -> None:
        self.value, self.anchor, self.before = value, anchor, before
        self.key: Any = _NO_KEY
        self.merged: list[dict[Hashable, Any]] = []


class _Builder:
    """Takes events; `value` is what they say."""

    def __init__(self, most_chars: int) -> None:
        self.value: Any = None
        self._most_chars = most_chars
        self._open: list[_Open] = []
        self._anchors: dict[str, tuple[Any, int, int]] = {}
        self._values = self._written = self._documents = 0

    def take(self, event: Any) -> None:
        if isinstance(event, yaml.ScalarEvent):
            self._count(1, len(event.value), event)
            size = 1, len(event.value)
            is_merge = bool(event.value == "<<" and event.implicit[0])
            self._put(self._scalar(event), event, anchor=event.anchor, size=size, is_merge=is_merge)
        elif isinstance(event, (yaml.SequenceStartEvent, yaml.MappingStartEvent)):
            self._begin(event)
        elif isinstance(event, yaml.CollectionEndEvent):
            self._end(event)
        elif isinstance(event, yaml.AliasEvent):
            self._alias(event)
        elif isinstance(event, yaml.DocumentStartEvent):
            self._documents += 1
            if self._documents > 1:
                _refuse("holds a second document; write one", event)

    def _count(self, values: int, chars: int, event: Any) -> None:
        self._values, self._written = self._values + values, self._written + chars
        if self._values > MOST_VALUES:
            _refuse(f"holds more than {MOST_VALUES} values (what an alias stands for counts each time)", event)
        if self._written > MOST_WRITTEN:
            _refuse(f"holds more than {MOST_WRITTEN} characters (what an alias stands for counts each time)", event)

    def _begin(self, event: Any) -> None:
        if len(self._open) >= MOST_DEPTH:
            _refuse(f"is nested deeper than {MOST_DEPTH} levels", event)
        is_list = isinstance(event, yaml.SequenceStartEvent)
        if event.tag not in {None, "!", f"tag:yaml.org,2002:{'seq' if is_list else 'map'}"}:
            _refuse("holds a tag; leave tags out", event)
        if self._open and isinstance(self._open[-1].value, dict) and self._open[-1].key is _NO_KEY:
            _refuse("a list or mapping stands where a field's name should", event)
        self._open.append(_Open([] if is_list else {}, event.anchor, (self._values, self._written)))
        self._count(1, 0, event)

    def _end(self, event: Any) -> None:
        ended = self._open.pop()
        for each in ended.merged:
            for key, value in each.items():
                ended.value.setdefault(key, value)  # type: ignore[union-attr]
        size = self._values - ended.before[0], self._written - ended.before[1]
        self._put(ended.value, event, anchor=ended.anchor, size=size)

    def _alias(self, event: Any) -> None:
        if event.anchor not in self._anchors:
            _refuse("an alias names nothing that stands complete before it", event)
        value, values, chars = self._anchors[event.anchor]
        self._count(values, chars, event)
        self._put(value, event)

    def _put(
        self,
        value: Any,
        event: Any,
        *,
        anchor: str | None = None,
        size: tuple[int, int] = (1, 0),
        is_merge: bool = False,
    ) -> None:
        if anchor is not None:
            self._anchors[anchor] = (value, *size)
        if not self._open:
            self.value = value
            return
        top = self._open[-1]
        if isinstance(top.value, list):
            top.value.append(value)
        elif top.key is _NO_KEY:
            if isinstance(value, (list, dict)):
                _refuse("a list or mapping stands where a field's name should", event)
            if not is_merge and value in top.value:
                _refuse(f"the field {str(value)[:60]!r} is given twice", event)
            top.key = _Merge if is_merge else value
        elif top.key is _Merge:
            parts = value if isinstance(value, list) else [value]
            if not all(isinstance(part, dict) for part in parts):
                _refuse("<< stands before something that is no mapping", event)
            top.merged += parts
            top.key = _NO_KEY
        else:
            top.value[top.key] = value
            top.key = _NO_KEY

    def _scalar(self, event: Any) -> Any:
        text = event.value
        if event.tag not in _TEXT_TAGS:
            _refuse("holds a tag; leave tags out", event)
        if len(text) > self._most_chars:
            _refuse(f"holds a text of {len(text)} characters; at most {self._most_chars}", event)
        return text if event.tag is not None or not event.implicit[0] else _plain(text, event)


class _Merge:
    """The key `<<`."""


def _plain(text: str, event: Any) -> Any:
    """Return the value of a text without quotes (YAML 1.2.2, 10.3.2). Yes, no, on, off, 1_000 and 1:30 are texts."""
    if sign := _ODD_EDGE.search(text):
        _refuse(_odd(sign), event)
    if text in _WORDS:
        return _WORDS[text]
    if _LED_BY_NOUGHT.fullmatch(text):
        _refuse(f"holds {text[:20]}, a number in base 8 to some readers; leave the 0 out, or quote it", event)
    is_whole = _INT.fullmatch(text)
    if not is_whole and not _FLOAT.fullmatch(text):
        return text
    if len(text) > MOST_NUMBER_CHARS:
        _refuse(f"holds a number of {len(text)} characters; at most {MOST_NUMBER_CHARS}", event)
    if is_whole:
        base = _BASES.get(text[:2], 10)
        return int(text if base == 10 else text[2:], base)
    value = float(text.lower().replace(".inf", "inf").replace(".nan", "nan"))
    if math.isinf(value) and "inf" not in text.lower():
        _refuse("holds a number that is too large; quote it if it is a text", event)
    if not value and text.strip("+-.0")[:1] not in {"", "e", "E"}:
        _refuse("holds a number that is too small; quote it if it is a text", event)
    return value


def text_represent(dumper: yaml.SafeDumper, text: str, style: str | None = None) -> Any:
    """Return how a dumper, which knows YAML 1.1, writes a text that `yaml_strict` reads as a text."""
    is_other = (
        text in _WORDS
        or any(each.fullmatch(text) for each in (_INT, _FLOAT, _LED_BY_NOUGHT))
        or _ENDS_LINE.search(text)
        or ("\n" not in text and _ODD_EDGE.search(text))
    )
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style='"' if is_other else style)


def _named(sign: re.Match[str]) -> str:
    return f"U+{ord(sign[0]):04X} ({unicodedata.name(sign[0], 'a control character').lower()})"


def _odd(sign: re.Match[str]) -> str:
    return f"holds {_named(sign)}, which is no space here; write a plain space, or nothing, or quote the text"


def _refuse(detail: str, event: Any) -> NoReturn:
    raise YamlError(detail, event.start_mark)
