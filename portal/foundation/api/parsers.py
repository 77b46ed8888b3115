"""Strict JSON: a request must be unambiguous, storable and bounded, or it is refused with the reason."""

from __future__ import annotations

import json
import math
import re
from typing import TYPE_CHECKING, Any, NoReturn

from django.core.exceptions import RequestDataTooBig
from django.http.request import RawPostDataException
from rest_framework.parsers import BaseParser

from portal.foundation.checks import kind_of, text_safe
from portal.foundation.errors import BerthError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from django.http import HttpRequest

MAX_BODY_BYTES = 1536 * 1024
"""Room for 1 MiB of files as base64 and all the rest of a job description."""
MAX_DEPTH = 64
MOST_CONTAINERS = 100_000
"""Lists and objects: an empty one takes thirty times its length in the body."""

# A string (an unterminated one runs to the end, so that the scan stays linear), or one bracket.
_TOKENS = re.compile(r'"(?:[^"\\]++|\\.)*+"?|[\[{\]}]', re.DOTALL)


class StrictJSONParser(BaseParser):
    """`application/json` only."""

    media_type = "application/json"

    def parse(self, stream: Any, media_type: str | None = None, parser_context: Mapping[str, Any] | None = None) -> Any:
        return json_strict(stream.read(MAX_BODY_BYTES + 1))


def request_object(request: HttpRequest, *, optional: bool = False) -> dict[str, Any]:
    """Return the JSON object in a request's body; with `optional` an empty body is an empty object.

    Reads the body itself, since the framework takes one sent in chunks, without a length, for empty.
    Codes: unsupported_media_type (415), too_large (413), parse_error and its kin, not_an_object (400).
    """
    media_type = request.headers.get("Content-Type", "").partition(";")[0].strip().lower()
    try:
        body = request.body
    except RequestDataTooBig:
        raise _too_large() from None
    except RawPostDataException:  # a form with files, which the search for its CSRF token has used up
        body = b"a form"
    if optional and not body:
        return {}
    if media_type != "application/json":
        raise BerthError("unsupported_media_type", "Send JSON with `Content-Type: application/json`.", status=415)
    data = json_strict(body)
    if not isinstance(data, dict):
        raise BerthError("not_an_object", f"The body must be a JSON object, not {kind_of(data)}.")
    return data


def json_strict(body: bytes) -> Any:
    """Return the value of a JSON text without duplicate keys, NaN, U+0000, lone surrogates or more than 64 levels."""
    if len(body) > MAX_BODY_BYTES:
        raise _too_large()
    try:
        text = body.decode()
    except UnicodeDecodeError:
        raise BerthError("invalid_unicode", "The body is not valid UTF-8; encode it as UTF-8.") from None
    _depth_check(text)
    try:
        value = json.loads(
            text, object_pairs_hook=_unique_pairs, parse_constant=_refuse_constant, parse_float=_finite_float
        )
    except json.JSONDecodeError as error:
        detail = f"The body is not valid JSON: {error.msg} at line {error.lineno}, column {error.colno}."
        raise BerthError("parse_error", detail) from None
    except ValueError:  # Python's own bound on the digits of a whole number
        raise BerthError("parse_error", "A number in the body has too many digits; write a shorter one.") from None
    if "\\u" in text:  # only an escape can bring in U+0000 or half of a surrogate pair
        _text_check(value)
    return value


def _too_large() -> BerthError:
    detail = "The body is larger than 1.5 MiB; put large input on storage that the nodes can read."
    return BerthError("too_large", detail, status=413)


def _depth_check(text: str) -> None:
    if text.count("[") + text.count("{") <= MAX_DEPTH:
        return
    depth = opened = 0
    for token in _TOKENS.finditer(text):
        first = text[token.start()]
        if first in "[{":
            depth, opened = depth + 1, opened + 1
        elif first in "]}":
            depth -= 1
        if depth > MAX_DEPTH:
            raise BerthError("too_deep", f"The body is nested deeper than {MAX_DEPTH} levels; use fewer levels.")
        if opened > MOST_CONTAINERS:
            raise BerthError("too_many", f"The body holds more than {MOST_CONTAINERS} lists and objects; send fewer.")


def _unique_pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: set[str] = set()
        for name, _ in pairs:
            if name in seen:
                shown = name[:60].encode("utf-8", "replace").decode()
                raise BerthError(
                    "duplicate_key", f"The name {shown!r} is given twice in an object; give it once.", field=shown
                )
            seen.add(name)
    return found


def _refuse_constant(name: str) -> NoReturn:
    raise BerthError("not_finite", f"{name} is no JSON number; leave the field out or give a finite one.")


def _finite_float(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise BerthError("not_finite", "A number in the body is too large for a double; give a finite one.")
    return value


def _text_check(value: Any, field: str = "body") -> None:
    if isinstance(value, str):
        text_safe(value, field)
    elif isinstance(value, list):
        for item in value:
            _text_check(item, field)
    elif isinstance(value, dict):
        for name, item in value.items():
            text_safe(name, field)
            _text_check(item, name[:60] if field == "body" else field)
