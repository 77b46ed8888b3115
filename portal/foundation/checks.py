"""Checks of single JSON values. Each returns the value in its normal form or raises BerthError naming field and remedy.

Nothing here echoes a value unabridged: a hostile name must not break the answer that refuses it.
"""

from __future__ import annotations

import difflib
import math
import re
import unicodedata
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from datetime import UTC, datetime
from typing import Any
from urllib.parse import unquote

from portal.foundation.errors import BerthError

_URLS = re.compile(
    r"(?<![A-Za-z0-9])(?P<scheme>[A-Za-z][A-Za-z0-9+.-]{0,30})://"
    r"(?P<site>(?:[^\s/?#\"'<>`|\\]|\\[^\sA-Za-z0-9]|(?<=[/:])(?:\"[^\"\s]*\"|'[^'\s]*')(?=[:@]))*)"
    r"(?P<rest>[^\s\"'<>`|\\]*)"
)
"""In a command a shell takes quotation marks and backslashes out of the part before the host."""
_TOKENS = re.compile(
    r"[?&;#](?:(?:[a-z_.-]*(?:token|passw(?:or)?d|secret|api[_-]?key|access[_-]?key|signature)|pwd)(?:\[\])?=(?P<any>[^&;#\s]+)"
    r"|pass=(?P<word>[^&;#\s]{4,})|(?:key|sig|auth|code|jwt)=(?P<long>[^&;#\s]{16,}))",
    re.IGNORECASE,
)
_VARIABLES = re.compile(r"(?:\$\w+|\$\{\w+(?::?\?[^}]*)?\}|\{\w*\}|%s|\*|\.)+")
_PORT = re.compile(r"[0-9]*")
_NOBODY = "git"  # the name that repositories are fetched by tells nothing
WHOLE_FLOAT_LIMIT = 2**53
"""Above it a float no longer tells neighbouring whole numbers apart."""
_BIDI_CONTROLS = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
_KINDS = {dict: "an object", list: "a list", str: "text", bool: "true or false", type(None): "null"}


def lines_of(text: str) -> list[str]:
    r"""Return the lines of a text that people wrote: only `\n` and `\r\n` end one, so no other sign cuts a value in two."""
    return [line.removesuffix("\r") for line in text.split("\n")]


def kind_of(value: object) -> str:
    """Name a JSON value's kind in words, never the value itself."""
    return _KINDS.get(type(value), "a number" if isinstance(value, (int, float)) else "something else")


def quoted(value: object, limit: int = 60) -> str:
    """Return a value fit for an error's sentence: cut, encodable, without control characters."""
    if not isinstance(value, str):
        return kind_of(value)
    text = value[: limit + 1].encode("utf-8", "replace").decode()
    text = "".join(char if char.isprintable() else "?" for char in text)
    return f"'{text[:limit]}...'" if len(text) > limit else f"'{text}'"


def meant(name: str, known: Iterable[str]) -> str:
    """Return " Did you mean `gpus`?" for gpu, or nothing where no known name is near."""
    near = difflib.get_close_matches(name, known, n=1)
    return f" Did you mean `{near[0]}`?" if near else ""


def wrong_type(value: object, field: str, expected: str) -> BerthError:
    return BerthError("wrong_type", f"`{field}` must be {expected}, not {kind_of(value)}.", field=field)


def null_character(field: str) -> BerthError:
    name = field.replace("\0", "?")
    detail = f"`{name}` contains the character U+0000; remove it (binary files go in as base64)."
    return BerthError("null_character", detail, field=name)


def text_safe(value: str, field: str) -> str:
    """Refuse what no database, terminal or command line takes: U+0000 and lone surrogates."""
    if "\0" in value:
        raise null_character(field)
    try:
        value.encode()
    except UnicodeEncodeError:
        detail = f"`{field}` contains half of a surrogate pair; send valid Unicode."
        raise BerthError("invalid_unicode", detail, field=field) from None
    return value


def credentials_refuse(value: object, field: str, *, named: str = "secrets") -> None:
    """Refuse a name, password or token in a URL, in any text of a value. `named`: the field that names secrets instead.

    A variable (`https://$USER:$TOKEN@host`) is no secret. The error repeats nothing of it.
    """
    if isinstance(value, str):
        if any(map(_holds_credentials, _URLS.finditer(value))):
            detail = (
                f"`{field}` holds a URL with a name, a password or a token in it, which everybody reads that sees it. Take it "
                f"out, keep it as a secret of the tenant (`berth secrets set NAME`), and name that in `{named}`."
            )
            raise BerthError("credentials_in_url", detail, field=field)
    elif isinstance(value, (list, tuple)):
        for each in value:
            credentials_refuse(each, field, named=named)
    elif isinstance(value, dict):
        for name, each in value.items():
            credentials_refuse(name, field, named=named)
            credentials_refuse(each, field, named=named)


