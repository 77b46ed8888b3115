"""The answer of an import: a job description, and the fate of each line that asked for something."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Begins = Callable[[Mapping[str, Any]], int]  # a description -> the cores a GPU with which its job begins

Verdict = Literal["mapped", "looser", "ignored", "refused"]


@dataclass
class Line:
    """One directive: its fate and why. `field`: the description's field that it went to."""

    line: int
    text: str
    verdict: Verdict = "ignored"
    detail: str = ""
    field: str | None = None

    def mapped(self, to: str | None, detail: str) -> None:
        self.verdict, self.field, self.detail = "mapped", to, detail

    def looser(self, to: str, detail: str) -> None:
        """It is mapped to something like it, and may mean something else."""
        self.verdict, self.field, self.detail = "looser", to, detail

    def ignored(self, detail: str) -> None:
        self.verdict, self.field, self.detail = "ignored", None, detail

    def refused(self, detail: str) -> None:
        """It cannot be had here, and without it the job would be another one."""
        self.verdict, self.field, self.detail = "refused", None, detail


@dataclass(frozen=True)
class Imported:
    """`description` is what REST takes; it holds nothing of lines that were refused."""

    format: str
    description: dict[str, Any]
    lines: list[Line] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        return {"format": self.format, "description": self.description, "lines": [asdict(line) for line in self.lines]}
