"""A terminal of a running part: the agent holds the pty, the part's shim starts the shell on it, a stream carries both ways.

The shell's output is read only as far as the stream takes it, so a job that floods its terminal waits as on any slow one.
When the stream or the agent ends the pty is closed, and the shell is hung up. Its exit code comes from the shim, through a
pipe with a name: its background processes may hold its terminal open, and are not waited for.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import struct
import termios
import tty
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any, Self

from workers.protocol.frames import MOST_SIZE, ClosedError, Stream
from workers.system.filework import FileWork, SlowFilesError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from workers.engines.process import ProcessEngine

Ended = tuple[str, str, int | None]
LOOK_S, PATIENCE_S = 0.05, 5.0
"""How often it looks whether the shim has taken the order, and how long; a shim looks each second, and at a signal at once."""
READ_BYTES = 16 * 1024
REST_BYTES, REST_S = 64 * 1024, 0.05
"""A shell's last output is in the kernel's buffers: at most these bytes, and it shows within these seconds."""
TOLD_S = 3.0
"""How long the exit code may come after the terminal was closed."""
_numbers = count(1)
NOT_STARTED = "The job did not start a shell. It began before this node's Berth was renewed, or it is just ending."


class Terminals:
    def __init__(self, engine: ProcessEngine, files: FileWork) -> None:
        self.engine, self._files = engine, files
        self._locks: dict[Path, asyncio.Lock] = {}

    async def serve(
        self, stream: Stream, directory: Path, asked: dict[str, Any], *, opened: Callable[[], Awaitable[None]]
    ) -> Ended:
        """Run one terminal until either end closes it; return code and sentence of its end, and its exit code.

        Raises OSError. `asked`: may have `command`, which runs instead of a shell; `columns` and `rows`; and `plain`, where
        nobody types: the command's output comes as it is.
        """
        command, plain = _command_of(asked)
        master, slave = os.openpty()
        stream.on_size = lambda columns, rows: _resize(master, columns, rows)
        try:
            with End(directory) as end:
                try:
                    os.set_blocking(master, False)
                    _resize(master, *_size_of(asked))
                    if plain:
                        tty.setraw(slave)
                    order = partial(self.engine.terminal, directory, os.ttyname(slave), end.name, command, plain=plain)
                    if not await self.start(directory, order) or not end.is_known():
                        return "not_started", NOT_STARTED, None
                finally:
                    os.close(slave)
                await opened()
                exit_code = await carry(stream, master, master, end)
        finally:
            stream.on_size = lambda _columns, _rows: None
            os.close(master)
        return "ended", "The shell has ended." if command is None else "The command has ended.", exit_code

    async def start(self, directory: Path, order: Callable[[], None]) -> bool:
        """Hand an order to the part's shim; say whether it was taken."""
        lock = self._locks.setdefault(directory, asyncio.Lock())
        try:
            async with lock:
                return await self._give(directory, order)
        finally:
            if not lock.locked():
                self._locks.pop(directory, None)

    async def _give(self, directory: Path, order: Callable[[], None]) -> bool:
        about, deadline = f"terminal {directory.name}", asyncio.get_running_loop().time() + PATIENCE_S
        try:
            await self._files.run(about, order)
            while asyncio.get_running_loop().time() < deadline:
                if await self._files.run(about, self.engine.terminal_taken, directory):
                    return True
                await asyncio.sleep(LOOK_S)
            await self._files.run(about, self.engine.terminal_forget, directory)
        except SlowFilesError:  # it is among the node's problems
            return False
        return False


def _command_of(asked: dict[str, Any]) -> tuple[str | None, bool]:
    command, plain = asked.get("command"), asked.get("plain") is True
    if not isinstance(command, str | None) or (plain and command is None):
        raise ClosedError("The portal asks for a command that is none.")
    return command, plain


def _size_of(asked: dict[str, Any]) -> tuple[int, int]:
    columns, rows = asked.get("columns"), asked.get("rows")
    if type(columns) is not int or type(rows) is not int:
        return (80, 24)
    return (columns, rows) if 0 < columns <= MOST_SIZE and 0 < rows <= MOST_SIZE else (80, 24)


def _resize(master: int, columns: int, rows: int) -> None:
    fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


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

    async def read_code(self) -> int | None:
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


async def carry(stream: Stream, reader: int, writer: int, end: End) -> int | None:
    """Carry both ways until the shell ends or the stream does; return the exit code, None where there is none."""
    told = asyncio.ensure_future(end.read_code())
    out, back = asyncio.ensure_future(_out(stream, reader, told)), asyncio.ensure_future(_in(stream, writer))
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
