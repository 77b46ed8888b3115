"""The streams of one node among tenants: the one that asks for most never takes the next one's share."""

import asyncio

import pytest

from portal.nodes import channel as channels
from workers.protocol.frames import ClosedError, Kind, pack, pack_end


async def answered(channel, tenant_id):
    """Open a stream as a node that says yes to each."""
    opening = asyncio.create_task(channel.open({}, tenant_id=tenant_id))
    await asyncio.sleep(0)
    if not opening.done():
        channel.take(pack(Kind.OPENED, max(channel.streams)))
    return await opening


async def filled(channel, *tenants):
    """Have tenants open streams in turn until none of them gets more; return how many each has."""
    found, asking = dict.fromkeys(tenants, 0), list(tenants)
    while asking:
        for tenant in tuple(asking):
            try:
                await answered(channel, tenant)
                found[tenant] += 1
            except ClosedError:
                asking.remove(tenant)
    return found


def test_one_tenant_has_half_and_leaves_the_rest_to_the_next_ones():
    async def talk():
        channel = channels.Channel(1, lambda _: asyncio.sleep(0))
        greedy = await filled(channel, 1)
        return greedy, await filled(channel, 2), await filled(channel, 3, 4)

    greedy, second, more = asyncio.run(talk())
    assert (greedy, second) == ({1: 128}, {2: 64})
    assert all(count >= 20 for count in more.values())


def test_what_ended_at_either_end_counts_no_longer(monkeypatch):
    monkeypatch.setattr(channels, "MOST_STREAMS", 4)

    async def talk():
        channel = channels.Channel(1, lambda _: asyncio.sleep(0))
        first, second = await answered(channel, 1), await answered(channel, 1)
        with pytest.raises(ClosedError, match=r"Your tenant has 2 .* only 2 more are free"):
            await answered(channel, 1)
        channel.take(pack(Kind.CLOSE, first.number, pack_end("ended", "")))
        third = await answered(channel, 1)
        await channel.close(second, "left", "")
        await answered(channel, 1)
        with pytest.raises(ClosedError):
            await answered(channel, 1)
        channel.end()
        assert third.why is not None
        return await filled(channel, 1)

    assert asyncio.run(talk()) == {1: 2}
