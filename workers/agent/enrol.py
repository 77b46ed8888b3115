"""How a node gets its token: the first time with a join token, later from DIR/node.json.

First the server at the portal's address proves that it is the portal: by a pinned authority, by the system's, or not at all.
"""

from __future__ import annotations

import asyncio
import hashlib
import ipaddress
import socket
import ssl
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from workers.agent.allocation import OFF
from workers.agent.settings import AgentSettings, SettingError
from workers.portal_client import Backoff, Portal, PortalAwayError, PortalRefusedError
from workers.system import log
from workers.system.files import BrokenFileError, read_record, write_atomic, write_json

if TYPE_CHECKING:
    from pathlib import Path

    from workers.protocol.inventory import Inventory
    from workers.protocol.wire import Registered

_TIMEOUT_S = 10.0


class TrustError(Exception):
    """The server showed another certificate authority than the one in the join line."""


def is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def fingerprint(der: bytes) -> str:
    return hashlib.sha256(der).hexdigest()


def _shown_chain(host: str, port: int) -> list[bytes]:
    """Return the certificates (DER) that the server sends, unchecked. Nothing else is sent or read."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    with (
        socket.create_connection((host, port), timeout=_TIMEOUT_S) as plain,
        context.wrap_socket(plain, server_hostname=host) as secure,
    ):
        # Public only from Python 3.13 on, where it gives DER at once.
        public = getattr(secure, "get_unverified_chain", None)
        if public is not None:
            return list(public())
        chain = secure._sslobj.get_unverified_chain() or []  # type: ignore[attr-defined]  # noqa: SLF001
        return [ssl.PEM_cert_to_DER_cert(certificate.public_bytes()) for certificate in chain]


def _pinned_authority(host: str, port: int, pin: str, directory: Path) -> Path:
    """Return the file with the authority of this fingerprint; fetch it the first time. Raises TrustError or OSError."""
    path = directory / "ca.pem"
    if path.exists() and fingerprint(ssl.PEM_cert_to_DER_cert(path.read_text())) == pin:
        return path
    chain = _shown_chain(host, port)
    match = next((der for der in chain if fingerprint(der) == pin), None)
    if match is None:
        shown = ", ".join(fingerprint(der)[:16] for der in chain)
        raise TrustError(f"{host}:{port} shows no certificate with SHA-256 {pin[:16]}... (it shows {shown})")
    write_atomic(path, ssl.DER_cert_to_PEM_cert(match).encode())
    return path


def trust_for(url: str, *, ca_sha256: str | None, insecure: bool, directory: Path) -> ssl.SSLContext | bool:
    """Return the HTTP client's `verify`. Raises SettingError, TrustError, or OSError when the portal is away."""
    parts = urlsplit(url)
    host = parts.hostname
    if parts.scheme not in {"http", "https"} or not host:
        raise SettingError(f"--url: {url!r} is not an http:// or https:// address")
    if parts.scheme == "http":
        if not (insecure or is_loopback(host)):
            raise SettingError(
                "--url: over plain http everyone on the network can read the node's token; add --insecure if you accept that"
            )
        # It trusts nobody: no time goes into reading authorities that nobody asks.
        return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if ca_sha256:
        pin = ca_sha256.replace(":", "").lower()
        if len(pin) != 64 or set(pin) - set("0123456789abcdef"):
            raise SettingError(f"--ca-sha256: {ca_sha256!r} is not 64 hexadecimal digits")
        return ssl.create_default_context(cafile=_pinned_authority(host, parts.port or 443, pin, directory))
    return not insecure


class EnrolError(Exception):
    """The portal does not accept this node. The text says why, and what to do."""


async def _trust_wait(settings: AgentSettings, backoff: Backoff) -> ssl.SSLContext | bool:
    while True:
        try:
            return trust_for(
                settings.url, ca_sha256=settings.ca_sha256, insecure=settings.insecure, directory=settings.dir
            )
        except OSError as error:
            log.warning("portal away", reason=str(error))
            await asyncio.sleep(backoff.next_s())


async def _register(settings: AgentSettings, inventory: Inventory, verify: ssl.SSLContext | bool) -> Registered:
    backoff = Backoff(0.2, settings.retry_max_s)
    portal = Portal(settings.url, token=settings.token or "", verify=verify)
    try:
        while True:
            try:
                return await portal.register(inventory)
            except PortalAwayError as away:
                log.warning("portal away", reason=str(away))
                await asyncio.sleep(backoff.next_s())
    except PortalRefusedError as refusal:
        if refusal.code == "name_taken":
            remedy = "choose another --name, or remove that node on the portal first"
            raise EnrolError(f"the portal already knows a node named {settings.name!r}: {remedy}") from refusal
        raise EnrolError(f"the portal does not accept this node: {refusal}") from refusal
    finally:
        await portal.close()


async def enrol(settings: AgentSettings, inventory: Inventory) -> tuple[str, ssl.SSLContext | bool]:
    """Return the token and its HTTP client's `verify`; register a node without one. Waits for the portal. Raises EnrolError."""
    path = settings.dir / "node.json"
    try:
        known = read_record(path, token=str)
    except BrokenFileError as error:
        raise EnrolError(
            f"{error}. Restore it from a copy. Or remove it, revoke the node's token on the portal, and start the agent "
            "with a new join token; then the node may have its old name again"
        ) from error
    if known is None and not settings.token:
        raise EnrolError("this node has no token yet: give a join token with --token")
    verify = await _trust_wait(settings, Backoff(0.2, settings.retry_max_s))
    if known is None:
        answer = await _register(settings, inventory, verify)
        known = {"url": settings.url, "node": answer["node"], "name": answer["name"], "token": answer["token"]}
        write_json(path, known)
        log.info("registered", name=answer["name"])
    if settings.allocation != OFF and isinstance(name := known.get("name"), str):
        inventory["name"] = name  # the portal's, where an allocation that may live still has the other
    return known["token"], verify
