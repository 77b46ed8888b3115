"""From a file to what its preview shows: by what is in it first, and by its name where the bytes leave it open."""

from __future__ import annotations

from typing import TYPE_CHECKING

from portal.previews import archives, arrays
from portal.previews.archives import arrays_preview, listing_preview
from portal.previews.arrays import array_preview
from portal.previews.checkpoints import checkpoint_preview, safetensors_preview
from portal.previews.curves.files import holds_curves
from portal.previews.pictures import picture_kind, picture_preview
from portal.previews.shown import Curves, Nothing
from portal.previews.source import Unreadable
from portal.previews.tables import records_preview, table_preview
from portal.previews.texts import json_preview, text_preview

if TYPE_CHECKING:
    from portal.previews.shown import Preview
    from portal.previews.source import Source

PICKLES = (".pkl", ".pickle", ".pt", ".pth", ".ckpt", ".joblib")
LINES = (".jsonl", ".ndjson")
FIRST_BYTES = 128


def preview_of(source: Source) -> Preview:
    """Return what to show of a file. It never raises for what the file holds: then there is no preview, and why."""
    if not source.size:
        return Nothing("The file is empty.")
    if holds_curves(source.name):
        return Curves()
    first = source.at(0, FIRST_BYTES)
    try:
        return _by_content(source, first) or _by_name(source)
    except Unreadable as why:
        return _as_text(source, first, str(why))
    except MemoryError:  # pragma: no cover - the limits stand before it
        return Nothing("It is too large to look into.")


def _by_content(source: Source, first: bytes) -> Preview | None:
    name = source.name.lower()
    if picture_kind(first):
        return picture_preview(source)
    if first.startswith(arrays.MAGIC):
        return array_preview(source)
    if first.startswith(archives.MAGIC):
        return (
            arrays_preview(source) if name.endswith(".npz") else checkpoint_preview(source) or listing_preview(source)
        )
    if name.endswith(".safetensors"):
        return safetensors_preview(source)
    if first[:1] == b"\x80" and first[1:2] <= b"\x05" and name.endswith(PICKLES):
        raise Unreadable("it is a pickle, and opening one runs what is in it")
    return None


def _by_name(source: Source) -> Preview:
    name = source.name.lower()
    if name.endswith(".csv"):
        return table_preview(source, delimiter=",")
    if name.endswith((".tsv", ".tab")):
        return table_preview(source, delimiter="\t")
    if name.endswith(LINES):
        return records_preview(source)
    return json_preview(source) if name.endswith((".json", ".ipynb")) else text_preview(source)


def _as_text(source: Source, first: bytes, why: str) -> Preview:
    """Show the lines of what could not be shown as what it says it is, or its first bytes."""
    try:
        return text_preview(source)
    except Unreadable:
        return Nothing(f"No preview: {why}.", [_row(first, start) for start in range(0, len(first), 16)])


def _row(first: bytes, start: int) -> str:
    part = first[start : start + 16]
    letters = "".join(chr(code) if 32 <= code < 127 else "." for code in part)
    return f"{start:04x}  {part.hex(' '):<47}  {letters}"
