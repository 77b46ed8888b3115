"""What every page carries and none does: headers, and no inline script."""

from __future__ import annotations

import re

EVALUATES = "/admin/"
"""The only pages that may evaluate text: the console's theme keeps its behaviour in attributes. None may hold a script."""
INLINE = re.compile(
    r"<script(?![^>]*\bsrc=)(?![^>]*type=\"application/json\")|\son\w+\s*=\s*[\"']|javascript:", re.IGNORECASE
)


def is_page(answer) -> bool:
    """Whether a browser shows it as a page or a part of one."""
    return answer.headers.get("Content-Type", "").startswith("text/html") and bool(answer.content)


def directives(answer):
    parts = [part.split() for part in answer.headers["Content-Security-Policy"].split(";")]
    return {part[0]: set(part[1:]) for part in parts}


def assert_safe(path, answer):
    """A page has its headers and no inline script."""
    policy = directives(answer)
    assert answer.headers["X-Content-Type-Options"] == "nosniff", path
    assert answer.headers["X-Frame-Options"] == "DENY", path
    assert answer.headers["Referrer-Policy"] == "same-origin", path
    assert policy["frame-ancestors"] == policy["base-uri"] == policy["default-src"] == {"'none'"}, path
    assert policy["form-action"] == policy["connect-src"] == {"'self'"}, path
    evaluates = {"'unsafe-eval'"} if path.startswith(EVALUATES) else set()
    assert policy["script-src"] == {"'self'"} | evaluates, path
    assert not INLINE.search(answer.content.decode()), path
