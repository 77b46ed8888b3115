"""Carries a stream to a pty and back, until the shell on it ends; and the named pipe that tells how it did."""

from __future__ import annotations

import asyncio
import contextlib
import os
from itertools import count
from typing import TYPE_CHECKING, Any, Self

from workers.protocol.frames import ClosedError

if TYPE_CHECKING:
    from pathlib import Path

    from workers.protocol.frames import Stream

READ_BYTES = 16 * 1024
REST_BYTES, REST_S = 64 * 1024, 0.05
"""A shell's last output is in the kernel's buffers: at most these bytes, and it shows within these seconds."""
TOLD_S = 3.0
"""How long the exit code may come after the terminal was closed."""
_numbers = count(1)


class End:
    """A pipe with a name in `directory`. The shim holds its other end, and writes the exit code into it."""

    def __init__(self, directory: Path) -> None:
        self.name = f"terminal-{next(_numbers)}.end"
        self._path, self._told = directory / self.name, b""

    def __enter__(self) -> Self:
        self._path.unlink(missing_ok=True)  # of an agent before this one
        os.mkfifo(self._path, 0o600)
        self._reader = os.open(self._path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._reader)
        self._path.unlink(missing_ok=True)

    def is_known(self) -> bool:
        """Say whether the shim has opened it. One that began before there was a pipe has not."""
        try:
            self._told += os.read(self._reader, 16)
        except BlockingIOError:
            return True
        return bool(self._told)

    async def told(self) -> int | None:
        """Return the exit code once the shell has ended; None when the shim has gone without a word."""
        while True:
            try:
                piece = os.read(self._reader, 16)
            except BlockingIOError:
                await ready(self._reader, write=False)
                continue
            self._told += piece
            if not piece or len(self._told) >= 16:
                return int(self._told) if self._told.isdigit() and len(self._told) < 4 else None


async def carried(stream: Stream, master: int, end: End) -> int | None:
    """Carry both ways until the shell ends or the stream does; return the exit code, None where there is none."""
    told = asyncio.ensure_future(end.told())
    out, back = asyncio.ensure_future(_out(stream, master, told)), asyncio.ensure_future(_in(stream, master))
    try:
        await asyncio.wait([out, back], return_when=asyncio.FIRST_COMPLETED)
        if not out.done() or stream.why is not None:  # the person has left
            return None
        await asyncio.wait([told], timeout=TOLD_S)
        return told.result() if told.done() else None
    finally:
        for way in (out, back, told):
            way.cancel()
        await asyncio.gather(out, back, told, return_exceptions=True)


async def _out(stream: Stream, master: int, told: asyncio.Future[Any]) -> None:
    """Carry what is printed, until nobody holds the terminal any more, or its shell has ended and all it printed is sent."""
    rest, waited = REST_BYTES, False
    with contextlib.suppress(ClosedError):
        while rest > 0:
            try:
                data = os.read(master, min(READ_BYTES, rest))
            except BlockingIOError:
                if told.done() and waited:
                    return
                waited = told.done()
                await (asyncio.sleep(REST_S) if waited else _either(master, told))
                continue
            except OSError:  # EIO: the last one has closed it
                return
            if not data:
                return
            rest -= len(data) if told.done() else 0
            await stream.write(data)


async def _either(master: int, told: asyncio.Future[Any]) -> None:
    """Wait until there is something to read, or the shell has ended."""
    readable = asyncio.ensure_future(ready(master, write=False))
    try:
        await asyncio.wait([readable, told], return_when=asyncio.FIRST_COMPLETED)
    finally:
        readable.cancel()
        await asyncio.gather(readable, return_exceptions=True)


async def _in(stream: Stream, master: int) -> None:
    while data := await stream.read():
        while data:
            try:
                data = data[os.write(master, data) :]
            except BlockingIOError:
                await ready(master, write=True)
            except OSError:  # the shell is gone
                await asyncio.Event().wait()  # `_out` tells the end


async def ready(descriptor: int, *, write: bool) -> None:
    """Wait until the descriptor can be read or written. Of one descriptor and direction, one waits at a time."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[None] = loop.create_future()
    add, remove = (loop.add_writer, loop.remove_writer) if write else (loop.add_reader, loop.remove_reader)
    add(descriptor, lambda: None if done.done() else done.set_result(None))
    try:
        await done
    finally:
        remove(descriptor)
