"""Proof that the server at the portal's address is the portal: by a pinned authority, by the system's, or none."""

from __future__ import annotations

import hashlib
import ipaddress
import socket
import ssl
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from workers.agent.settings import SettingError
from workers.system.files import write_atomic

if TYPE_CHECKING:
    from pathlib import Path

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
