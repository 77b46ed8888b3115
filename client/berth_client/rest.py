"""One portal over REST: requests with a token, JSON in and out, lists page by page; a refusal becomes one sentence."""

from __future__ import annotations

import json
import math
import os
import time
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, BinaryIO, NoReturn, Self, TypeVar
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

from berth_client.errors import AwayError, ClientError, RefusedError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from berth_client.shapes import Page
    from berth_client.transport import Answer, Transport
    from berth_client.websocket import Duplex

F = TypeVar("F", bound="Callable[..., Any]")
Row = TypeVar("Row")
TIMEOUT_S = 60.0
"""A trace of the largest size is read line by line before it is answered."""
PAGE_SIZE = 500
TRIES = 3
RETRY_S = 1.0
_AWAY = frozenset({502, 503, 504})
"""Answers of a starting portal, or of a proxy before it. The request may have been done."""


class _Told(dict[str, Any]):
    """An object of an answer; one without what every Berth's has is another program's."""

    def __init__(self, url: str, found: dict[str, Any]) -> None:
        super().__init__(found)
        self._url = url

    def __missing__(self, name: str) -> NoReturn:
        raise _strange(self._url, f": `{name}` is missing")


def _strange(url: str, lacks: str = "") -> ClientError:
    return ClientError(f"{url} answers, but not as a Berth does{lacks}; is the address right?")


