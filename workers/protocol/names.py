"""Names and texts as the portal takes them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from workers.protocol.wire import PartName

DETAIL_CHARACTERS = 2000
"""The longest `detail` of a report. The portal refuses a message with a longer one, with U+0000 or half a character."""


def clean(text: str, most: int = DETAIL_CHARACTERS) -> str:
    """Return the text as the portal takes it: cut to `most` characters, without control characters except line ends."""
    whole = text.encode("utf-8", "replace").decode()
    return "".join(c if c.isprintable() or c == "\n" else "\N{REPLACEMENT CHARACTER}" for c in whole)[:most]


def part_key(part: PartName) -> str:
    """Return the name of a part's directory: `KEY-EPOCH-RANK`. KEY is the attempt's key."""
    return f"{part['attempt']}-{part['epoch']}-{part['rank']}"


def part_name(part: PartName) -> PartName:
    """Return only the three fields that name the part."""
    return {"attempt": part["attempt"], "epoch": part["epoch"], "rank": part["rank"]}
