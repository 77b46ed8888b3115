"""The differences of two versions of a template, line by line of their YAML; files only by size and digest."""

from __future__ import annotations

import difflib
import hashlib
import json
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

from portal.foundation.checks import lines_of
from portal.planning.templating.yaml_text import yaml_write

MOST_LINES = 1500
Sign = Literal["+", "-", " ", "@"]


class Line(NamedTuple):
    sign: Sign
    text: str


def shown_text(document: Mapping[str, Any]) -> str:
    """Return a document as YAML for people: of its files names, sizes and digests."""
    job = dict(document["job"])
    if files := job.get("files"):
        job["files"] = {name: _file(content) for name, content in files.items()}
    return yaml_write({**document, "job": job})


def _file(content: Any) -> str:
    text = content if isinstance(content, str) else json.dumps(content)
    digest = hashlib.sha256(text.encode()).hexdigest()[:12]
    return f"{len(text.encode())} bytes as sent, {digest}"


def difference(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[Line] | None:
    """Return the lines that differ with three around them; None where there are too many to compare."""
    before, after = (lines_of(shown_text(each).removesuffix("\n")) for each in (old, new))
    if max(len(before), len(after)) > MOST_LINES:
        return None
    found = list(difflib.unified_diff(before, after, lineterm="", n=3))[2:]
    return [Line(line[0], line[1:]) for line in found]  # type: ignore[arg-type] # difflib writes these four signs
