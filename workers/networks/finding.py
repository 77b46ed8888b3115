"""Tries at the agent's start how far this node keeps tenants from each other's ports, and reports it."""

from __future__ import annotations

import contextlib
import json
import os
import socket
from ipaddress import IPv4Address, IPv4Network
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from workers.controls.cgroups import Group, group_make, group_path2
from workers.networks.links import NetworkError, missing, nft
from workers.networks.networks import trial_table_of
from workers.networks.rules import Member, outer_rules, table_remove
from workers.networks.settings import Service
from workers.networks.site import Site, own_addresses, site_find, unfit
from workers.networks.trial import Target, send_to, take_arrivals, targets, try_cables
from workers.protocol.inventory import Wall, wall
from workers.system import log

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


_WORD = b"now"


def network_find(
    parts: Path, url: str, network: IPv4Network | str, opened: tuple[Service, ...], accounts: tuple[int, int] | None
) -> tuple[Wall, Site | None, bool]:
    """Return the wall between tenants' networks; their site, None: they do not hold; whether rules by group hold.

    `parts`: the directory of the node's parts. `accounts`: two that no tenant has; None: tenants have none of their own.
    """
    why = ""
    if accounts is None:
        why = "tenants' jobs have no accounts of their own here: see Other users' files"
    elif network == "off":
        why = "the node's settings switch it off (--jobs-network off)"
    elif packages := missing():
        why = f"install {' and '.join(packages)} on this node, and start its agent again"
    if why or accounts is None:
        return wall("network", "", why), None, False
    table = trial_table_of(parts)
    site, no_cables = _cables(network, opened, url, table)
    no_members = try_members(own_addresses(), table, accounts)
    log.info("tenants' networks", one_node=no_cables or "apart", several_nodes=no_members or "apart")
    if site is None:
        return wall("network", "" if no_members else "groups", no_cables), None, not no_members
    return (
        wall("network", "namespace", no_members and f"jobs over several nodes are not apart: {no_members}"),
        site,
        not no_members,
    )


def _cables(network: IPv4Network | str, opened: tuple[Service, ...], url: str, table: str) -> tuple[Site | None, str]:
    """Return the site of tenants' networks; or None, and why they do not hold."""
    assert isinstance(network, IPv4Network)
    if why := unfit(network):
        return None, why
    portal = _portal(url)
    site = site_find(network, opened, portal)
    is_far = portal is not None and not portal.address.is_loopback and str(portal.address) not in site.addresses
    why = try_cables(site, table, portal if is_far else None)
    return (None, why) if why else (site, "")


def _portal(url: str) -> Service | None:
    """Return the portal's address and port; None: it has no IPv4 address that is known here."""
    parts = urlsplit(url)
    try:
        found = socket.getaddrinfo(parts.hostname, None, socket.AF_INET, socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return None
    return Service(IPv4Address(found[0][4][0]), parts.port or (443 if parts.scheme == "https" else 80))


def try_members(addresses: tuple[str, ...], table: str, accounts: tuple[int, int]) -> str:
    """Let a process try at another account's ports. Return "" when all holds, else what does not."""
    groups = [group_make(f"trial-{os.getpid()}-{each}", [""]) for each in ("a", "b")]
    try:
        found = [group_path2(group) for group in groups]
        if found[0] is None or found[1] is None:
            return "no control group of cgroup 2 can be made here (root, or delegation in the unit, is needed)"
        members = [Member(path, uid, ()) for (_, path), uid in zip(found, accounts, strict=True)]  # type: ignore[misc]
        nft(outer_rules(table, None, (), members), groups=found[0][0])
        return _try_ports(("127.0.0.1", "::1", *addresses), groups, accounts)
    except OSError as error:
        return str(error)
    finally:
        for group in groups:
            group.remove()
        with contextlib.suppress(NetworkError):  # nft is not there, or refused before
            nft(table_remove(table))


def _try_ports(hosts: tuple[str, ...], groups: list[Group], accounts: tuple[int, int]) -> str:
    with _child(groups[0], accounts[0], lambda talk: _serve(talk, hosts)) as server:
        there = _hear(server)
        for group, uid, wanted in (
            (groups[0], accounts[0], len(there)),
            (groups[1], accounts[1], 0),
            (None, 0, len(there)),
        ):
            with _child(group, uid, lambda talk: _try(talk, there)) as client:
                said = _hear(client)
            server.sendall(_WORD)
            got = sorted({*said, *_hear(server)})
            if wanted and len(got) < len(there):
                lacking = next(words for number, (*_, words) in enumerate(there) if number not in got)
                return f"{'the node' if group is None else 'a job'} did not reach a job's own port ({lacking})"
            if got and not wanted:
                return f"a job over several nodes still reached another tenant's port ({there[got[0]][-1]})"
    return ""


def _serve(talk: socket.socket, hosts: tuple[str, ...]) -> None:
    """Listen, say where, and say after each word which sockets something has reached."""
    waiting = targets(hosts, names=False)
    _say(talk, [[int(w.socket.family), int(w.socket.type), w.host, list(w.name), w.words] for w in waiting])
    while talk.recv(len(_WORD)):
        got = take_arrivals(waiting)
        _say(talk, [number for number, each in enumerate(waiting) if each in got])


def _try(talk: socket.socket, there: list[Any]) -> None:
    reached = []
    for number, (family, kind, host, name, _) in enumerate(there):
        with socket.socket(family, kind) as like:
            if send_to(Target(like, host, tuple(name))):
                reached.append(number)
    _say(talk, reached)


def _say(talk: socket.socket, what: object) -> None:
    talk.sendall(json.dumps(what).encode() + b"\n")


def _hear(talk: socket.socket) -> list[Any]:
    text = b""
    while not text.endswith(b"\n"):
        piece = talk.recv(65536)
        if not piece:
            raise NetworkError("a process that had to try it ended at once")
        text += piece
    return list(json.loads(text))


@contextlib.contextmanager
def _child(group: Group | None, uid: int, act: Callable[[socket.socket], None]) -> Iterator[socket.socket]:
    """Run `act` in a process of this group and account; it ends with the context."""
    ours, theirs = socket.socketpair()
    pid = os.fork()
    if pid == 0:
        try:
            ours.close()
            if group is not None:
                group.enter()
                os.setgroups([])
                os.setresgid(uid, uid, uid)
                os.setresuid(uid, uid, uid)
            act(theirs)
        finally:
            os._exit(0)
    theirs.close()
    try:
        yield ours
    finally:
        ours.close()
        os.waitpid(pid, 0)
