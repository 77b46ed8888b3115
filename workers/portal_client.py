"""The calls of docs/agent-protocol.md. They fail in two ways: the portal is away, or it refuses."""

from __future__ import annotations

import json
import random
import time
import zlib
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any

import httpx2

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterable

    from workers.protocol.engine import (
        EngineDescription,
        Enrolled,
        ExchangeAnswer,
        ExchangeBody,
        HistoryAnswer,
        HistoryHead,
    )
    from workers.protocol.inventory import Inventory
    from workers.protocol.wire import (
        ArtefactsAnswer,
        ArtefactsRequest,
        Hello,
        LeaveBody,
        LogAnswer,
        LogsAnswer,
        LogsBody,
        PartName,
        RecordsAnswer,
        RecordsBody,
        Registered,
        ReportAnswer,
        ReportBody,
        Secrets,
        Spec,
        Sync,
        Telemetry,
    )

_PREFIX = "/api/agent/v1/"
_TIMEOUT_S = 15.0
_HISTORY_S = 300.0
_CHECKED_BYTES_S = 100e6


NUMBER = (int, float)
SEEN: dict[str, dict[str, type | tuple[type, ...]]] = {
    "register": {"node": (int, str), "name": str, "token": str},
    "hello": {
        "name": str,
        **dict.fromkeys(("report_period_s", "sample_period_s", "grace_s", "lease_grace_s"), NUMBER),
        "measures": dict,
    },
    "sync": {"revision": int, "attempts": list},
    "report": dict.fromkeys(("accepted", "refused", "leases", "stop"), list),
    "records": {"parts": list},
    "artefacts": {"files": list},
    "artefacts/piece": {"next_offset": int},
    "logs": {"next_offset": int},
    "logs/together": {"pieces": list},
    "attach": {"engine": str, "token": str},
    "exchange": {"period_s": NUMBER, **dict.fromkeys(("submit", "follow", "stop"), list)},
    "history": {"page": str, "owner": str, "jobs": int},
}
"""Fields that an answer has at least. A proxy between may answer for the portal, with JSON of its own."""


class PortalAwayError(Exception):
    """The portal did not answer, or asked to try later."""


class PortalFullError(PortalAwayError):
    """The portal answers, but its disk is full: send it again later."""


class PortalFailedError(PortalAwayError):
    """The portal answers, and erred over this very call: others may do better."""


class PortalRefusedError(Exception):
    """The portal refused the call, and will refuse the same call again."""

    def __init__(self, status: int, code: str, detail: str, body: Any) -> None:
        super().__init__(f"{status} {code}: {detail}")
        self.detail = detail
        self.status = status
        self.code = code
        self.body = body


@dataclass(slots=True)
class Backoff:
    """Exponential pauses with random parts, so that a thousand agents do not come back at the same moment."""

    first_s: float
    max_s: float
    _tries: int = 0

    def next_s(self) -> float:
        ceiling = min(self.max_s, self.first_s * 2 ** min(self._tries, 30))
        self._tries += 1
        return random.uniform(ceiling / 2, ceiling)  # noqa: S311 - spread, not secrecy

    def reset(self) -> None:
        self._tries = 0


async def try_each(calls: Iterable[Callable[[], Awaitable[Any]]]) -> bool:
    """Make every call: one that the portal fails over holds back no other. Return whether one said that there is more.

    Raises the last PortalFailedError.
    """
    more, failed = False, None
    for call in calls:
        try:
            more |= bool(await call())
        except PortalFailedError as error:
            failed = error
    if failed is not None:
        raise failed
    return more


def _raise_for(response: httpx2.Response) -> None:
    if response.status_code < 400:
        return
    if response.status_code == 507:
        raise PortalFullError("the portal's disk is full")
    if response.status_code == 500:
        raise PortalFailedError("the portal answers 500")
    if response.status_code > 500 or response.status_code in {408, 425, 429}:
        raise PortalAwayError(f"the portal answers {response.status_code}")
    try:
        body = response.json()
        error = body["error"]
        code, detail = str(error["code"]), str(error.get("detail", ""))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        body, code, detail = None, "unknown", response.text[:200]
    raise PortalRefusedError(response.status_code, code, detail, body)


