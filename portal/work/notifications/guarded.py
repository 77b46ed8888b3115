"""Calls to addresses that tenants name: they must not reach what only the portal can reach, nor hold it up.

The address is looked at when the connection is made, after the name was resolved, so a name that answers differently the
second time gains nothing. No redirect is followed, no proxy of the environment used, and of the answer only the status is
read, within a time and a size that no trickle of bytes extends.
"""

from __future__ import annotations

import ipaddress
import socket
import ssl
import threading
import time
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import httpcore2
from django.conf import settings

from portal.foundation.environment import env
from portal.foundation.errors import BerthError

if TYPE_CHECKING:
    from collections.abc import Iterable

    Network = ipaddress.IPv4Network | ipaddress.IPv6Network

LIMIT_S = 5.0
"""For all of a call: resolving, connecting, sending and the answer's status."""
ANSWER_LIMIT = 64 * 1024
URL_LIMIT = 500
NAT64 = ipaddress.ip_network("64:ff9b::/96")
NAT64_INSIDE = ipaddress.ip_network("64:ff9b:1::/48")
"""A site's own translation: its addresses lead inside (RFC 8215)."""
RESOLVING = 16
"""Names that are resolved at once. The system's resolver cannot be stopped, so one that hangs keeps its thread."""
_resolving = threading.BoundedSemaphore(RESOLVING)


class Refused(Exception):
    """The address is one that Berth does not call."""


def networks_allowed() -> list[Network]:
    """Return the networks that the operator allows beyond public addresses (BERTH_WEBHOOK_NETWORKS); a demo allows loopback."""
    named = [part.strip() for part in env("BERTH_WEBHOOK_NETWORKS").split(",") if part.strip()]
    own = ["127.0.0.0/8", "::1/128"] if settings.DEMO else []
    return [ipaddress.ip_network(each, strict=False) for each in (*named, *own)]


def address_allowed(text: str, allowed: Iterable[Network]) -> bool:
    """Say whether an address may be called: a public one, or one that the operator allows."""
    found = ipaddress.ip_address(text.partition("%")[0])
    if any(found in network for network in allowed if network.version == found.version):
        return True
    if isinstance(found, ipaddress.IPv6Address):
        inner = found.ipv4_mapped or found.sixtofour or (found.teredo[1] if found.teredo else None)
        if inner is None and found in NAT64:
            inner = ipaddress.IPv4Address(int(found) & 0xFFFFFFFF)
        if inner is not None:
            return address_allowed(str(inner), allowed)
        if found.is_site_local or found in NAT64_INSIDE:
            return False
    return found.is_global and not found.is_multicast and not found.is_reserved


def url_check(url: str) -> str:
    """Return the URL. Raises BerthError for one that is not plain http or https, or names a refused address outright."""
    text = url.strip()
    try:
        parts = urlsplit(text)
        host, _ = parts.hostname, parts.port
    except ValueError:
        parts, host = urlsplit(""), None
    plain = text.isascii() and text.isprintable() and " " not in text and len(text) <= URL_LIMIT
    if not host or parts.scheme not in {"http", "https"} or not plain:
        detail = f"`url` must be http:// or https:// with a host, in at most {URL_LIMIT} printable ASCII characters."
        raise BerthError("invalid", detail, field="url")
    if parts.username is not None or parts.fragment:
        raise BerthError("invalid", "`url` must have no user name, password or fragment.", field="url")
    try:
        literal = address_allowed(host, networks_allowed())
    except ValueError:
        literal = True  # a name: looked at when it is called
    if not literal:
        detail = (
            "`url` names an address inside the operator's network; give a public one, or ask an operator to allow it."
        )
        raise BerthError("refused_address", detail, field="url")
    return text


class _Stream(httpcore2.NetworkStream):
    """A connection with one end for all that is done on it."""

    def __init__(self, inner: httpcore2.NetworkStream, ends_at: float) -> None:
        self.inner, self.ends_at, self.left = inner, ends_at, ANSWER_LIMIT

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        if self.left <= 0:
            raise httpcore2.ReadError("the answer's head is too long")
        found = self.inner.read(min(max_bytes, 4096), _left(self.ends_at))
        self.left -= len(found)
        return found

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self.inner.write(buffer, _left(self.ends_at))

    def close(self) -> None:
        self.inner.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore2.NetworkStream:
        return _Stream(self.inner.start_tls(ssl_context, server_hostname, _left(self.ends_at)), self.ends_at)

    def get_extra_info(self, info: str) -> Any:
        return self.inner.get_extra_info(info)


def _left(ends_at: float) -> float:
    left = ends_at - time.monotonic()
    if left <= 0:
        raise httpcore2.ReadTimeout("the call took too long")
    return left


def _addresses(host: str, port: int, ends_at: float) -> list[str]:
    """Resolve a name until then, in a thread of its own. Raises ConnectError, ReadTimeout."""
    if not _resolving.acquire(timeout=_left(ends_at)):
        raise httpcore2.ReadTimeout("too many names are still being resolved")
    answer: Future[list[Any]] = Future()
    try:
        threading.Thread(target=_resolve, args=(host, port, answer), name="resolve", daemon=True).start()
    except RuntimeError:
        _resolving.release()
        raise httpcore2.ConnectError("no thread could be started to resolve its name") from None
    try:
        found = answer.result(timeout=_left(ends_at))
    except TimeoutError:
        raise httpcore2.ReadTimeout("its name was not resolved in time") from None
    except (OSError, UnicodeError):
        raise httpcore2.ConnectError("its name is not known") from None
    return list(dict.fromkeys(str(each[4][0]) for each in found))


def _resolve(host: str, port: int, answer: Future[list[Any]]) -> None:
    try:
        answer.set_result(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))
    except Exception as error:  # noqa: BLE001 - raised again where the answer is taken
        answer.set_exception(error)
    finally:
        _resolving.release()


class _Backend(httpcore2.NetworkBackend):
    """Connects to the very address that was looked at."""

    def __init__(self, ends_at: float) -> None:
        self.ends_at = ends_at

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Any = None,
    ) -> httpcore2.NetworkStream:
        allowed = networks_allowed()
        addresses = _addresses(host, port, self.ends_at)
        if not addresses or not all(address_allowed(each, allowed) for each in addresses):
            raise Refused("its address is not one that Berth calls")
        inner = httpcore2.SyncBackend().connect_tcp(addresses[0], port, timeout=_left(self.ends_at))
        return _Stream(inner, self.ends_at)


def call(url: str, *, body: bytes, headers: dict[str, str]) -> int:
    """POST the body; return the answer's status. Raises Refused, and httpcore2's errors where nothing answers in time."""
    ends_at = time.monotonic() + LIMIT_S
    context = ssl.create_default_context()
    sent = list(headers.items())
    with (
        httpcore2.ConnectionPool(ssl_context=context, network_backend=_Backend(ends_at)) as pool,
        pool.stream("POST", url, headers=sent, content=body) as answer,
    ):
        return answer.status
