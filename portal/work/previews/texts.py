"""Text: the first lines, in any encoding; JSON set out in lines when it is small enough.

JSON is bounded in depth before it is parsed.
"""

from __future__ import annotations

import codecs
import json
import math
import re
from contextlib import suppress
from typing import Any, NoReturn

from portal.work.previews.shown import Source, Text, Unreadable

MOST_TEXT_BYTES = 256 * 1024
MOST_LINES = 1000
LINE_CHARS = 2000
JSON_BYTES = 128 * 1024
_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig", "UTF-8"),
    (codecs.BOM_UTF16_LE, "utf-16", "UTF-16"),
    (codecs.BOM_UTF16_BE, "utf-16", "UTF-16"),
)
_HIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\u202a-\u202e\u2066-\u2069]")
"""Control characters, and those that turn the direction of writing: they are shown as U+FFFD."""
_COLOURS = re.compile("\x1b\\[[0-9;]{0,20}m")
BINARY_SHARE = 0.02


def text_preview(source: Source) -> Text:
    """Return the first lines. Raises Unreadable for a file that is no text."""
    data = source.at(0, MOST_TEXT_BYTES)
    text, encoding = decoded(data, cut=source.size > len(data))
    return _shown(text, encoding, more=source.size > len(data))


def json_preview(source: Source) -> Text:
    """Return JSON set out in lines; as it stands when it is large, deep, or not quite JSON."""
    if source.size > JSON_BYTES:
        return text_preview(source)
    data = source.at(0, JSON_BYTES)
    text, encoding = decoded(data, cut=False)
    with suppress(Unreadable):
        text = json.dumps(parsed(text), indent=2, ensure_ascii=False)
    return _shown(text, encoding, more=False)


def decoded(data: bytes, *, cut: bool) -> tuple[str, str]:
    """Return text and encoding: by its mark, else UTF-8, else Latin-1. `cut`: the last character may be a part of one."""
    for mark, codec, name in _MARKS:
        if data.startswith(mark):
            return codecs.getincrementaldecoder(codec)("replace").decode(data, final=not cut), name
    controls = sum(data.count(bytes([code])) for code in (*range(7), *range(14, 27)))
    if controls > BINARY_SHARE * len(data) or b"\0" in data[:4096]:
        raise Unreadable("it is not text")
    try:
        return codecs.getincrementaldecoder("utf-8")().decode(data, final=not cut), "UTF-8"
    except UnicodeDecodeError:
        return data.decode("latin-1"), "Latin-1, perhaps"


def _shown(text: str, encoding: str, *, more: bool) -> Text:
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    rest = None
    if more or len(lines) > MOST_LINES:
        rest = f"These are its first lines, {min(len(lines), MOST_LINES)} of them. Download the file for the rest."
    elif any(len(line) > LINE_CHARS for line in lines):
        rest = f"Lines are cut after {LINE_CHARS} characters. Download the file for the rest."
    return Text([_line(line) for line in lines[:MOST_LINES]], encoding, rest)


def _line(line: str) -> str:
    tail = "\u2026" if len(line) > LINE_CHARS else ""
    return _HIDDEN.sub("\ufffd", _COLOURS.sub("", line[:LINE_CHARS].removesuffix("\r"))) + tail


MOST_DEPTH = 32
_TOKENS = re.compile(r'"(?:[^"\\]++|\\.)*+"?|[\[{\]}]', re.DOTALL)
"""A string (an unterminated one runs to the end, so that the scan stays linear), or one bracket."""


def parsed(text: str | bytes, *, strict: bool = True) -> Any:
    """Return the value. With `strict`, a text that another writer would not write back as it stands is refused.

    Without it NaN, Infinity and 1e999 are values, as Python's own writer makes them. Raises Unreadable.
    """
    try:
        words = text.decode() if isinstance(text, bytes) else text
        _shallow(words)
        if not strict:
            return json.loads(words)
        return json.loads(words, parse_constant=_refused, parse_float=_finite, object_pairs_hook=_unique)
    except (ValueError, RecursionError) as error:
        raise Unreadable("it is not JSON that can be read") from error


def _shallow(text: str) -> None:
    if text.count("[") + text.count("{") <= MOST_DEPTH:
        return
    depth = 0
    for token in _TOKENS.finditer(text):
        first = text[token.start()]
        depth += (first in "[{") - (first in "]}")
        if depth > MOST_DEPTH:
            raise Unreadable(f"it is nested deeper than {MOST_DEPTH} levels")


def _refused(name: str) -> NoReturn:
    raise ValueError(name)


def _finite(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise ValueError(digits)
    return value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name is given twice")
    return found
