"""Choose a file's preview: by its contents first, and by its name where the bytes leave it open."""

from __future__ import annotations

from typing import TYPE_CHECKING

from portal.work.previews.shown import Curves, Nothing, Unreadable, holds_curves
from portal.work.previews.texts import json_preview, text_preview

if TYPE_CHECKING:
    from collections.abc import Callable

    from portal.work.previews.shown import Preview, Source

PICKLES = (".pkl", ".pickle", ".pt", ".pth", ".ckpt", ".joblib")
LINES = (".jsonl", ".ndjson")
FIRST_BYTES = 128
NUMPY, ZIP = b"\x93NUMPY", b"PK\x03\x04"


def reader_of(source: Source) -> Callable[[Source], Preview]:
    """Return the reader of a file of this kind, all that it needs imported: no file can be opened behind `program`'s walls.

    It never raises for a file's contents: then there is no preview, and why.
    """
    if not source.size:
        return lambda _: Nothing("The file is empty.")
    if holds_curves(source.name):
        return lambda _: Curves()
    first = source.at(0, FIRST_BYTES)
    reader = _by_content(source.name.lower(), first) or _by_name(source.name.lower())

    def read(source: Source) -> Preview:
        try:
            return reader(source)
        except Unreadable as why:
            return _as_text(source, first, str(why))
        except MemoryError:  # pragma: no cover - the limits stand before it
            return Nothing("It is too large to look into.")

    return read


def _by_content(name: str, first: bytes) -> Callable[[Source], Preview] | None:
    """Import and return the reader that the first bytes ask for."""
    from portal.work.previews.pictures import picture_kind, picture_preview

    if picture_kind(first):
        return picture_preview
    if first.startswith(NUMPY):
        from portal.work.previews.arrays import array_preview

        return array_preview
    if first.startswith(ZIP):
        from portal.work.previews.archives import arrays_preview, listing_preview
        from portal.work.previews.checkpoints import checkpoint_preview

        return arrays_preview if name.endswith(".npz") else lambda it: checkpoint_preview(it) or listing_preview(it)
    if name.endswith(".safetensors"):
        from portal.work.previews.checkpoints import safetensors_preview

        return safetensors_preview
    if first[:1] == b"\x80" and first[1:2] <= b"\x05" and name.endswith(PICKLES):
        return _pickle
    return None


def _pickle(_: Source) -> Preview:
    raise Unreadable("it is a pickle, and opening one runs what is in it")


def _by_name(name: str) -> Callable[[Source], Preview]:
    """Import and return the reader that the name asks for."""
    if name.endswith((".csv", ".tsv", ".tab", *LINES)):
        from portal.work.previews.tables import records_preview, table_preview

        delimiter = "," if name.endswith(".csv") else "\t"
        return records_preview if name.endswith(LINES) else lambda it: table_preview(it, delimiter=delimiter)
    return json_preview if name.endswith((".json", ".ipynb")) else text_preview


def _as_text(source: Source, first: bytes, why: str) -> Preview:
    """Show the lines of a file that is not the kind it claims to be, or its first bytes."""
    try:
        return text_preview(source)
    except Unreadable:
        return Nothing(f"No preview: {why}.", [_row(first, start) for start in range(0, len(first), 16)])


def _row(first: bytes, start: int) -> str:
    part = first[start : start + 16]
    letters = "".join(chr(code) if 32 <= code < 127 else "." for code in part)
    return f"{start:04x}  {part.hex(' '):<47}  {letters}"
