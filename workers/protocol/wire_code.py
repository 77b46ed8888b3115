"""The messages about a job's code and secrets."""

from __future__ import annotations

from typing import TypedDict


class SpecCode(TypedDict, total=False):
    """A repository that is fetched before the command; {}: none."""

    git: str
    ref: str
    submodules: bool
    schemes: list[str]


class Secrets(TypedDict):
    """The values of a part's secrets: of its variables, and of its code's token or key ("": none)."""

    environment: dict[str, str]
    code: str
