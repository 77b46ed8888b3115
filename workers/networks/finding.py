"""Finds at the agent's start how far this node keeps tenants from each other's ports, by trying, and what it says of that."""

from __future__ import annotations

import socket
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from workers.networks.networks import trial_table_of
from workers.networks.settings import Service
from workers.networks.site import own_addresses, site_find, unfit
from workers.networks.tools import missing
from workers.networks.trial import try_cables
from workers.networks.trialgroups import try_members
from workers.system import log

if TYPE_CHECKING:
    from pathlib import Path

    from workers.networks.site import Site
    from workers.protocol.inventory import Wall

_WHY = 300


@dataclass(frozen=True, slots=True)
class Asked:
    """`parts`: the directory of the node's parts. `accounts`: two that no tenant has; None: tenants have none of their own."""

    parts: Path
    url: str
    network: IPv4Network | str
    opened: tuple[Service, ...]
    accounts: tuple[int, int] | None


def network_find(asked: Asked) -> tuple[Wall, Site | None, bool]:
    """Return what is said of the wall between tenants' networks; what theirs are made of, None: they do not hold; and whether
    rules for parts in the node's network do.
    """
    if asked.accounts is None:
        return _wall("", "tenants' jobs have no accounts of their own here: see Tenants' accounts"), None, False
    if why := _lacking(asked):
        return _wall("", why), None, False
    table = trial_table_of(asked.parts)
    site, no_cables = _cables(asked, table)
    no_members = try_members(own_addresses(), table, asked.accounts)
    log.info("tenants' networks", one_node=no_cables or "apart", several_nodes=no_members or "apart")
    if site is None:
        return _wall("" if no_members else "groups", no_cables), None, not no_members
    return (
        _wall("namespace", no_members and f"jobs over several nodes are not apart: {no_members}"),
        site,
        not no_members,
    )


def _lacking(asked: Asked) -> str:
    """Return why nothing is to be tried; "": all that it needs is here."""
    if asked.network == "off":
        return "the node's settings switch it off (--jobs-network off)"
    if packages := missing():
        return f"install {' and '.join(packages)} on this node, and start its agent again"
    return ""


def _cables(asked: Asked, table: str) -> tuple[Site | None, str]:
    """Return what tenants' networks are made of; or None, and why they do not hold."""
    assert isinstance(asked.network, IPv4Network)
    if why := unfit(asked.network):
        return None, why
    url = _portal(asked.url)
    site = site_find(asked.network, asked.opened, url)
    is_far = url is not None and not url.address.is_loopback and str(url.address) not in site.addresses
    why = try_cables(site, table, url if is_far else None)
    return (None, why) if why else (site, "")


def _portal(url: str) -> Service | None:
    """Return the portal's address and port; None: it has no IPv4 address that is known here."""
    parts = urlsplit(url)
    try:
        found = socket.getaddrinfo(parts.hostname, None, socket.AF_INET, socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return None
    return Service(IPv4Address(found[0][4][0]), parts.port or (443 if parts.scheme == "https" else 80))


def _wall(by: str, why: str) -> Wall:
    return {"name": "network", "by": by, "why": why[:_WHY]}
