"""The machine's own network: its addresses, its way out, its resolvers; and the jobs' range."""

from __future__ import annotations

import ipaddress
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from workers.networks.settings import Service
from workers.system.view import RESOLV

if TYPE_CHECKING:
    from collections.abc import Iterator

LINK = "vethberth"
"""How the node's ends of tenants' networks are called, with a number behind. Two Berths never have the same number."""
_ROUTES, _ROUTES_6 = Path("/proc/net/route"), Path("/proc/net/ipv6_route")
_USUAL_MTU = 1500
MOST_ADDRESSES = 64
"""Most addresses that the portal takes."""
_DNS = 53
UPSTREAM = (Path("/run/systemd/resolve/resolv.conf"), Path("/run/NetworkManager/no-stub-resolv.conf"))
"""Where the servers stand that a resolver on the loopback asks: systemd-resolved's list, and NetworkManager's."""


@dataclass(frozen=True, slots=True)
class Site:
    """`addresses`: the node's own, without its loopback. `opened`: services of the node itself that jobs may reach."""

    network: ipaddress.IPv4Network
    addresses: tuple[str, ...]
    mtu: int
    opened: tuple[Service, ...]
    resolv: Path | None
    """The jobs' /etc/resolv.conf; None: the node's."""


def site_find(network: ipaddress.IPv4Network, opened: tuple[Service, ...], url: Service | None) -> Site:
    """Look at the machine. `url`: the portal, which every job may reach where it is not on the loopback."""
    addresses, way = own_addresses(), _way_out()
    stats = psutil.net_if_stats().get(way or "")
    resolv, stubs = resolvers()
    known = [*opened, *([url] if url and not url.address.is_loopback else []), *stubs]
    local = [each for each in known if each.address.is_loopback or str(each.address) in addresses]
    return Site(network, addresses, stats.mtu if stats else _USUAL_MTU, tuple(dict.fromkeys(local)), resolv)


def own_addresses() -> tuple[str, ...]:
    """Return all addresses of this machine that others may know it by."""
    found = []
    for name, known in psutil.net_if_addrs().items():
        for each in known:
            if (
                each.family in {socket.AF_INET, socket.AF_INET6}
                and not name.startswith(LINK)
                and "%" not in each.address
            ):
                address = ipaddress.ip_address(each.address)
                if not (address.is_loopback or address.is_link_local):
                    found.append(str(address))
    return tuple(dict.fromkeys(found))


def unfit(network: ipaddress.IPv4Network) -> str:
    """Return why tenants' networks cannot have this range here; "": they can."""
    for name, there in routes():
        if there.prefixlen and there.overlaps(network) and not name.startswith(LINK):
            return (
                f"the range {network} of jobs' networks is in use here ({there} by {name}); "
                "give another one, --jobs-network"
            )
    if _way_out() is None and _has_way_out_6():
        return "this node reaches others by IPv6 only, and a tenant's network has IPv4 outside"
    return ""


def resolvers(resolv: Path = RESOLV, upstream: tuple[Path, ...] = UPSTREAM) -> tuple[Path | None, tuple[Service, ...]]:
    """Return the job's resolv.conf, and the resolvers on the loopback that must be opened to it.

    A resolver on 127.0.0.53 is not there in a tenant's network. So a job asks the servers behind it; where they are not
    known, the resolver's port is carried into the network.
    """
    if not _on_loopback(_servers(resolv)):
        return None, ()
    for path in upstream:
        servers = _servers(path)
        if servers and not _on_loopback(servers):
            return path, ()
    return None, tuple(Service(each, _DNS) for each in _on_loopback(_servers(resolv)))


def _on_loopback(servers: list[str]) -> list[ipaddress.IPv4Address]:
    found = [ipaddress.ip_address(each) for each in servers]
    return [each for each in found if isinstance(each, ipaddress.IPv4Address) and each.is_loopback]


def _servers(path: Path) -> list[str]:
    try:
        rows = [line.split() for line in path.read_text(errors="replace").splitlines()]
    except OSError:
        return []
    return [row[1] for row in rows if len(row) > 1 and row[0] == "nameserver" and _is_address(row[1])]


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def _way_out() -> str | None:
    return next((name for name, there in routes() if not there.prefixlen), None)


def routes() -> Iterator[tuple[str, ipaddress.IPv4Network]]:
    """Yield interface and network of each route: hexadecimal words, each in the machine's own order."""
    try:
        rows = [line.split() for line in _ROUTES.read_text().splitlines()[1:]]
    except OSError:
        return
    for row in rows:
        address, mask = (int.from_bytes(bytes.fromhex(row[at]), "little") for at in (1, 7))
        yield row[0], ipaddress.IPv4Network((address, mask.bit_count()), strict=False)


def _has_way_out_6() -> bool:
    try:
        rows = [line.split() for line in _ROUTES_6.read_text().splitlines()]
    except OSError:
        return False
    return any(row[0].strip("0") == "" and row[1] == "00" and row[9] != "lo" for row in rows)
