"""A TCP connection to a port that a running part listens on, carried by a stream.

Only to ports on which the part's own processes listen: the node's own services, and those of other jobs, are not reached. Which
socket has the port is looked up for each connection, at most once a second in a part, and once more when it stands.
"""

from __future__ import annotations

import asyncio
import os
import socket
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from workers.protocol.frames import MOST_DATA, ClosedError, Stream
from workers.protocol.wire import MOST_PORTS
from workers.system.netns import Listener, inside, listeners, listeners_of, namespace_of, still_listens

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from workers.engines.process import ProcessEngine
    from workers.parts.terminals import Ended
    from workers.system.filework import FileWork

CONNECT_S = 12.0
"""A server that is busy lets some wait to be accepted; the portal gives up after 15 s."""
AGAIN_S = 1.0
"""How long a look at a part's ports holds. The socket itself is looked up again when a connection stands."""
MOST_KNOWN, CHANGED_S = 1000, 5.0
MOST_TOLD = 8
"""Most open ports that a refusal names."""


class Ports:
    def __init__(self, engine: ProcessEngine, files: FileWork) -> None:
        self._engine, self._files = engine, files
        self._looks: dict[Path, tuple[float, asyncio.Future[list[Listener]]]] = {}
        self._known: dict[Path, tuple[frozenset[int] | None, list[int]]] = {}
        self._looking: dict[Path, asyncio.Future[None]] = {}
        self.on_change: Callable[[], None] = lambda: None
        """Called when a part listens on other ports than before, at most once in `CHANGED_S`."""
        self._changed_at = -CHANGED_S

    async def serve(
        self, stream: Stream, directory: Path, asked: dict[str, Any], *, opened: Callable[[], Awaitable[None]]
    ) -> Ended:
        """Connect to `asked["port"]` and carry until one end closes; return code and sentence of its end. Raises OSError."""
        port = asked.get("port")
        if type(port) is not int or not 0 < port < 1 << 16:
            raise ClosedError("The portal asks for a port that is none.")
        listening = await self._listening(directory)
        found = [each for each in listening if each.port == port]
        if not found:
            return "not_listening", _missing(port, listening), None
        wire = await self._connect(directory, found[0])
        if wire is None:
            return "not_listening", f"The job's server on port {port} takes no connection now.", None
        with wire:
            await opened()
            await _carry(stream, wire)
        return "ended", "The job has closed the connection.", None

    def known(self, directory: Path) -> list[int]:
        """Return the ports that the part listened on at the last look, lowest first; begin the next look."""
        if len(self._known) > MOST_KNOWN:  # parts that have ended are among them
            self._known.clear()
        if directory not in self._looking:
            self._looking[directory] = looking = asyncio.ensure_future(self._look(directory))
            looking.add_done_callback(lambda _: self._looking.pop(directory, None))
        return self._known.get(directory, (frozenset(), []))[1]

    async def _look(self, directory: Path) -> None:
        """Look at the job's open files only where something else listens in its network than before."""
        with suppress(OSError):
            shim_of = self._engine.shim
            there = await self._files.run(
                f"ports {directory.name}",
                lambda: frozenset(listeners(shim.pid)) if (shim := shim_of(directory)) else None,
            )
            before, ports = self._known.get(directory, (None, []))
            if there is None or there == before:
                return
            now = asyncio.get_running_loop().time()
            found = sorted({each.port for each in await self._listening(directory)})[:MOST_PORTS]
            is_new = directory in self._looks and self._looks[directory][0] >= now
            self._known[directory] = there if is_new else None, found  # an older look may lack the change: look again
            if found != ports and now >= self._changed_at + CHANGED_S:
                self._changed_at = now
                self.on_change()

    async def _listening(self, directory: Path) -> list[Listener]:
        """Look, unless a look runs or just ended: a job of many processes is dear to look at, and callers set the pace."""
        now = asyncio.get_running_loop().time()
        self._looks = {
            each: look for each, look in self._looks.items() if not look[1].done() or now < look[0] + AGAIN_S
        }
        if directory not in self._looks:
            shim_of = self._engine.shim
            look = self._files.run(
                f"ports {directory.name}", lambda: listeners_of(shim.pid) if (shim := shim_of(directory)) else []
            )
            self._looks[directory] = now, asyncio.ensure_future(look)
        return await asyncio.shield(self._looks[directory][1])

    def _socket(self, directory: Path, family: socket.AddressFamily) -> tuple[socket.socket, int]:
        """Make a socket in the part's own network, where it stays; return it with the shim's pid. Raises OSError."""
        shim = self._engine.shim(directory)
        if shim is None:
            raise ProcessLookupError(directory)
        namespace = namespace_of(shim.pid)
        try:
            return inside(namespace, lambda: socket.socket(family, socket.SOCK_STREAM)), shim.pid
        finally:
            if namespace is not None:
                os.close(namespace)

    async def _connect(self, directory: Path, listener: Listener) -> socket.socket | None:
        about = f"ports {directory.name}"
        for host in listener.hosts:
            family = socket.AF_INET6 if ":" in host else socket.AF_INET
            try:
                wire, shim = await self._files.run(about, self._socket, directory, family)
            except OSError:  # it has ended
                return None
            wire.setblocking(False)
            try:
                async with asyncio.timeout(CONNECT_S):
                    await asyncio.get_running_loop().sock_connect(wire, (host, listener.port))
                if await self._files.run(about, still_listens, listener, shim):
                    return wire
            except (OSError, TimeoutError):
                wire.close()
            except BaseException:
                wire.close()
                raise
            else:
                wire.close()
        return None


def _missing(port: int, listening: list[Listener]) -> str:
    ports = sorted({each.port for each in listening})
    if not ports:
        return f"Nothing in the job listens on port {port}, or on any other, yet."
    there = ", ".join(map(str, ports[:MOST_TOLD])) + (" and others" if len(ports) > MOST_TOLD else "")
    return f"Nothing in the job listens on port {port}. It listens on {there}."


async def _carry(stream: Stream, wire: socket.socket) -> None:
    ways = [asyncio.ensure_future(each) for each in (_out(stream, wire), _in(stream, wire))]
    try:
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for way in ways:
            way.cancel()
        await asyncio.gather(*ways, return_exceptions=True)


async def _out(stream: Stream, wire: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    with suppress(ClosedError, OSError):
        while data := await loop.sock_recv(wire, MOST_DATA):
            await stream.write(data)


async def _in(stream: Stream, wire: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    try:
        while data := await stream.read():
            await loop.sock_sendall(wire, data)
    except OSError:  # it takes no more; its own remaining bytes are carried
        await asyncio.Event().wait()
