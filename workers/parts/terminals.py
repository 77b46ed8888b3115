"""A terminal of a running part: the agent holds the pty, the part's shim starts the shell on it, a stream carries both ways.

What the shell prints is read only as far as the stream takes it, so a job that floods its terminal waits as on any slow one.
When the stream or the agent ends the pty is closed, and the shell is hung up.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import struct
import termios
from typing import TYPE_CHECKING

from workers.protocol.frames import ClosedError
from workers.system.filework import SlowFilesError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from workers.engines import Engine
    from workers.protocol.frames import Stream
    from workers.system.filework import FileWork

READ_BYTES = 16 * 1024
LOOK_S, PATIENCE_S = 0.05, 5.0
"""How often it looks whether the shim has taken the order, and how long; a shim looks each second, and at a signal at once."""
NOT_STARTED = "The job did not start a shell. It began before this node's Berth was renewed, or it is just ending."


class Terminals:
    """Starts the shells, one order at a time in each part."""

    def __init__(self, engine: Engine, files: FileWork) -> None:
        self._engine, self._files = engine, files
        self._locks: dict[Path, asyncio.Lock] = {}

    async def serve(self, stream: Stream, directory: Path, *, opened: Callable[[], Awaitable[None]]) -> tuple[str, str]:
        """Run one terminal until either end closes it; return the code and sentence of its end. Raises OSError."""
        master, slave = os.openpty()
        stream.on_size = lambda columns, rows: _resize(master, columns, rows)
        try:
            os.set_blocking(master, False)
            try:
                if not await self._start(directory, os.ttyname(slave)):
                    return "not_started", NOT_STARTED
            finally:
                os.close(slave)
            await opened()
            await _carry(stream, master)
        finally:
            stream.on_size = lambda _columns, _rows: None
            os.close(master)
        return "ended", "The shell has ended."

    async def _start(self, directory: Path, tty: str) -> bool:
        lock = self._locks.setdefault(directory, asyncio.Lock())
        try:
            async with lock:
                return await self._ordered(directory, tty)
        finally:
            if not lock.locked():
                self._locks.pop(directory, None)

    async def _ordered(self, directory: Path, tty: str) -> bool:
        about, deadline = f"terminal {directory.name}", asyncio.get_running_loop().time() + PATIENCE_S
        try:
            await self._files.run(about, self._engine.terminal, directory, tty)
            while asyncio.get_running_loop().time() < deadline:
                if await self._files.run(about, self._engine.terminal_taken, directory):
                    return True
                await asyncio.sleep(LOOK_S)
            await self._files.run(about, self._engine.terminal_forget, directory)
        except SlowFilesError:  # it is among the node's problems
            return False
        return False


def _resize(master: int, columns: int, rows: int) -> None:
    fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


async def _carry(stream: Stream, master: int) -> None:
    """Carry both ways until the shell ends or the stream does."""
    ways = [asyncio.ensure_future(_out(stream, master)), asyncio.ensure_future(_in(stream, master))]
    try:
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for way in ways:
            way.cancel()
        await asyncio.gather(*ways, return_exceptions=True)


async def _out(stream: Stream, master: int) -> None:
    with contextlib.suppress(ClosedError):
        while data := await _read(master):
            await stream.write(data)


async def _in(stream: Stream, master: int) -> None:
    while data := await stream.read():
        while data:
            try:
                data = data[os.write(master, data) :]
            except BlockingIOError:
                await _ready(master, write=True)
            except OSError:  # the shell is gone
                return


async def _read(master: int) -> bytes:
    """Return what the shell printed; b"" when nobody holds its end any more."""
    while True:
        try:
            return os.read(master, READ_BYTES)
        except BlockingIOError:
            await _ready(master, write=False)
        except OSError:  # EIO: the last one has closed it
            return b""


async def _ready(descriptor: int, *, write: bool) -> None:
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[None] = loop.create_future()
    add, remove = (loop.add_writer, loop.remove_writer) if write else (loop.add_reader, loop.remove_reader)
    add(descriptor, lambda: None if ready.done() else ready.set_result(None))
    try:
        await ready
    finally:
        remove(descriptor)