def _holds_credentials(url: re.Match[str]) -> bool:
    user, at, _ = re.sub(r"[\"'\\]", "", url["site"]).rpartition("@")
    name, _, password = user.partition(":")
    is_web = "http" in url["scheme"].lower()
    given = [password] if password or not is_web or name == _NOBODY else [name]
    if not at and "@" in url["rest"] and not url["site"].startswith("["):
        given = [url["site"].partition(":")[2]]  # it ended at a `/`, `?` or `#` of the password, unless it is a port
        at = "" if _PORT.fullmatch(given[0]) else "@"
    if at and any(each and not _VARIABLES.fullmatch(each) for each in given):
        return True
    tokens = _TOKENS.finditer(unquote(url["site"] + url["rest"]))
    return any(not _VARIABLES.fullmatch(each["any"] or each["word"] or each["long"]) for each in tokens)


def text(value: object, field: str, *, max_chars: int, blank: bool = False) -> str:
    """Return one line of text without surrounding space. Codes wrong_type, blank, too_long, control_character."""
    if not isinstance(value, str):
        raise wrong_type(value, field, "text")
    found = text_safe(value, field).strip(" ")
    for char in found:
        if unicodedata.category(char) in {"Cc", "Zl", "Zp"} or char in _BIDI_CONTROLS:
            detail = f"`{field}` contains the control character U+{ord(char):04X}; remove it."
            raise BerthError("control_character", detail, field=field)
    if not found.strip() and not blank:
        raise BerthError("blank", f"`{field}` is blank; give it a value or leave it out.", field=field)
    if len(found) > max_chars:
        raise BerthError("too_long", f"`{field}` has {len(found)} characters; at most {max_chars}.", field=field)
    return found


def whole(value: object, field: str, low: int, high: int) -> int:
    """Return a whole number in [low, high]; a float such as 5.76e6 counts when it is whole. Booleans do not."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise wrong_type(value, field, "a whole number")
    if isinstance(value, float):
        if not math.isfinite(value) or not value.is_integer() or abs(value) > WHOLE_FLOAT_LIMIT:
            raise BerthError("wrong_type", f"`{field}` must be a whole number, not a fraction.", field=field)
        value = int(value)
    if not low <= value <= high:
        raise BerthError("out_of_range", f"`{field}` must lie between {low} and {high}.", field=field)
    return value


def number(value: object, field: str, *, above: float, high: float) -> float:
    """Return a finite number in (above, high]."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise wrong_type(value, field, "a number")
    if not above < value <= high:  # also false for NaN, and exact for whole numbers beyond a float's range
        detail = f"`{field}` must be greater than {above:g} and at most {high:g}."
        raise BerthError("out_of_range", detail, field=field)
    return float(value)


def moment(value: object, field: str) -> datetime:
    """Return a time in UTC from ISO 8601 text with its zone. Codes wrong_type, invalid."""
    if not isinstance(value, str):
        raise wrong_type(value, field, "text")
    try:
        found = datetime.fromisoformat(value)
        at = found.astimezone(UTC) if found.tzinfo else None
    except (ValueError, OverflowError):
        at = None
    if at is None:
        detail = f"`{field}` must be a time with its zone such as 2026-12-01T08:00:00+01:00, not {quoted(value)}."
        raise BerthError("invalid", detail, field=field)
    return at


def flag(value: object, field: str) -> bool:
    if not isinstance(value, bool):
        raise wrong_type(value, field, "true or false")
    return value


def choice(value: object, field: str, allowed: Iterable[str]) -> str:
    names = list(allowed)
    if not isinstance(value, str):
        raise wrong_type(value, field, f"one of {', '.join(names)}")
    if value not in names:
        detail = f"`{field}` does not know {quoted(value)}; choose one of {', '.join(names)}."
        raise BerthError("invalid_choice", detail, field=field)
    return value


def mapping(value: object, field: str, *, max_items: int) -> Mapping[str, Any]:
    """Return an object whose names are valid text."""
    if not isinstance(value, dict):
        raise wrong_type(value, field, "an object")
    if len(value) > max_items:
        raise BerthError("too_many", f"`{field}` has {len(value)} entries; at most {max_items}.", field=field)
    for name in value:
        if not isinstance(name, str):
            raise BerthError("wrong_type", f"Names in `{field}` must be text, not {kind_of(name)}.", field=field)
        text_safe(name, field)
    return value


def known_keys(
    value: Mapping[str, Any], field: str, *, required: AbstractSet[str], optional: AbstractSet[str] = frozenset()
) -> None:
    """Refuse an object with a name it does not know (unknown_field) or without one it needs (required)."""
    for name in value:
        if name not in required | optional:
            known = ", ".join(sorted(required | optional))
            raise BerthError("unknown_field", f"`{field}` has no {quoted(name)}; it knows {known}.", field=field)
    for name in sorted(required):
        if value.get(name) is None:
            raise BerthError("required", f"`{field}` needs `{name}`.", field=f"{field}.{name}")


def items(value: object, field: str, *, max_items: int) -> list[Any]:
    if not isinstance(value, (list, tuple)):
        raise wrong_type(value, field, "a list")
    if len(value) > max_items:
        raise BerthError("too_many", f"`{field}` has {len(value)} entries; at most {max_items}.", field=field)
    return list(value)