def _told_at(refusal: PortalRefusedError) -> LogAnswer:
    """Return from where to go on, which the portal's envelope may carry beside `error` or inside. Raises what it was given."""
    body = refusal.body if isinstance(refusal.body, dict) else {}
    for where in (body, body.get("error")):
        if isinstance(where, dict) and isinstance(found := where.get("next_offset"), int):
            return {"next_offset": found, "full": bool(where.get("full"))}
    raise refusal


def _answer_of(response: httpx2.Response, path: str) -> Any:
    """Return the value of an answer. Raises ValueError without JSON, PortalAwayError for an answer of a stranger."""
    answer = response.json() if response.content else None
    if path in {"telemetry", "leave"}:
        return answer
    if not isinstance(answer, dict):
        raise PortalAwayError(f"a stranger answers {path}, and no portal: it says no object")
    for name, kind in SEEN.get(path, {}).items():
        if not isinstance(answer.get(name), kind):
            raise PortalAwayError(f"a stranger answers {path}, and no portal: {name} is missing or of another kind")
    return answer


def _skew_s(response: httpx2.Response, begun: float) -> float | None:
    """Return by how much this machine's clock is ahead of the portal's, to a second or so; None when it does not say.

    The portal wrote its time, in whole seconds, at some moment between `begun` and now.
    """
    try:
        theirs = parsedate_to_datetime(response.headers["date"]).timestamp()
    except (KeyError, ValueError):
        return None
    now = time.time()
    if begun - 1.0 <= theirs <= now:
        return 0.0
    return begun - 1.0 - theirs if theirs < begun - 1.0 else now - theirs


