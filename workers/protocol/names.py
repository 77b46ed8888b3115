"""Names and texts as the portal takes them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from workers.protocol.wire import PartName, Spec, Wanted

DETAIL_CHARACTERS = 2000
"""Of a report's `detail`; the portal refuses the whole message for a longer one, for U+0000 or half a character."""


def clean(text: str, most: int = DETAIL_CHARACTERS) -> str:
    """The text as the portal takes it: whole characters, none of control but the line's end, at most so many."""
    whole = text.encode("utf-8", "replace").decode()
    return "".join(c if c.isprintable() or c == "\n" else "\N{REPLACEMENT CHARACTER}" for c in whole)[:most]


def part_key(part: PartName) -> str:
    """The name of a part's directory: `KEY-EPOCH-RANK`, with the attempt's key."""
    return f"{part['attempt']}-{part['epoch']}-{part['rank']}"


def job_key(named: Wanted | Spec) -> str:
    """What names the job on nodes, its checkpoints above all."""
    return named.get("job_key") or str(named["job"])


def part_name(part: PartName) -> PartName:
    """Only the three fields that name the part."""
    return {"attempt": part["attempt"], "epoch": part["epoch"], "rank": part["rank"]}
