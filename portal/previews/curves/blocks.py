"""A long file in evenly spaced blocks, so that a curve costs the same to read however long it has become."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from portal.previews.source import Source

BLOCK_BYTES = 128 * 1024
MOST_BLOCKS = 24


def blocks(source: Source) -> Iterator[tuple[bool, bytes]]:
    """Yield (joined, bytes): `joined` when the block goes on where the one before it ended. The last is the file's end."""
    whole = -(-source.size // BLOCK_BYTES)
    if whole <= MOST_BLOCKS:
        for number in range(whole):
            yield number > 0, source.at(number * BLOCK_BYTES, BLOCK_BYTES)
        return
    last = source.size - BLOCK_BYTES
    for number in range(MOST_BLOCKS):
        yield False, source.at(last * number // (MOST_BLOCKS - 1), BLOCK_BYTES)


def is_sampled(source: Source) -> bool:
    return source.size > MOST_BLOCKS * BLOCK_BYTES
