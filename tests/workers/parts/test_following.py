"""How a part's shim is waited for: looked for soon, then ever more seldom."""

from __future__ import annotations

import asyncio
from unittest import mock

from workers.parts import parts
from workers.parts.part import Part


async def on_files(_part, work, *arguments):
    return work(*arguments)


async def followed(engine, clock, tmp_path):
    """Follow a part whose shim never comes up, by a clock that only pauses move; return the pauses."""
    pauses, part = [], Part(attempt="1", epoch=1, rank=0, job=1, boot_id="b", phase="starting")

    async def pause(seconds):
        pauses.append(seconds)
        clock[0] += seconds

    async def end(part, **_):
        part.phase = "ended"

    tools = mock.MagicMock(on_files=on_files, engine=engine)
    tools.journal.directory.return_value = tmp_path
    following = parts.Parts(tools, tenant_file=tmp_path / "tenant.json", trust_tenants=True)
    with (
        mock.patch.object(parts.asyncio, "sleep", pause),
        mock.patch.object(parts, "boottime", side_effect=lambda: clock[0]),
    ):
        following._ending.end_unstarted = end
        await following._follow(part)
    return pauses


def test_a_shim_that_is_long_in_coming_is_looked_for_ever_more_seldom(tmp_path):
    """Each look costs the processor a millisecond or two, which on a busy machine is what the shim waits for."""
    engine = mock.MagicMock()
    engine.life.return_value, engine.void.return_value = "absent", True
    pauses = asyncio.run(followed(engine, [0.0], tmp_path))
    assert pauses[0] <= 0.01, "one that starts at once is seen at once"
    assert max(pauses) <= 0.25
    assert len(pauses) <= 130, "in fifteen seconds"
