"""What a transport is: whoever wants another way than urllib gives `Berth` one of his own."""

from __future__ import annotations

from typing import TYPE_CHECKING, BinaryIO, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping


class Answer(NamedTuple):
    status: int
    headers: Mapping[str, str]
    body: bytes


class Transport(Protocol):
    """Sends one request and returns its answer, whatever its status. Raises AwayError when none came."""

    def __call__(
        self, method: str, url: str, *, headers: Mapping[str, str], body: bytes | BinaryIO | None, timeout_s: float
    ) -> Answer: ...
