"""What a preview is: one value for each kind, which the page has a template for. All texts are cut to a set length."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

CELL_CHARS = 200
NAME_CHARS = 160


def cut(text: str, most: int = CELL_CHARS) -> str:
    """Return the text, shortened in sight."""
    return text if len(text) <= most else text[: most - 1] + "\u2026"


@dataclass(frozen=True)
class Text:
    """Numbered lines. `rest`: what is not shown, in words; None = nothing."""

    lines: list[str]
    encoding: str
    rest: str | None = None
    kind: Literal["text"] = "text"


@dataclass(frozen=True)
class Picture:
    """A picture that browsers show. Width and height are what its header says, in pixels."""

    content_type: str
    width: int
    height: int
    kind: Literal["picture"] = "picture"


@dataclass(frozen=True)
class Table:
    head: list[str]
    rows: list[list[str]]
    rest: str | None = None
    kind: Literal["table"] = "table"


@dataclass(frozen=True)
class Member:
    """One tensor, array or file inside: its type and shape in words, and its size in bytes."""

    name: str
    what: str
    bytes: int | None


@dataclass(frozen=True)
class Group:
    """The tensors under one name of a checkpoint: how many, with how many numbers and bytes in all."""

    name: str
    count: int
    numbers: int
    bytes: int
    types: str


@dataclass(frozen=True)
class Inside:
    """What a container holds. `facts`: single values such as ("step", "14000")."""

    title: str
    members: list[Member]
    groups: list[Group] = field(default_factory=list)
    facts: list[tuple[str, str]] = field(default_factory=list)
    rest: str | None = None
    kind: Literal["inside"] = "inside"


@dataclass(frozen=True)
class Curves:
    """The file holds curves; they come as figures (`portal.previews.curves`)."""

    kind: Literal["curves"] = "curves"


@dataclass(frozen=True)
class Nothing:
    """No preview, and why. `first`: its first bytes as lines of figures."""

    why: str
    first: list[str] = field(default_factory=list)
    kind: Literal["nothing"] = "nothing"


Preview = Text | Picture | Table | Inside | Curves | Nothing


_KINDS: dict[str, type[Preview]] = {
    "text": Text,
    "picture": Picture,
    "table": Table,
    "inside": Inside,
    "curves": Curves,
    "nothing": Nothing,
}


def shown_of(told: dict[str, Any]) -> Preview:
    """Return the value that the reading program told as plain values."""
    made = dict(told)
    if made["kind"] == "inside":
        made["members"] = [Member(**each) for each in made["members"]]
        made["groups"] = [Group(**each) for each in made["groups"]]
    return _KINDS[made["kind"]](**made)
