"""Bounds of the traffic between jobs and people in this process: connections, bytes a second, messages that are not whole yet."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter, defaultdict
from typing import TYPE_CHECKING

from portal.foundation.environment import env

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

OF_PERSON, OF_TENANT = 64, 192
"""Requests and WebSockets at one time."""
PIECE_BYTES = 8 * 1024
"""As much as this is counted for each event, however small: they cost this process time by their number."""
VISIT_BYTES = 64 * 1024
"""As much as this is counted for each request and WebSocket, also if its connection fails."""
BURST_S = 1.0
HELD_BYTES = 32 * 1024 * 1024
"""Bytes of all messages of a tenant of which the end has not come."""
TOO_MANY = "{who} {most} connections to ports of jobs open, which is the most. Close a page."


class Traffic:
    """All traffic that is under way. Only the event loop uses it."""

    def __init__(self) -> None:
        self._people: Counter[int] = Counter()
        self._tenants: Counter[int] = Counter()
        self._turns: defaultdict[int, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._free_at: defaultdict[int, float] = defaultdict(float)
        """They stay when nothing is open: a tenant that closes and opens again owes the same."""
        self._held: Counter[int] = Counter()

    def take(self, user_id: int, tenant_id: int) -> str | None:
        """Count a connection; where there are the most allowed already, count none and return a sentence that says so."""
        if self._people[user_id] >= OF_PERSON:
            return TOO_MANY.format(who="You have", most=OF_PERSON)
        if self._tenants[tenant_id] >= OF_TENANT:
            return TOO_MANY.format(who="Your tenant has", most=OF_TENANT)
        self._people[user_id] += 1
        self._tenants[tenant_id] += 1
        return None

    def give(self, user_id: int, tenant_id: int) -> None:
        self._people[user_id] -= 1
        self._tenants[tenant_id] -= 1
        self._people += Counter()  # forgets what is zero
        self._tenants += Counter()

    async def move(self, tenant_id: int, size: int) -> None:
        """Wait until the tenant may move these bytes."""
        async with self.turn(tenant_id):
            self.count(tenant_id, size)

    @contextlib.asynccontextmanager
    async def turn(self, tenant_id: int) -> AsyncIterator[None]:
        """Wait until all that the tenant has moved is paid for by time: then it may read one piece more, and count it.

        One of its pieces is read at a time, and others of this process have their turn between two of them.
        """
        async with self._turns[tenant_id]:
            await asyncio.sleep(max(0.0, self._free_at[tenant_id] - asyncio.get_running_loop().time()))
            yield

    def count(self, tenant_id: int, size: int, events: int = 1) -> None:
        """Count bytes that were moved. `events`: the number of their parts, each of which costs this process time."""
        cost_s = max(size, events * PIECE_BYTES) / (env("BERTH_JOBS_MIB_S") * 2**20)
        begun = asyncio.get_running_loop().time() - BURST_S
        self._free_at[tenant_id] = max(self._free_at[tenant_id], begun) + cost_s

    def hold(self, tenant_id: int, size: int) -> bool:
        """Count bytes of a message whose end has not come, negative ones when it is over; False where they are too many."""
        self._held[tenant_id] += size
        if self._held[tenant_id] <= 0:
            del self._held[tenant_id]
        return self._held[tenant_id] <= HELD_BYTES


TRAFFIC = Traffic()
