"""uvicorn's protocols for HTTP and WebSockets, which tell `Connections` where each connection stands."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from django.conf import settings
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.protocols.utils import get_remote_addr
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from portal.foundation.job_names import MOST_MESSAGE, is_job_host
from portal.launch.serving.connections import Connection

if TYPE_CHECKING:
    import ssl

    from uvicorn._types import ASGI3Application, ASGISendEvent
    from websockets.http11 import Request

    from portal.launch.serving.connections import Connections, Line


class PipelineError(Exception):
    """A client sends more requests than it may before it has the first one's answer."""


class BoundedHttp(HttpToolsProtocol):
    """One connection. With `tls` its handshake is begun here, so that it is counted and timed like a head."""

    def __init__(self, *, held: Connections, tls: ssl.SSLContext | None, **ours: Any) -> None:
        super().__init__(**ours)
        self.held, self.tls = held, tls
        self.connection: Connection
        self._peer: str | None = None
        self._running: RequestResponseCycle | None = None
        self._early = b""
        self._unused = self._got = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self.transport = transport
        peer = get_remote_addr(transport)
        self._peer = peer[0] if peer and not self._is_proxy(peer[0]) else None
        self.connection = Connection(transport, self._peer, self._rests)
        if not self.held.enter(self.connection, self.loop.time()):
            transport.abort()
        elif self.tls is None:
            super().connection_made(transport)
        else:
            transport.pause_reading()  # the handshake goes on reading
            self.connections.add(self)
            self._handshake = self.loop.create_task(self._shake_hands(self.tls))

    async def _shake_hands(self, context: ssl.SSLContext) -> None:
        limit_s = self.held.limits.stand_s
        encrypted: asyncio.Transport | None = None
        try:
            shaking = self.loop.start_tls(
                self.transport, self, context, server_side=True, ssl_handshake_timeout=limit_s
            )
            begun = self.loop.create_task(shaking)
            await asyncio.sleep(0)  # it takes the transport over
            self.loop.call_soon(self._hand_over)
            encrypted = await begun
        except (OSError, RuntimeError) as error:  # it broke off, took too long, or is no TLS
            self.logger.debug("no TLS: %s", error)
        if encrypted is None or self.connection.line is None:
            self.connections.discard(self)
            self.held.close(self.connection)
            return
        self.connection.tls = encrypted
        super().connection_made(encrypted)
        if self._early:
            self.data_received(self._early)

    def _hand_over(self) -> None:
        """Give the handshake the bytes that came before it: uvloop reads on where a transport is paused at its beginning."""
        came, self._early = self._early, b""
        receiving: Any = self.transport.get_protocol()  # an asyncio.BufferedProtocol, though uvloop's does not say so
        if came and receiving is not self:
            memoryview(receiving.get_buffer(len(came)))[: len(came)] = came
            receiving.buffer_updated(len(came))

    def connection_lost(self, exc: Exception | None) -> None:
        self.held.leave(self.connection)
        if self._running is not None:  # of requests in a row uvicorn tells only the last
            self._running.disconnected = True
            self._running.message_event.set()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self.flow is None:  # it came before the handshake, or with its end
            self._early += data
            return
        self._unused += len(data)
        super().data_received(data)
        if self._unused > self.held.limits.head_bytes:
            self.held.close(self.connection)

    def on_message_begin(self) -> None:
        self._wait_for(self.held.heads, self._peer)
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._wait_for(self.held.bodies, self._caller())
        self._got = 0
        self.scope["extensions"] = {
            "berth.cut": {"cut": self.transport.abort}
        }  # an answer that stops is not to look whole
        super().on_headers_complete()
        if len(self.pipeline) > self.held.limits.pipelined:
            raise PipelineError

    def on_body(self, body: bytes) -> None:
        self._unused, self._got = 0, self._got + len(body)
        if self._got >= self.held.limits.piece:
            self._got = 0
            self._wait_for(self.held.bodies, self.connection.address)
        super().on_body(body)

    def on_message_complete(self) -> None:
        super().on_message_complete()
        answered = self.cycle is not None and self.cycle.response_complete
        self._wait_for(self.held.idle if answered else self.held.live, self.connection.address)

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.connection.line is self.held.live and not self.pipeline:
            self._wait_for(self.held.idle, self.connection.address)

    def handle_websocket_upgrade(self) -> None:
        super().handle_websocket_upgrade()
        socket = self.transport.get_protocol()
        assert isinstance(socket, BoundedSocket)
        socket.held, socket.connection = self.held, self.connection
        self._wait_for(self.held.live, self.connection.address)

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: ASGI3Application) -> None:
        self._running = cycle
        super()._start_asgi_task(cycle, app)

    def _wait_for(self, line: Line, address: str | None) -> None:
        self._unused = 0
        self.held.move(self.connection, line, self.loop.time(), address)

    def _rests(self) -> bool:
        """Whether the connection stands still because of the server, or of an answer that is still being read."""
        if self.flow is None:
            return False
        line = self.connection.line
        invited = line is self.held.bodies and self.cycle is not None and self.cycle.waiting_for_100_continue
        return self.flow.read_paused or invited or (line is self.held.idle and self.connection.unsent() > 0)

    def _is_proxy(self, address: str) -> bool:
        return isinstance(self.app, ProxyHeadersMiddleware) and address in self.app.trusted_hosts

    def _caller(self) -> str | None:
        """Return whose request the head is: the address that a trusted proxy forwards, else the other side's."""
        said = b", ".join(value for name, value in self.headers if name == b"x-forwarded-for").decode("latin-1")
        if self._peer is not None or not said or not isinstance(self.app, ProxyHeadersMiddleware):
            return self._peer
        return self.app.trusted_hosts.get_trusted_client_address(said)[0] or None


class BoundedSocket(WebSocketsSansIOProtocol):
    """A WebSocket, which was a `BoundedHttp` before.

    To a page of a job it carries larger messages, and compresses none: that would hold the loop for each of them.
    """

    held: Connections
    connection: Connection

    def handle_connect(self, event: Request) -> None:
        hosts = event.headers.get_all("Host")
        if len(hosts) == 1 and is_job_host(hosts[0], settings.JOBS_DOMAIN):
            self.conn.max_message_size, self.conn.available_extensions = MOST_MESSAGE, None
        super().handle_connect(event)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        size = len(self.conn.reader.buffer) + (self.conn.current_size or 0)
        if hasattr(self, "held") and not self.held.hold(self.connection, size):  # the handshake comes before it
            self.held.close(self.connection)

    async def send(self, message: ASGISendEvent) -> None:
        """Return when the other side has read so much that more may be sent: until then the message is in this process."""
        await super().send(message)
        await self.writable.wait()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self.held.leave(self.connection)
