"""Which network interface of this machine has an address."""

from __future__ import annotations

import fcntl
import socket
import struct
from pathlib import Path

_SIOCGIFADDR = 0x8915  # linux/sockios.h: the IPv4 address of an interface
_NAME_BYTES, _ADDRESS_AT = 16, slice(20, 24)


def interface_of(host: str) -> str | None:
    """Return the interface that has an address of `host` (a name or an address); None when there is none here."""
    try:
        found = {entry[4][0] for entry in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)}
    except (OSError, UnicodeError):
        return None
    four = [(name, address_of(name)) for _, name in socket.if_nameindex()]
    return next((name for name, address in [*four, *_addresses_6()] if address and address in found), None)


def address_of(name: str) -> str | None:
    """Return the IPv4 address of an interface; None: it has none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        try:
            answer = fcntl.ioctl(asking.fileno(), _SIOCGIFADDR, struct.pack("256s", name.encode()[: _NAME_BYTES - 1]))
        except OSError:
            return None
    return socket.inet_ntoa(answer[_ADDRESS_AT])


def _addresses_6() -> list[tuple[str, str]]:
    """From lines `address index prefix scope flags name`, the address in hexadecimal digits."""
    try:
        rows = [line.split() for line in Path("/proc/net/if_inet6").read_text().splitlines()]
    except OSError:  # a kernel without IPv6
        return []
    return [(row[5], socket.inet_ntop(socket.AF_INET6, bytes.fromhex(row[0]))) for row in rows]
