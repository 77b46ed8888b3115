"""The headers that pass between a browser and a job's server, and those that stay behind.

The job's server sees itself as `localhost:PORT`, as it would from a browser on its own machine: servers that check Host
and Origin need no setting. The check that it would make is made here, before anything reaches it (`may_ask`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

Headers = list[tuple[bytes, bytes]]

COOKIE = "__Host-berth-port"
"""Browsers take a cookie of such a name only with TLS or on localhost, for one host, and from nobody else."""
_OURS = b"__host-berth"
_HOP = frozenset(
    b"connection keep-alive proxy-authenticate proxy-authorization proxy-connection te trailer transfer-encoding upgrade".split()
)
_NOT_TO_JOB = _HOP | frozenset(b"host cookie origin referer expect forwarded via x-real-ip service-worker".split())
_NOT_TO_BROWSER = _HOP | frozenset(
    b"set-cookie strict-transport-security public-key-pins clear-site-data service-worker-allowed alt-svc nel".split()
)
"""HSTS and keys would outlive the job and hold for others; `Clear-Site-Data` deletes cookies of the whole site, the
portal's too."""
MOST_HEADERS = 200


@dataclass(frozen=True, slots=True)
class Origin:
    """One port of a job as the browser calls it."""

    scheme: str
    host: str
    port: int

    @property
    def outside(self) -> bytes:
        return f"{self.scheme}://{self.host}".encode("latin-1")

    @property
    def inside(self) -> bytes:
        return f"http://localhost:{self.port}".encode()


def one(headers: Iterable[tuple[bytes, bytes]], name: bytes) -> str | None:
    """Return the header's value; None where it is missing, or there are several."""
    found = [value for each, value in headers if each.lower() == name]
    return found[0].decode("latin-1") if len(found) == 1 else None


def cookie_of(headers: Headers) -> str:
    """Return our cookie's value; empty where there is none, or more than one."""
    found = [value for name, value in _cookies(headers) if name == COOKIE.encode()]
    return found[0].decode("latin-1") if len(found) == 1 else ""


def _cookies(headers: Headers) -> list[tuple[bytes, bytes]]:
    pairs = [pair.strip() for name, value in headers if name.lower() == b"cookie" for pair in value.split(b";")]
    return [(name.strip(), value.strip()) for name, _, value in (pair.partition(b"=") for pair in pairs)]


def may_ask(headers: Headers, origin: Origin) -> bool:
    """Say whether a page of this very origin asks, or the person by the browser's own bar.

    Names of two jobs are one *site*, so the cookie comes with requests of another job's page too.
    """
    said, site = [value for name, value in headers if name.lower() == b"origin"], one(headers, b"sec-fetch-site")
    if said and said != [origin.outside]:
        return False
    return site in {"same-origin", "none"} if site is not None else bool(said)


def _hops(headers: Headers) -> set[bytes]:
    """Return the names that the header Connection keeps for this one connection."""
    named = [value for name, value in headers if name.lower() == b"connection"]
    return {each.strip().lower() for value in named for each in value.split(b",")} - {b"content-length"}


def to_job(headers: Headers, origin: Origin) -> Headers:
    """Return the headers for the job's server: none of the portal's, and addresses as it knows itself."""
    left = _NOT_TO_JOB | _hops(headers)
    passed = [
        (name, value)
        for name, value in headers
        if (low := name.lower()) not in left and not low.startswith((b"x-forwarded-", b"sec-websocket-"))
    ]
    cookies = b"; ".join(
        b"=".join(pair) for pair in _cookies(headers) if pair[0] and not pair[0].lower().startswith(_OURS)
    )
    made = [(b"host", origin.inside.partition(b"//")[2])]
    if cookies:
        made.append((b"cookie", cookies))
    addresses = [(name, value) for name, value in headers if name.lower() in {b"origin", b"referer"}]
    made += [(name, _moved(value, origin.outside, origin.inside)) for name, value in addresses]
    made += [(b"x-forwarded-host", origin.host.encode("latin-1")), (b"x-forwarded-proto", origin.scheme.encode())]
    return made + passed


def to_browser(headers: Headers, origin: Origin, *, empty: bool) -> Headers:
    """Return the headers for the browser. `empty`: the answer has no body by its status, and so no length."""
    left = _NOT_TO_BROWSER | _hops(headers) | ({b"content-length"} if empty else set())
    passed = [(name, value) for name, value in headers if name.lower() not in left]
    moved = [
        (name, _moved(value, origin.inside, b"") or b"/") if name.lower() == b"location" else (name, value)
        for name, value in passed
    ]
    return moved + [
        (b"set-cookie", value) for name, value in headers if name.lower() == b"set-cookie" and _may_set(value)
    ]


def _may_set(cookie: bytes) -> bool:
    """Say whether a job's server may set it: for its own name only, and none of ours."""
    pair, *attributes = cookie.split(b";")
    name = pair.lstrip(b"= \t").partition(b"=")[0].strip().lower()  # one without a name comes back as its value
    return not name.startswith(_OURS) and all(
        each.partition(b"=")[0].strip().lower() != b"domain" for each in attributes
    )


def _moved(value: bytes, before: bytes, after: bytes) -> bytes:
    """Return an address at another origin, where it is one of the first's."""
    rest = value[len(before) :]
    return after + rest if value.startswith(before) and rest[:1] in {b"", b"/", b"?", b"#"} else value
