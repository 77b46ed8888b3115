"""A report longer than the portal takes goes out in slices, and each part is told and leased as before."""

from __future__ import annotations

import asyncio

from tests.workers.small_portal import NODE_TOKEN
from workers.parts.journal import Journal
from workers.parts.part import Part
from workers.parts.problems import Problems
from workers.parts.reporting import MOST_ENTRIES, Reporter
from workers.portal_client import Portal


class NoEngine:
    """No shim runs in this test; leases are noted."""

    def __init__(self):
        self.leased = []

    def lease(self, directory, *, until):
        self.leased.append(directory.name)


def test_many_parts_are_told_in_slices(portal, tmp_path):
    journal, engine, count = Journal(tmp_path), NoEngine(), 2 * MOST_ENTRIES + 3
    for n in range(count):
        part = Part(attempt=str(n), epoch=1, rank=0, job=n, boot_id="b", lease_s=10.0)
        portal.want(attempt=n, lease=True)
        journal.create(part)
        journal.report(part, {"state": "running", "pid": 7, "at": 1.0}, phase="running")

    async def exchanged():
        client = Portal(portal.url, token=NODE_TOKEN, verify=False)
        reporter = Reporter(portal=client, journal=journal, engine=engine, problems=Problems(), boot_id="b")
        await reporter.exchange()
        await client.close()
        return reporter

    reporter = asyncio.run(exchanged())
    assert [len(part.reports) for part in journal.parts.values()] == [0] * count
    assert len(portal.reports) == count
    assert len(set(engine.leased)) == len(reporter.leased_until) == count
    assert max(portal.report_lengths) == MOST_ENTRIES
