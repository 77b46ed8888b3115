"""JSON values as YAML text, for people to read and edit. Any YAML 1.1 or 1.2 parser reads the same value back."""

from __future__ import annotations

import json
import re
from typing import Any

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*\Z", re.ASCII)
_WORDS = frozenset("y n yes no on off true false null none nan inf".split())
"""They would be read as something else than text, by one parser or another."""


def yaml_text(value: Any) -> str:
    """Return a value as a YAML document, ending with a line end."""
    lines = _block(value, 0)
    return "\n".join(lines) + "\n"


def _block(value: Any, depth: int) -> list[str]:
    """Return lines that begin `depth` levels in."""
    space = "  " * depth
    if isinstance(value, dict) and value:
        return [line for name, each in value.items() for line in _entry(f"{space}{_scalar(str(name))}:", each, depth)]
    if isinstance(value, list) and value:
        return [line for each in value for line in _entry(f"{space}-", each, depth)]
    return [space + _scalar(value)]


def _entry(head: str, value: Any, depth: int) -> list[str]:
    if isinstance(value, (dict, list)) and value:
        return [head, *_block(value, depth + 1)]
    if isinstance(value, str) and _is_block(value):
        ends = len(value) - len(value.rstrip("\n"))
        sign = "-" if ends == 0 else "" if ends == 1 else "+"
        space = "  " * (depth + 1)
        text = value[:-1] if ends else value
        return [f"{head} |{sign}", *(space + line if line else "" for line in text.split("\n"))]
    return [f"{head} {_scalar(value)}"]


def _is_block(text: str) -> bool:
    """Say whether a text of several lines can stand as it is: nothing in it needs an escape, no line begins it with a space."""
    lines = text.split("\n")
    return len(lines) > 1 and lines[0][:1] not in {"", " ", "\t"} and all(map(_is_shown, lines))


def _is_shown(text: str) -> bool:
    return text.isprintable() and "\ufeff" not in text


def _scalar(value: Any) -> str:
    if value is None or isinstance(value, (bool, int, float)):
        return _number(value)
    if isinstance(value, str):
        if _PLAIN.match(value) and value.lower() not in _WORDS:
            return value
        return '"' + "".join(map(_escaped, json.dumps(value, ensure_ascii=False)[1:-1])) + '"'
    return "{}" if isinstance(value, dict) else "[]"


def _number(value: float | None) -> str:
    text = json.dumps(value)
    mantissa, e, exponent = text.partition("e")
    if isinstance(value, float) and e:  # YAML 1.1 knows 1.0e-05 and 1.0e+20; it takes 1e-05 for text
        return f"{mantissa}{'' if '.' in mantissa else '.0'}e{exponent if exponent[0] in '+-' else '+' + exponent}"
    return text


def _escaped(char: str) -> str:
    if char.isprintable() and char != "\ufeff":
        return char
    code = ord(char)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
