"""TCP connections that can be cut, held and slowed: between Berth and its database, its broker and its nodes."""

import asyncio
import contextlib
import threading

PASS, HOLD, RESET, SLOW = "pass", "hold", "reset", "slow"
LOOK_S = 0.05


class Wires:
    """Forwards ports of this machine, each by a mode of its own, in a thread of its own.

    `hold`: nothing is forwarded and nobody is told, as where packets are lost; `reset`: each connection is reset; `slow`:
    each piece comes 50 ms late.
    """

    def __init__(self):
        self._modes, self._free = {}, {}
        self._loop = asyncio.new_event_loop()
        self._servers = []
        threading.Thread(target=self._loop.run_forever, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._loop.call_soon_threadsafe(self._loop.stop)

    def add(self, name, target):
        """Forward a free port to `target`, (host, port) or the path of a socket; return the port."""
        self._modes[name], self._free[name] = PASS, asyncio.Event()
        self._free[name].set()
        return asyncio.run_coroutine_threadsafe(self._listen(name, target), self._loop).result(timeout=10)

    @contextlib.contextmanager
    def broken(self, names, mode):
        """Hold, reset or slow these wires within."""
        self._loop.call_soon_threadsafe(self._set, names, mode)
        try:
            yield
        finally:
            self._loop.call_soon_threadsafe(self._set, names, PASS)

    def _set(self, names, mode):
        for name in names:
            self._modes[name] = mode
            if mode == HOLD:
                self._free[name].clear()
            else:
                self._free[name].set()

    async def _listen(self, name, target):
        server = await asyncio.start_server(lambda r, w: self._serve(name, target, r, w), "127.0.0.1", 0)
        self._servers.append(server)
        return server.sockets[0].getsockname()[1]

    async def _serve(self, name, target, reader, writer):
        await self._free[name].wait()
        try:
            if isinstance(target, str):
                there = await asyncio.open_unix_connection(target)
            else:
                there = await asyncio.open_connection(*target)
        except OSError:
            writer.transport.abort()
            return
        ends = [
            asyncio.ensure_future(self._pump(name, reader, there[1])),
            asyncio.ensure_future(self._pump(name, there[0], writer)),
        ]
        while self._modes[name] != RESET and not all(end.done() for end in ends):
            await asyncio.wait(ends, timeout=LOOK_S)
        if self._modes[name] == RESET:
            writer.transport.abort()
            there[1].transport.abort()

    async def _pump(self, name, source, target):
        with contextlib.suppress(OSError):
            while data := await source.read(65536):
                await self._free[name].wait()
                if self._modes[name] == SLOW:
                    await asyncio.sleep(0.05)
                target.write(data)
                await target.drain()
        target.close()
