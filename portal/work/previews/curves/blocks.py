"""A long file in evenly spaced blocks, so that a curve costs the same to read however long it has become."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from portal.work.previews.source import Source

BLOCK_BYTES = 128 * 1024
MOST_BLOCKS = 24
"""The most blocks of all files of a job together."""


def blocks(source: Source, most: int) -> Iterator[tuple[bool, bytes]]:
    """Yield (joined, bytes) of at most `most` blocks, the last of them the file's end.

    `joined`: the block goes on where the one before it ended.
    """
    whole = -(-source.size // BLOCK_BYTES)
    if whole <= most:
        for number in range(whole):
            yield number > 0, source.at(number * BLOCK_BYTES, BLOCK_BYTES)
        return
    last = source.size - BLOCK_BYTES
    for number in range(most):
        yield False, source.at(last * number // (most - 1), BLOCK_BYTES)


def is_sampled(source: Source, most: int) -> bool:
    return source.size > most * BLOCK_BYTES
