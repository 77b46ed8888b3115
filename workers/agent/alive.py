"""Signs of life: whoever started this agent reads its pid from a pipe every few seconds; silence means that it hangs.

`./berth up` and `./berth node` pass the pipe; an agent started otherwise has none, and signs nothing.
"""

from __future__ import annotations

import asyncio
import os
import stat

VARIABLE = "BERTH_ALIVE_DESCRIPTOR"
PERIOD_S = 2.0


def descriptor_take() -> int | None:
    """The pipe, if there is one. Its variable goes: what the agent starts has another file under that number."""
    raw = os.environ.pop(VARIABLE, "")
    if not raw.isdecimal():
        return None
    try:
        if not stat.S_ISFIFO(os.fstat(int(raw)).st_mode):
            return None
        os.set_inheritable(int(raw), False)
    except OSError:
        return None
    return int(raw)


async def sign_for_ever(descriptor: int) -> None:
    """Sign from the event loop, so that a blocked loop falls silent; until nobody reads any more."""
    while True:
        try:
            os.write(descriptor, b"%d\n" % os.getpid())
        except BlockingIOError:  # the reader is busy and has enough of our signs to read
            pass
        except OSError:
            return
        await asyncio.sleep(PERIOD_S)
