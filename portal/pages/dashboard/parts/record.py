"""How past start ranges fared, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from portal.pages.dashboard.parts.formatting import duration, number, share

if TYPE_CHECKING:
    from collections.abc import Mapping


def record_words(record: Mapping[str, Any]) -> str | None:
    """Past start ranges held 83 % of the time (412 starts, median error 3 min), then each horizon's share where there are two."""
    if not record["starts"]:
        return None
    held = share(record["held"])
    whole = f"Past start ranges on this cluster held {held} of the time ({_starts(record)}"
    error = duration(record["median_error_s"])
    parts = record["by_horizon"]
    if len(parts) < 2:
        return f"{whole}, median error {error})."
    each = ", ".join(f"{share(part['held'])} {_ahead(part)} ({_starts(part)})" for part in parts)
    return f"{whole}, median error {error}): {each}."


def _starts(record: Mapping[str, Any]) -> str:
    return f"{number(record['starts'])} start{'s' if record['starts'] != 1 else ''}"


def _ahead(part: Mapping[str, Any]) -> str:
    """As: less than 5 min ahead."""
    if part["until_s"] is None:
        return f"further than {duration(part['from_s'])} ahead"
    if not part["from_s"]:
        return f"of those less than {duration(part['until_s'])} ahead"
    return f"up to {duration(part['until_s'])} ahead"
