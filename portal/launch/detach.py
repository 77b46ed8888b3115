"""`up --detach`: the supervisor runs in a session of its own; this process returns when Berth is healthy."""

import os
import signal
import subprocess
import sys
from types import FrameType

from portal.foundation.layout import SOURCE
from portal.launch.up import READY_VARIABLE


def up_detached(arguments: list[str]) -> int:
    """Start `up` with these arguments in the background. Return 0 when it is ready, else its exit code. Ctrl-C stops it."""
    read_end, write_end = os.pipe()
    child = subprocess.Popen(  # noqa: S603 - our own argv, no shell
        [sys.executable, "-P", "-m", "portal.launch", *arguments],
        cwd=os.getcwd(),  # noqa: PTH109 - paths in the arguments are relative to it
        env=os.environ | {READY_VARIABLE: str(write_end), "PYTHONPATH": str(SOURCE)},
        stdin=subprocess.DEVNULL,
        pass_fds=[write_end],
        start_new_session=True,
    )
    os.close(write_end)

    def forward(_number: int, _frame: FrameType | None) -> None:
        child.send_signal(signal.SIGTERM)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, forward)
    with os.fdopen(read_end, "rb") as ready:
        if ready.read() == b"ready":
            return 0
    return child.wait() or 1
