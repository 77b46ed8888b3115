"""An operator's settings of jobs' networks: their range of addresses, and the node's services open to them."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass

OFF = "off"
RANGE = ipaddress.IPv4Network("10.213.0.0/16")
_LONGEST_PREFIX = 28


@dataclass(frozen=True, slots=True)
class Service:
    """A port of an IPv4 address, over TCP and UDP."""

    address: ipaddress.IPv4Address
    port: int


def network_read(text: str) -> ipaddress.IPv4Network | str:
    """Read a range of IPv4 addresses, or `off`. Raises ValueError."""
    if text.strip().lower() == OFF:
        return OFF
    network = ipaddress.IPv4Network(text.strip())
    if network.prefixlen > _LONGEST_PREFIX or not network.is_private or network.is_loopback or network.is_link_local:
        raise ValueError(text)
    return network


def services_read(text: str) -> tuple[Service, ...]:
    """Read `ADDRESS:PORT,ADDRESS:PORT`. Raises ValueError."""
    return tuple(dict.fromkeys(_service(word) for word in text.replace(",", " ").split()))


def _service(word: str) -> Service:
    address, colon, port = word.rpartition(":")
    if not colon or not (port.isascii() and port.isdecimal()) or not 0 < int(port) <= 65535:
        raise ValueError(word)
    return Service(ipaddress.IPv4Address(address), int(port))
