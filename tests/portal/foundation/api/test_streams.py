"""Downloads are made while they are sent."""

import pytest
from asgiref.sync import async_to_sync

from portal.foundation.api.streams import PART_BYTES, Streamed


def lines(made, count):
    for number in range(count):
        made.append(number)
        yield f"{number:07}\n"


@pytest.mark.parametrize("count", [0, 1, 5 * PART_BYTES // 8 + 3])
def test_all_is_sent_in_order(count):
    async def whole():
        return [part async for part in Streamed(lines([], count))]

    parts = async_to_sync(whole)()
    assert b"".join(parts) == b"".join(Streamed(lines([], count)))
    assert all(len(part) <= PART_BYTES + 8 for part in parts)


def test_no_more_is_made_than_is_sent():
    made = []

    async def first():
        return await anext(aiter(Streamed(lines(made, 1_000_000))))

    assert len(async_to_sync(first)()) == 8 * len(made) < 2 * PART_BYTES
