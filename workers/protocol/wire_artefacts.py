"""The shapes of messages about artefacts, docs/agent-protocol.md."""

from typing import Literal, TypedDict

from workers.protocol.wire import PartName


class ArtefactFile(TypedDict):
    path: str
    size: int
    modified_ns: int


class ArtefactsRequest(PartName):
    boot_id: str
    files: list[ArtefactFile]
    gone: list[str]
    notes: list[list[str]] | None
    notes_more: int


class ArtefactTaken(TypedDict):
    path: str
    state: Literal["send", "kept", "refused"]
    offset: int
    detail: str


class ArtefactsAnswer(TypedDict):
    files: list[ArtefactTaken]
