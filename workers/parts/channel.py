"""The channel: one WebSocket that the agent opens to the portal when `sync` says so. It carries terminals and connections to
ports of jobs as streams.

It lives beside the agent's loops and never stops them: the streams' windows limit its memory, and a failure
here ends only the channel. The portal asks for a new one when it needs one.
"""

from __future__ import annotations

import asyncio
import ssl
from typing import TYPE_CHECKING, Any

from workers.parts.logins import Logins
from workers.protocol.frames import (
    MOST_DATA,
    ClosedError,
    FrameError,
    Kind,
    Stream,
    pack,
    pack_end,
    unpack,
    unpack_object,
)
from workers.system import log
from workers.system.room import is_no_room

if TYPE_CHECKING:
    from pathlib import Path

    from workers.parts.journal import Journal
    from workers.parts.part import Part
    from workers.parts.ports import Ports
    from workers.parts.terminals import Ended, Terminals

MOST_OF_NODE = 256
MOST_OF_JOB = {"terminal": 16, "ssh": 16, "port": 128}
"""Streams that are open at one time, even where the portal allows more (its BERTH_TERMINALS_PER_PART)."""
NO_ROOM = "The disk of the job's node is full, so no terminal can be opened. Jobs run on; tell an operator."
BROKEN = "The node could not carry it, for a reason that stands in its agent's log. Try again; tell an operator if it stays so."
OPEN_S = 10.0
MOST_FRAME = MOST_DATA + 64


class Channel:
    """Opens the channel where the portal wants it, and serves its streams until it ends."""

    def __init__(self, url: str, *, token: str, verify: ssl.SSLContext | bool) -> None:
        self._url = f"ws{url.removeprefix('http')}/api/agent/v1/channel"
        self._token, self._verify = token, verify
        self._journal: Journal | None = None
        self._servers: dict[str, Terminals | Logins | Ports] = {}
        self._task: asyncio.Task[None] | None = None
        self._streams: dict[int, Stream] = {}
        self._jobs: dict[int, tuple[str, str]] = {}
        self._serving: set[asyncio.Task[None]] = set()
        self._sending = asyncio.Lock()

    def attend(self, journal: Journal, terminals: Terminals, ports: Ports) -> None:
        """Tell it where parts are found, shells are started and ports are reached."""
        self._journal = journal
        self._servers = {"terminal": terminals, "ssh": Logins(terminals), "port": ports}

    def open(self) -> None:
        """Open the channel, unless it is open or being opened."""
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run())

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        try:
            await self._talk()
        except ImportError as error:
            log.error(
                "no channel: terminals need the package websockets", remedy=f"install workers/requirements.txt: {error}"
            )
        except (OSError, FrameError, TimeoutError) as error:
            log.warning("channel ends", reason=f"{type(error).__name__}: {error}")
        except Exception as error:  # noqa: BLE001 - jobs, reports and leases must not depend on it
            log.error("channel ends", reason=f"{type(error).__name__}: {error}")
        finally:
            for stream in list(self._streams.values()):
                stream.end("channel", "The node has lost its connection to the portal.")
            for task in list(self._serving):
                task.cancel()
            await asyncio.gather(*self._serving, return_exceptions=True)
            self._streams.clear()
            self._jobs.clear()

    async def _talk(self) -> None:
        from websockets.asyncio.client import connect  # an agent without a terminal does without it
        from websockets.exceptions import WebSocketException

        try:
            async with connect(
                self._url,
                additional_headers={"Authorization": f"Bearer {self._token}"},
                ssl=self._context() if self._url.startswith("wss:") else None,
                proxy=None,  # a proxy from the environment would see the token
                compression=None,
                open_timeout=OPEN_S,
                max_size=MOST_FRAME,
                max_queue=4,
            ) as socket:
                log.info("channel open")

                async def send(frame: bytes) -> None:
                    async with self._sending:
                        await socket.send(frame)

                async for frame in socket:
                    if isinstance(frame, bytes):
                        self._take(frame, send)
        except WebSocketException as error:
            log.info("channel closed", reason=str(error))

    def _context(self) -> ssl.SSLContext:
        if isinstance(self._verify, ssl.SSLContext):
            return self._verify
        context = ssl.create_default_context()
        if not self._verify:
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        return context

    def _take(self, frame: bytes, send: Any) -> None:
        """Take one frame. Never waits. Raises FrameError."""
        kind, number, body = unpack(frame)
        stream = self._streams.get(number)
        if kind is Kind.OPEN:
            if stream is not None:
                raise FrameError(f"stream {number} is open already")
            asked, stream = unpack_object(body), Stream(number, send)
            task = asyncio.create_task(self._serve(stream, asked, send))
            self._streams[number] = stream
            self._serving.add(task)
            task.add_done_callback(self._serving.discard)
        elif stream is not None:  # else it has ended here, and the other end does not know yet
            stream.take(kind, body)

    async def _serve(self, stream: Stream, asked: dict[str, Any], send: Any) -> None:
        exit_code = None
        try:
            code, detail, exit_code = await self._serve_kind(stream, asked, send)
        except ClosedError as error:
            code, detail = "closed", str(error)
        except OSError as error:
            code, detail = "failed", NO_ROOM if is_no_room(error) else f"The node could not open it: {error}."
        except Exception as error:  # noqa: BLE001 - whoever waits for it must hear that it has ended
            log.error(
                "a stream of the channel failed", kind=str(asked.get("kind")), reason=f"{type(error).__name__}: {error}"
            )
            code, detail = "failed", BROKEN
        finally:
            self._streams.pop(stream.number, None)
            self._jobs.pop(stream.number, None)
        stream.end(code, detail)
        await send(pack(Kind.CLOSE, stream.number, pack_end(code, detail, exit_code)))

    async def _serve_kind(self, stream: Stream, asked: dict[str, Any], send: Any) -> Ended:
        found, kind = self._part(asked), str(asked.get("kind"))
        if found is None:
            return "not_running", "This attempt of the job does not run on the node.", None
        part, directory = found
        if len(self._streams) > MOST_OF_NODE:
            return "too_many", f"The node has {MOST_OF_NODE} terminals and connections open, which is the most.", None
        if list(self._jobs.values()).count((kind, part.key)) >= MOST_OF_JOB[kind]:
            what = {"terminal": "terminals", "ssh": "connections by ssh"}.get(kind, "connections to its ports")
            return "too_many", f"The job has {MOST_OF_JOB[kind]} {what} open, which is the most. Close one.", None
        self._jobs[stream.number] = kind, part.key
        return await self._servers[kind].serve(
            stream, directory, asked, opened=lambda: send(pack(Kind.OPENED, stream.number))
        )

    def _part(self, asked: dict[str, Any]) -> tuple[Part, Path] | None:
        """Return the part that is meant, and its directory: that attempt, epoch and rank, and running."""
        assert self._journal is not None
        if str(asked.get("kind")) not in self._servers:
            return None
        wanted = tuple(asked.get(name) for name in ("attempt", "epoch", "rank"))
        for part in self._journal.parts.values():
            if (part.attempt, part.epoch, part.rank) == wanted and part.phase == "running":
                return part, self._journal.directory(part)
        return None