class Rest:
    """Raises RefusedError where the portal refuses, AwayError where it does not answer."""

    def __init__(self, url: str, token: str, *, ca_file: str | None = None, transport: Transport | None = None) -> None:
        address_check(url)
        self.url, self._token = url.rstrip("/"), token
        self._ca_file, self._transport = ca_file, transport
        self.timeout_s = TIMEOUT_S

    @classmethod
    def from_environment(cls, *, portal: str | None = None, transport: Transport | None = None) -> Self:
        """Return the portal that BERTH_URL and BERTH_TOKEN name, else what `berth login` wrote down."""
        from berth_client.settings import chosen

        found = chosen(portal)
        return cls(found.url, found.token, ca_file=found.ca_file, transport=transport)

    def call(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        body: Any = None,
        content: bytes | BinaryIO | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> bytes:
        """Return the body of the answer. `body` is sent as JSON, `content` as it is. A None in the query is left out."""
        url = f"{self.url}/api/v1{path}{_query(query)}"
        sent = {"Authorization": f"Bearer {self._token}", **(headers or {})}
        if body is not None:
            content, sent["Content-Type"] = json.dumps(body).encode(), "application/json"
        elif content is not None:
            sent["Content-Type"] = "application/octet-stream"
            if not isinstance(content, bytes):  # an open file: sent as it is read
                sent["Content-Length"] = str(os.fstat(content.fileno()).st_size)
        if self._transport is None:  # urllib and TLS take longer to load than all the rest
            from berth_client.transport import UrllibTransport

            self._transport = UrllibTransport(ca_file=self._ca_file)
        answer = self._transport(method, url, headers=sent, body=content, timeout_s=self.timeout_s)
        if 200 <= answer.status < 300:
            return answer.body
        raise _refusal(answer, self.url)

    def receive(self, path: str, *, query: Mapping[str, Any]) -> Iterator[str]:
        """Yield the messages of a WebSocket of the portal's until it ends, breaks, or does not open at all.

        None opens through a proxy or where the caller brought a transport.
        """
        from berth_client.transport import UrllibTransport
        from berth_client.websocket import BrokenError, texts

        if isinstance(self._transport, UrllibTransport | None):
            try:
                yield from texts(self.open_socket(path, query=query))
            except BrokenError:
                return

    def open_socket(self, path: str, *, query: Mapping[str, Any]) -> Duplex:
        """Open a WebSocket of the portal's that speaks both ways. Raises BrokenError where none opens."""
        from berth_client.transport import UrllibTransport
        from berth_client.websocket import Duplex

        headers = {"Authorization": f"Bearer {self._token}", "User-Agent": "berth-client"}
        tls = UrllibTransport(ca_file=self._ca_file).tls
        return Duplex(f"{self.url}{path}{_query(query)}", headers=headers, tls=tls)

    def ask(self, method: str, path: str, **more: Any) -> Any:
        """Return the JSON object of the answer; None of an empty one to DELETE. ClientError: no Berth answers so."""
        answer = self.call(method, path, **more)
        if not answer and method == "DELETE":
            return None
        try:
            found = json.loads(answer, object_hook=partial(_Told, self.url))
        except (ValueError, RecursionError):
            raise _strange(self.url) from None
        if not isinstance(found, dict):
            raise _strange(self.url)
        return found

    def ask_once(self, path: str, body: Mapping[str, Any], key: str | None = None) -> Any:
        """POST under an Idempotency-Key. Where no answer comes it is sent again, and is still done once only."""
        import uuid  # here, as hashlib in uploads: other verbs begin without it

        headers = {"Idempotency-Key": key or str(uuid.uuid4())}
        for left in reversed(range(TRIES)):
            try:
                return self.ask("POST", path, body=body, headers=headers)
            except AwayError:
                if not left:
                    raise
                time.sleep(RETRY_S)
        raise AssertionError

    def each(
        self, ask: Callable[..., Page[Row]], *names: object, most: int | None = None, **filters: Any
    ) -> Iterator[Row]:
        """Yield the rows of a list, at most `most`: `berth.each(berth.jobs_list, state="RUNNING")`."""
        for answer in self.pages(ask, *names, most=most, **filters):
            yield from answer["results"]

    def pages(
        self, ask: Callable[..., Page[Row]], *names: object, most: int | None = None, **filters: Any
    ) -> Iterator[Page[Row]]:
        """Yield the pages of a list, each as the one before says where it goes on, with at most `most` rows in all."""
        left = math.inf if most is None else most
        asked = {**filters, "page_size": min(left, PAGE_SIZE)}
        while True:
            answer = ask(*names, **asked)
            if not all(isinstance(row, dict) for row in answer["results"]):
                raise _strange(self.url)
            if len(answer["results"]) > left:
                answer["results"] = answer["results"][: int(left)]
            left -= len(answer["results"])
            yield answer
            if left <= 0 or answer["next"] is None:
                return
            following = dict(parse_qsl(urlsplit(answer["next"]).query))
            asked |= {name: following.get(name) for name in ("after", "page")}


def operation(method: str, path: str) -> Callable[[F], F]:
    """Make a method ask the portal. Its signature says everything: the names in `path` are filled in, and the other
    arguments are the query, or the fields of the body of POST and PATCH. One that has its default is not sent.
    """

    def make(declared: F) -> F:
        code, defaults = declared.__code__, declared.__kwdefaults__ or {}
        positional = code.co_varnames[1 : code.co_argcount]

        @wraps(declared)
        def ask(self: Rest, *values: Any, **named: Any) -> Any:
            declared(self, *values, **named)  # raises TypeError for other arguments
            given = dict(zip(positional, values, strict=False)) | named
            at = {name: part(value) for name, value in given.items() if f"{{{name}}}" in path}
            sent = {
                name: value
                for name, value in given.items()
                if name not in at and (name not in defaults or value != defaults[name])
            }
            if method in {"GET", "DELETE"}:
                return self.ask(method, path.format_map(at), query=sent)
            return self.ask(method, path.format_map(at), body=sent if code.co_kwonlyargcount else None)

        return ask  # type: ignore[return-value]

    return make


def address_check(url: str) -> None:
    try:
        parts = urlsplit(url)
        if parts.scheme in {"http", "https"} and parts.hostname and parts.port != 0 and url.isascii():
            return
    except ValueError:  # a port or an IPv6 address that is none
        pass
    raise ClientError(
        f"The portal's address is {url!r}; it begins with http:// or https://, and names a host (http://host:8080)."
    )


def sendable(text: str) -> str:
    """Return text that UTF-8 can say. Raises ClientError for another: an argument of bytes that are no text."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ClientError(f"{text!a} is no UTF-8 text, so it cannot be sent.") from None
    return text


def part(name: object) -> str:
    """Return a name as one part of a path."""
    return quote(sendable(str(name)), safe="")


def path_parts(path: str) -> str:
    """Return a path of several parts as such; `.` and `..` are names to the portal, which has none of them."""
    return quote(sendable(path.strip("/")), safe="/")


def _query(values: Mapping[str, Any] | None) -> str:
    asked = {name: _text(value) for name, value in (values or {}).items() if value is not None}
    return f"?{urlencode(asked)}" if asked else ""


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return sendable(",".join(map(str, value)) if isinstance(value, (list, tuple, set, frozenset)) else str(value))


def _refusal(answer: Answer, url: str) -> ClientError:
    try:
        told = json.loads(answer.body)["error"]
        code, field, detail = str(told["code"]), told["field"], str(told["detail"])
    except (ValueError, KeyError, TypeError, RecursionError):
        code, field, detail = "", None, f"the portal answers {answer.status}."
    headers = {name.lower(): value for name, value in answer.headers.items()}
    if 300 <= answer.status < 400:
        detail = f"{url} sends its callers to {headers.get('location', 'elsewhere')!r}; use that address."
    if answer.status in _AWAY:
        return AwayError(detail)
    wait = headers.get("retry-after", "")
    retry_after_s = float(wait) if wait.isdecimal() else None
    return RefusedError(detail, status=answer.status, code=code, field=field, retry_after_s=retry_after_s)
