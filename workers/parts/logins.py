"""A login by ssh in a running part: its shim starts OpenSSH's server as it starts a terminal, and a stream carries both ways.

Nothing listens: the server speaks by two pipes with names. Its complaints before anybody is in come by a terminal of
its own, and become the sentence that the person reads.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from functools import partial
from typing import TYPE_CHECKING, Any, Self

from workers.controls.logins import KEYGEN, SSHD
from workers.parts.terminals import NOT_STARTED, End, carry, ready
from workers.protocol.frames import SSH_KEY, SSH_USER, ClosedError, Stream, is_shaped

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from workers.parts.terminals import Ended, Terminals

MOST_SAID = 400
"""Characters of a server's complaints that the person gets to read."""


class Logins:
    def __init__(self, terminals: Terminals) -> None:
        self._terminals = terminals

    async def serve(
        self, stream: Stream, directory: Path, asked: dict[str, Any], *, opened: Callable[[], Awaitable[None]]
    ) -> Ended:
        """Run one server until either end closes it; return code and sentence of its end. Raises OSError."""
        user, key = asked.get("user"), asked.get("key")
        if not (is_shaped(user, SSH_USER) and is_shaped(key, SSH_KEY)):
            raise ClosedError("The portal asks for an ssh that is none.")
        if not can_ssh():
            node = os.uname().nodename
            remedy = "Ask for the package openssh-server there, or use `berth shell` and `berth forward`."
            return "no_sshd", f"The node's machine, {node}, has no sshd. {remedy}", None
        master, slave = os.openpty()
        said = asyncio.ensure_future(_said(master))
        try:
            with End(directory) as end, _Pipes(directory, end.name.removesuffix(".end")) as pipes:
                try:
                    login = {"in": f"{pipes.name}.in", "out": f"{pipes.name}.out", "user": user, "key": key}
                    order = partial(self._terminals.engine.terminal, directory, os.ttyname(slave), end.name, ssh=login)
                    if not await self._terminals.start(directory, order) or not end.is_known():
                        return "not_started", NOT_STARTED, None
                finally:
                    os.close(slave)
                pipes.begun()
                await opened()
                code = await carry(stream, pipes.reader, pipes.writer, end)
                if code and stream.why is None and (why := await _last(said)):
                    return "no_ssh", why, code
                return "ended", "The connection has ended.", code
        finally:
            said.cancel()
            await asyncio.gather(said, return_exceptions=True)
            os.close(master)


def can_ssh() -> bool:
    """Say whether this machine has OpenSSH's server."""
    return os.access(SSHD, os.X_OK) and os.access(KEYGEN, os.X_OK)


class _Pipes:
    """Two pipes with names, to the server and from it."""

    def __init__(self, directory: Path, name: str) -> None:
        self.name, self._paths = name, [directory / f"{name}.in", directory / f"{name}.out"]
        self.reader = self.writer = self._held = -1

    def __enter__(self) -> Self:
        flags = os.O_NONBLOCK | os.O_CLOEXEC
        for path in self._paths:
            path.unlink(missing_ok=True)
            os.mkfifo(path, 0o600)
        self._held = os.open(self._paths[0], os.O_RDONLY | flags)  # until the server reads: else nobody could write
        self.writer = os.open(self._paths[0], os.O_WRONLY | flags)
        self.reader = os.open(self._paths[1], os.O_RDONLY | flags)
        return self

    def begun(self) -> None:
        os.close(self._held)
        self._held = -1

    def __exit__(self, *_: object) -> None:
        for descriptor in (self._held, self.writer, self.reader):
            if descriptor >= 0:
                os.close(descriptor)
        for path in self._paths:
            path.unlink(missing_ok=True)


async def _said(master: int) -> str:
    """Read all that the server complains of, so that it never waits; return its beginning."""
    os.set_blocking(master, False)
    said = b""
    with contextlib.suppress(OSError):  # nobody holds it any more
        while True:
            try:
                piece = os.read(master, 4096)
            except BlockingIOError:
                await ready(master, write=False)
                continue
            if not piece:
                break
            said = (said + piece)[: 4 * MOST_SAID]
    return said.decode(errors="replace")


async def _last(said: asyncio.Future[str]) -> str:
    await asyncio.wait([said], timeout=1.0)
    text = " ".join(said.result().split()) if said.done() else ""
    return "".join(letter for letter in text if letter.isprintable())[:MOST_SAID]
