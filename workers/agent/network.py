"""The speed of the network interface by which other nodes reach this one."""

from __future__ import annotations

import socket
from pathlib import Path

from workers.system.interfaces import address_of

_NETWORKS = Path("/sys/class/net")


def network_mbps(address: str) -> int | None:
    """Return the speed in Mbit/s of the interface with this address; None when the kernel gives none."""
    try:
        wanted = socket.gethostbyname(address)
        names = [name for _, name in socket.if_nameindex()]
    except OSError:
        return None
    return next((_speed(name) for name in names if address_of(name) == wanted), None)


def _speed(name: str) -> int | None:
    try:
        speed = int((_NETWORKS / name / "speed").read_text())
    except (OSError, ValueError):  # the loopback and most virtual interfaces have none
        return None
    return speed if speed > 0 else None