class Portal:
    """One node's view of the portal. Every call raises PortalAwayError or PortalRefusedError."""

    prefix = _PREFIX

    def __init__(self, url: str, *, token: str, verify: ssl.SSLContext | bool) -> None:
        self._http = httpx2.AsyncClient(
            base_url=url + self.prefix,
            headers={"Authorization": f"Bearer {token}"},
            timeout=_TIMEOUT_S,
            verify=verify,
            trust_env=False,  # a proxy from the environment would see the token
        )
        self.on_success: Callable[[], None] = lambda: None
        self.on_skew: Callable[[float], None] = lambda _: None

    async def close(self) -> None:
        await self._http.aclose()

    async def _call(self, method: str, path: str, *, tell_skew: bool = False, **arguments: Any) -> Any:
        begun = time.time()
        try:
            response = await self._http.request(method, path, **arguments)
            if tell_skew and (skew_s := _skew_s(response, begun)) is not None:
                self.on_skew(skew_s)
            _raise_for(response)
            answer = _answer_of(response, path)
            self.on_success()
        except httpx2.TransportError as error:
            raise PortalAwayError(f"{type(error).__name__}: {error}") from error
        except (ValueError, RecursionError) as error:
            raise PortalAwayError(f"the portal's answer is no JSON: {error}") from error
        return answer

    async def register(self, inventory: Inventory) -> Registered:
        answer: Registered = await self._call("POST", "register", json=inventory)
        return answer

    async def hello(self, inventory: Inventory) -> Hello:
        answer: Hello = await self._call("POST", "hello", json=inventory)
        return answer

    async def sync(self, *, revision: int, wait_s: float) -> Sync:
        query = {"revision": revision, "wait": wait_s}
        answer: Sync = await self._call("GET", "sync", params=query, timeout=wait_s + _TIMEOUT_S)
        return answer

    async def spec(self, attempt: str) -> Spec | None:
        """Return the attempt's description; None when it is not, or no longer, wanted here."""
        try:
            spec: Spec = await self._call("GET", f"attempts/{attempt}/spec")
        except PortalRefusedError as refusal:
            if refusal.status == 404:
                return None
            raise
        return spec

    async def secrets(self, attempt: str) -> Secrets:
        found: Secrets = await self._call("GET", f"attempts/{attempt}/secrets")
        return found

    async def content(self, attempt: str, sha256: str) -> AsyncIterator[bytes]:
        """Yield a content of a job's upload, in pieces of 256 KiB or a little more."""
        try:
            async with self._http.stream("GET", f"attempts/{attempt}/content/{sha256}") as response:
                if response.status_code >= 400:
                    await response.aread()
                    _raise_for(response)
                async for piece in response.aiter_bytes(256 * 1024):
                    yield piece
        except httpx2.HTTPError as error:
            raise PortalAwayError(f"{type(error).__name__}: {error}") from error

    async def report(self, body: ReportBody) -> ReportAnswer:
        answer: ReportAnswer = await self._call("POST", "report", json=body, tell_skew=True)
        return answer

    async def leave(self, body: LeaveBody) -> None:
        await self._call("POST", "leave", json=body)

    async def telemetry(self, body: Telemetry) -> None:
        await self._call("POST", "telemetry", json=body)

    async def records(self, body: RecordsBody) -> RecordsAnswer:
        answer: RecordsAnswer = await self._call("POST", "records", json=body)
        return answer

    async def artefacts(self, body: ArtefactsRequest) -> ArtefactsAnswer:
        answer: ArtefactsAnswer = await self._call("POST", "artefacts", json=body)
        return answer

    async def artefact_piece(self, query: dict[str, Any], data: bytes) -> int:
        """Send a piece; return from where to go on. The last one may take long: the portal reads the whole file once more."""
        headers = {"Content-Type": "application/octet-stream"}
        timeout = _TIMEOUT_S + query["size"] / _CHECKED_BYTES_S
        try:
            answer = await self._call(
                "POST", "artefacts/piece", params=query, content=data, headers=headers, timeout=timeout
            )
        except PortalRefusedError as refusal:
            if refusal.code != "offset_mismatch":
                raise
            return _told_at(refusal)["next_offset"]
        return int(answer["next_offset"])

    async def logs_together(self, body: LogsBody) -> LogsAnswer:
        answer: LogsAnswer = await self._call("POST", "logs/together", json=body)
        return answer

    async def logs(self, part: PartName, *, stream: str, offset: int, data: bytes) -> tuple[LogAnswer, bool]:
        """Send a chunk; return the answer, and whether the portal took it. If not, go on from its `next_offset`."""
        query = {**part, "stream": stream, "offset": offset}
        headers = {"Content-Type": "application/octet-stream"}
        try:
            return await self._call("POST", "logs", params=query, content=data, headers=headers), True
        except PortalRefusedError as refusal:
            if refusal.status != 409:
                raise
            return _told_at(refusal), False


class BridgePortal(Portal):
    """A bridge's view of the portal (docs/bridge-protocol.md)."""

    prefix = "/api/bridge/v1/"

    async def attach(self, description: EngineDescription) -> Enrolled:
        answer: Enrolled = await self._call("POST", "attach", json=description)
        return answer

    async def exchange(self, body: ExchangeBody) -> ExchangeAnswer:
        answer: ExchangeAnswer = await self._call("POST", "exchange", json=body)
        return answer

    async def history(self, head: HistoryHead, records: str) -> HistoryAnswer:
        """Send past jobs to the laboratory, once. It reads all of them before it answers."""
        content = zlib.compress(f"{json.dumps(head)}\n{records}".encode())
        headers = {"Content-Type": "application/octet-stream"}
        answer: HistoryAnswer = await self._call(
            "POST", "history", content=content, headers=headers, timeout=_HISTORY_S
        )
        return answer
