"""`${{ name }}` in a job template: where a parameter's value is put, once. A value that holds such a text stays as it is."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

from portal.foundation.errors import BerthError

NAME = r"[A-Za-z][A-Za-z0-9_]{0,39}"
OPEN = "${{"
_REFERENCE = re.compile(r"\$\{\{[ ]{0,4}(" + NAME + r")[ ]{0,4}\}\}")
MOST_DEPTH = 8
MOST_REFERENCES = 200


def whole_reference(text: str) -> str | None:
    """Return the parameter's name where the whole text is one reference."""
    found = _REFERENCE.fullmatch(text)
    return found[1] if found else None


def replaced(text: str, value_of: Callable[[str], str]) -> str:
    """Return the text with each reference replaced by `value_of(name)`. The new text is not looked at again."""
    return _REFERENCE.sub(lambda found: value_of(found[1]), text)


def references_in(text: str, field: str) -> list[tuple[int, int, str]]:
    """Return (begin, end, name) of each reference. Raises BerthError where `${{` begins none."""
    found = [(each.start(), each.end(), each[1]) for each in _REFERENCE.finditer(text)]
    if text.count(OPEN) != len(found):
        detail = f"`{field}` holds a `{OPEN}` that names no parameter; write `{OPEN} name }}}}`."
        raise BerthError("bad_reference", detail, field=field)
    return found


def texts_of(value: Any, field: str, depth: int = 0) -> Iterator[tuple[str, str]]:
    """Yield (field, text) of every text in a job's fields. Raises BerthError when it is nested too deeply."""
    if depth > MOST_DEPTH:
        raise BerthError("too_deep", f"`{field}` is nested deeper than {MOST_DEPTH} levels.", field=field)
    if isinstance(value, str):
        yield field, value
    elif isinstance(value, list):
        for each in value:
            yield from texts_of(each, field, depth + 1)
    elif isinstance(value, dict):
        for name, each in value.items():
            yield from texts_of(each, f"{field}.{name[:60]}" if depth < 2 else field, depth + 1)
