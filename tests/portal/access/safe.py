"""What every page carries and none does: headers, and neither an inline script nor markup that somebody typed."""

from __future__ import annotations

import re

INLINE = re.compile(
    r"<script(?![^>]*\bsrc=)(?![^>]*type=\"application/json\")|\son\w+\s*=\s*[\"']|javascript:", re.IGNORECASE
)

SHOUT = "<script>alert('zz')</script>"
BREAK_OUT = "\"'><img src=x onerror=alert(1)>"
RAW = ("<script>alert(", "<img src=x")


def is_page(answer) -> bool:
    """Whether a browser shows it as a page or a part of one."""
    return answer.headers.get("Content-Type", "").startswith("text/html") and bool(answer.content)


def directives(answer):
    parts = [part.split() for part in answer.headers["Content-Security-Policy"].split(";")]
    return {part[0]: set(part[1:]) for part in parts}


def assert_safe(path, answer):
    """A page has its headers, no inline script, and what people typed escaped."""
    policy = directives(answer)
    assert answer.headers["X-Content-Type-Options"] == "nosniff", path
    assert answer.headers["X-Frame-Options"] == "DENY", path
    assert answer.headers["Referrer-Policy"] == "same-origin", path
    assert policy["frame-ancestors"] == policy["base-uri"] == policy["default-src"] == {"'none'"}, path
    assert policy["form-action"] == policy["connect-src"] == {"'self'"}, path
    assert policy["script-src"] == {"'self'"}, path
    text = answer.content.decode()
    assert not INLINE.search(text), path
    assert not [raw for raw in RAW if raw in text], path
