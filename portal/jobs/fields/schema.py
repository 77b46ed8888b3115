"""The fields `code` and `secrets` of a job description for readers and tools; `portal.jobs.fields.code` is what checks."""

from __future__ import annotations

from typing import Any

from portal.jobs.fields.code import MAX_PATH_CHARS, MAX_REF_CHARS, MAX_SECRETS, MAX_URL_CHARS
from portal.secrets.services import NAME_PATTERN


def _text(says: str, most: int) -> dict[str, Any]:
    return {"type": "string", "maxLength": most, "nullable": True, "description": says}


_NAME = {"type": "string", "pattern": NAME_PATTERN}
SECRETS: dict[str, Any] = {
    "type": "object",
    "nullable": True,
    "additionalProperties": _NAME,
    "maxProperties": MAX_SECRETS,
    "description": "Variables whose values are secrets of the tenant: variable -> name (`POST /secrets`).",
}
CODE: dict[str, Any] = {
    "type": "object",
    "nullable": True,
    "properties": {
        "git": _text("URL of a repository, without a password.", MAX_URL_CHARS),
        "ref": _text("Branch, tag or commit. Missing: the default branch.", MAX_REF_CHARS),
        "secret": {**_NAME, "nullable": True, "description": "With which it is fetched: token, NAME:PASSWORD or key."},
        "submodules": {"type": "boolean", "nullable": True, "description": "Its submodules too."},
        "path": _text("Instead of git: a directory on the nodes, below one that the operator opens.", MAX_PATH_CHARS),
    },
    "additionalProperties": False,
    "description": "Where its code comes from besides `files`; the command starts there.",
}
