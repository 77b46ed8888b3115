"""Signs of life: the agent writes its pid into a pipe every two seconds, so that its supervisor sees when it hangs.

`./berth up` and `./berth node` pass the pipe. An agent that was started by hand has no pipe and writes nothing.
"""

from __future__ import annotations

import asyncio
import os
import stat

VARIABLE = "BERTH_ALIVE_DESCRIPTOR"
PERIOD_S = 2.0


def descriptor_take() -> int | None:
    """Return the pipe if there is one. Remove its variable: in a child the number would mean another file."""
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
    """Write signs until nobody reads them. The event loop writes them, so a blocked loop writes none."""
    while True:
        try:
            os.write(descriptor, b"%d\n" % os.getpid())
        except BlockingIOError:  # the pipe is full: the reader has enough signs
            pass
        except OSError:
            return
        await asyncio.sleep(PERIOD_S)
