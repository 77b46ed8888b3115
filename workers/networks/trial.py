"""Tries at the agent's start whether tenants' networks hold on this machine, with sockets of two tenants that do not exist.

TCP and UDP, IPv4 and IPv6, by the loopback, by the node's addresses and by abstract names: it sends packets that must
arrive, and packets that must not.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING

from workers.networks.links import NetworkError, cable_remove, network_make, nft
from workers.networks.rules import Cable, outer_rules, table_remove
from workers.system.netns import inside

if TYPE_CHECKING:
    from collections.abc import Iterator

    from workers.networks.settings import Service
    from workers.networks.site import Site

PATIENCE_S, ARRIVAL_S = 1.0, 0.05
DATAGRAMS = 5
REMEDY = "look for a firewall of the node's own (Docker and firewalld forward nothing that they do not know)"


@dataclass(frozen=True, slots=True)
class Target:
    """A socket that waits to be reached; `host` "": by an abstract name."""

    socket: socket.socket
    host: str
    name: str | tuple[str, int]

    @property
    def words(self) -> str:
        if not self.host:
            return "a name of a Unix socket"
        return f"{'TCP' if self.socket.type == socket.SOCK_STREAM else 'UDP'} at {self.host}"


def targets(hosts: tuple[str, ...], *, names: bool) -> list[Target]:
    """Make sockets that listen, here; the caller closes them. A kind of address that there is not is left out."""
    made = []
    for host in hosts:
        for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
            with contextlib.suppress(OSError):
                waiting = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, kind)
                waiting.bind((host, 0))
                made.append(Target(waiting, host, waiting.getsockname()[:2]))
    if names:
        waiting = socket.socket(socket.AF_UNIX)
        waiting.bind(f"\0berth-trial-{os.getpid()}-{len(made)}-{id(waiting)}")
        made.append(Target(waiting, "", waiting.getsockname()))
    for each in made:
        each.socket.setblocking(False)
        if each.socket.type == socket.SOCK_STREAM:
            each.socket.listen(16)
    return made


def send_to(target: Target) -> bool:
    """Try to reach it, from here; say whether a stream says that it did."""
    with socket.socket(target.socket.family, target.socket.type) as wire:
        wire.settimeout(PATIENCE_S)
        with contextlib.suppress(OSError):
            wire.connect(target.name)
            if wire.type == socket.SOCK_STREAM:
                return True
        for _ in range(DATAGRAMS if wire.type == socket.SOCK_DGRAM else 0):
            with contextlib.suppress(OSError):
                wire.send(b"x")
    return False


def take_arrivals(targets_tried: list[Target]) -> list[Target]:
    """Return which of them something has reached, and take it from them."""
    ready, _, _ = select.select([each.socket for each in targets_tried], [], [], ARRIVAL_S)
    for each in ready:
        with contextlib.suppress(OSError):
            while True:
                if each.type == socket.SOCK_STREAM:
                    each.accept()[0].close()
                else:
                    each.recv(16)
    return [each for each in targets_tried if each.socket in ready]


def find_reached(namespace: int | None, tried: list[Target]) -> list[Target]:
    """Return which of the targets can be reached from inside a namespace."""
    said = inside(namespace, lambda: [each for each in tried if send_to(each)])
    got = take_arrivals(tried)
    return [each for each in tried if each in said or each in got]


def try_cables(site: Site, table: str, outside: Service | None) -> str:
    """Make two tenants' networks and let one try at the other's ports and the node's. Return "" when all holds, else what does
    not. `outside`: the portal, where it is on another machine.
    """
    try:
        with _two(site, table) as (one, other, address):
            if wrong := _try_networks(site, one, other, address):
                return wrong
            if outside is None or not _connects(None, outside) or _connects(one, outside):
                return ""
            return (
                f"a tenant's network did not reach {outside.address}:{outside.port}, which the node reaches; {REMEDY}"
            )
    except OSError as error:
        return str(error)


def _try_networks(site: Site, one: int, other: int, address: str) -> str:
    hosts = ("127.0.0.1", "::1", *site.addresses)
    theirs = inside(one, lambda: targets((*hosts, address), names=True))
    nodes = targets(hosts, names=True)
    try:
        if failed := [each for each in theirs if each not in find_reached(one, theirs)]:
            return f"a job did not reach its own tenant's port ({failed[0].words}); {REMEDY}"
        if open_ones := find_reached(other, theirs):
            return f"a job still reached another tenant's port ({open_ones[0].words})"
        if open_ones := find_reached(None, [each for each in theirs if each.host == address]):
            return f"the node still reached a tenant's port ({open_ones[0].words})"
        if open_ones := find_reached(other, nodes):
            return f"a job still reached a port of the node ({open_ones[0].words})"
    finally:
        for each in (*theirs, *nodes):
            each.socket.close()
    return ""


def _connects(namespace: int | None, service: Service) -> bool:
    with inside(namespace, lambda: socket.socket(socket.AF_INET, socket.SOCK_STREAM)) as wire:
        wire.settimeout(PATIENCE_S)
        return wire.connect_ex((str(service.address), service.port)) == 0


@contextlib.contextmanager
def _two(site: Site, table: str) -> Iterator[tuple[int, int, str]]:
    """Make two tenants' networks with their rules, and the address of the first; take them away."""
    made: list[tuple[int, Cable]] = []
    try:
        made.extend(network_make(site) for _ in range(2))
        nft(outer_rules(table, site, [cable for _, cable in made], ()))
        yield made[0][0], made[1][0], made[0][1].address
    finally:
        for namespace, cable in made:
            os.close(namespace)
            cable_remove(cable)
        with contextlib.suppress(NetworkError):  # nft is not there, or refused before
            nft(table_remove(table))
