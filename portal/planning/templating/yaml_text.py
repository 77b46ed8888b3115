"""Job templates as YAML: read strictly and within bounds, written so that the same document is read back, and compared."""

from __future__ import annotations

import difflib
import hashlib
import json
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

import yaml

from portal.foundation.checks import lines_of
from portal.foundation.errors import BerthError
from portal.foundation.strict_yaml import YamlError, text_represent, yaml_strict
from portal.planning.templating.document import MOST_BYTES

ORDER = ("name", "title", "about", "parameters", "job")


def yaml_read(text: str) -> Any:
    """Return the text as data, unchecked. Raises BerthError (invalid_yaml, too_large) of the field `text`."""
    if len(text) > 2 * MOST_BYTES:
        detail = "The text is larger than 512 KiB; a template is 256 KiB at most."
        raise BerthError("too_large", detail, field="text")
    try:
        return yaml_strict(text, most_chars=MOST_BYTES)
    except YamlError as error:
        where = f" (line {error.line}, column {error.column})" if error.line else ""
        raise BerthError("invalid_yaml", f"The text {error.detail}{where}.", field="text") from None


def with_files(document: Any, files: Any) -> Any:
    """Return a document, unchecked, whose job has these files besides its own."""
    if not files or not isinstance(document, dict) or not isinstance(document.get("job"), dict):
        return document
    own = document["job"].get("files") or {}
    if not isinstance(own, dict) or not isinstance(files, dict):
        return document | {"job": document["job"] | {"files": files}}
    return document | {"job": document["job"] | {"files": {**own, **files}}}


def yaml_write(document: dict[str, Any]) -> str:
    """Return a document as YAML; a text of several lines stands in a block of its own."""
    ordered = {name: document[name] for name in ORDER if document.get(name) not in (None, "", [])}
    return yaml.dump(ordered, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=110)


class _Dumper(yaml.SafeDumper):
    """Writes no anchors: repeated data are written twice."""

    def ignore_aliases(self, data: Any) -> bool:
        return True

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, False)


def _list(dumper: yaml.SafeDumper, value: list[Any]) -> Any:
    plain = all(not isinstance(each, (list, dict)) for each in value)
    return dumper.represent_sequence("tag:yaml.org,2002:seq", value, flow_style=plain)


_Dumper.add_representer(str, lambda dumper, value: text_represent(dumper, value, style="|" if "\n" in value else None))
_Dumper.add_representer(list, _list)


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
