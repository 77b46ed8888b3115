"""The speed of the network interface by which other nodes reach this one."""

from __future__ import annotations

import fcntl
import socket
import struct
from pathlib import Path

_SIOCGIFADDR = 0x8915
_NETWORKS = Path("/sys/class/net")


def network_mbps(address: str) -> int | None:
    """Return the speed in Mbit/s of the interface with this address; None when the kernel gives none."""
    try:
        wanted = socket.gethostbyname(address)
        names = [name for _, name in socket.if_nameindex()]
    except OSError:
        return None
    return next((_speed(name) for name in names if _ipv4(name) == wanted), None)


def _ipv4(name: str) -> str | None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            answer = fcntl.ioctl(probe.fileno(), _SIOCGIFADDR, struct.pack("256s", name.encode()[:15]))
        except OSError:
            return None
    return socket.inet_ntoa(answer[20:24])


def _speed(name: str) -> int | None:
    try:
        speed = int((_NETWORKS / name / "speed").read_text())
    except (OSError, ValueError):  # the loopback and most virtual interfaces have none
        return None
    return speed if speed > 0 else None
