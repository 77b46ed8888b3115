"""uvicorn's server with bounded connections, and a Unix socket beside its port for the supervisor."""

from __future__ import annotations

import asyncio
import logging
import socket
import sys
from functools import partial
from typing import TYPE_CHECKING

from uvicorn import Config, Server
from uvicorn.config import STARTUP_FAILURE

from portal.launch.serving.connections import Connections
from portal.launch.serving.limits import LIMITS, connections_most, files_raise
from portal.launch.serving.protocols import BoundedHttp

if TYPE_CHECKING:
    from pathlib import Path

    from portal.launch.serving.limits import Limits

MOST_PRIVATE = 64

log = logging.getLogger("uvicorn.error")


class PortalServer(Server):
    """Serves `config` on its port; on `private`, a path, only this account. A full port leaves that open."""

    def __init__(self, config: Config, *, private: Path | None, limits: Limits = LIMITS) -> None:
        super().__init__(config)
        self.private = private
        self.outside = Connections(limits, most=connections_most())
        self.inside = Connections(limits, most=MOST_PRIVATE)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        files_raise()
        await super().startup(sockets=sockets or [])
        try:
            await self._listen()
        except OSError as error:
            log.error(error)  # noqa: TRY400 - as uvicorn says it
            await self.lifespan.shutdown()
            sys.exit(STARTUP_FAILURE)

    async def _listen(self) -> None:
        config, loop = self.config, asyncio.get_running_loop()
        made = partial(BoundedHttp, config=config, server_state=self.server_state, app_state=self.lifespan.state)
        if self.private is not None:
            within = partial(made, held=self.inside, tls=None)
            self.servers.append(await loop.create_unix_server(within, sock=_private_socket(self.private)))
        outside = partial(made, held=self.outside, tls=config.ssl)
        listening = loop.create_server(outside, config.host, config.port, backlog=config.backlog)
        self.servers.append(await listening)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await super().shutdown(sockets)
        if self.private is not None:
            self.private.unlink(missing_ok=True)

    async def on_tick(self, counter: int) -> bool:
        now = asyncio.get_running_loop().time()
        self.outside.look(now)
        self.inside.look(now)
        return await super().on_tick(counter)


def _private_socket(path: Path) -> socket.socket:
    """Bind a Unix socket that only its owner may connect to, in place of one that an earlier portal left."""
    path.unlink(missing_ok=True)
    bound = socket.socket(socket.AF_UNIX)
    bound.bind(str(path))
    path.chmod(0o600)  # before it listens
    return bound
