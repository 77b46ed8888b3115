"""A terminal of a running part: the agent holds the pty, the part's shim starts the shell on it, a stream carries both ways.

The shell's output is read only as far as the stream takes it, so a job that floods its terminal waits as on any slow one.
When the stream or the agent ends the pty is closed, and the shell is hung up. Its exit code comes from the shim, through a
pipe with a name: its background processes may hold its terminal open, and are not waited for.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import struct
import termios
import tty
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from workers.parts.ptys import End, carried
from workers.protocol.frames import MOST_SIZE, ClosedError
from workers.system.filework import SlowFilesError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from workers.engines import Engine
    from workers.protocol.frames import Stream
    from workers.system.filework import FileWork

Ended = tuple[str, str, int | None]
LOOK_S, PATIENCE_S = 0.05, 5.0
"""How often it looks whether the shim has taken the order, and how long; a shim looks each second, and at a signal at once."""
NOT_STARTED = "The job did not start a shell. It began before this node's Berth was renewed, or it is just ending."


class Terminals:
    """Starts the shells, one order at a time in each part."""

    def __init__(self, engine: Engine, files: FileWork) -> None:
        self._engine, self._files = engine, files
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
                    ordered = Ordered(os.ttyname(slave), end.name, command, plain=plain)
                    if not await self._start(directory, ordered) or not end.is_known():
                        return "not_started", NOT_STARTED, None
                finally:
                    os.close(slave)
                await opened()
                exit_code = await carried(stream, master, end)
        finally:
            stream.on_size = lambda _columns, _rows: None
            os.close(master)
        return "ended", "The shell has ended." if command is None else "The command has ended.", exit_code

    async def _start(self, directory: Path, order: Ordered) -> bool:
        lock = self._locks.setdefault(directory, asyncio.Lock())
        try:
            async with lock:
                return await self._given(directory, order)
        finally:
            if not lock.locked():
                self._locks.pop(directory, None)

    async def _given(self, directory: Path, order: Ordered) -> bool:
        about, deadline = f"terminal {directory.name}", asyncio.get_running_loop().time() + PATIENCE_S
        try:
            await self._files.run(about, order.give, self._engine, directory)
            while asyncio.get_running_loop().time() < deadline:
                if await self._files.run(about, self._engine.terminal_taken, directory):
                    return True
                await asyncio.sleep(LOOK_S)
            await self._files.run(about, self._engine.terminal_forget, directory)
        except SlowFilesError:  # it is among the node's problems
            return False
        return False


@dataclass(frozen=True, slots=True)
class Ordered:
    tty: str
    end: str
    command: str | None
    plain: bool

    def give(self, engine: Engine, directory: Path) -> None:
        engine.terminal(directory, self.tty, self.end, self.command, plain=self.plain)


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
