"""Rules for the kernel's packet filter, as text for `nft`: a table of one agent's own, replaced as a whole.

Two kinds of walls. Parts of a job on one node live in their tenant's network: out of it leads one cable, whose packets are
sent on to other machines, and on this one only to the services that the site opens. Parts of a job over several nodes live in
the node's network: the sender's account marks each packet on the loopback, and the receiver's control group says whose
it may take; from outside come only packets of the job's own nodes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from workers.networks.site import LINK, Site

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from workers.networks.settings import Service

GATEWAY, INNER = "169.254.213.1", "eth0"
"""The node's address in every tenant's network, and the name of the cable's inner end."""
FIRST_PORT = 20_000
"""Services of the node's that jobs may reach have these ports at the gateway's address, in the order of their list."""
_TO_ALL, _FROM_HERE = "fib daddr type { multicast, broadcast }", ('iifname "lo"', "fib saddr type local")
"""A broadcast comes back to this node as if from outside, with the node's own address."""
_NO = ("meta l4proto tcp reject with tcp reset", "reject with icmpx port-unreachable")


@dataclass(frozen=True, slots=True)
class Cable:
    """A tenant's way out: the node's end, and the address of the inner one.

    Rules know it by its `index`, which no later link has: rules of an agent that never comes back match nothing.
    """

    link: str
    index: int
    address: str


@dataclass(frozen=True, slots=True)
class Member:
    """A part in the node's network. `group`: its control group, below the root of cgroup 2; `peers`: its job's nodes."""

    group: str
    account: int
    peers: tuple[str, ...]


def table_remove(table: str) -> str:
    """Return rules that remove a table, whether it is there or not."""
    return f"table inet {table}\ndelete table inet {table}\n"


def outer_rules(table: str, site: Site | None, cables: Iterable[Cable], members: Iterable[Member]) -> str:
    """Return the whole table of an agent, in place of the one that was. `site` None: nothing of the node is open."""
    cables, members = sorted(cables, key=lambda c: c.link), sorted(members, key=lambda m: m.group)
    opened, addresses = (site.opened, site.addresses) if site else ((), ())
    chains = [*_cables_chains(opened, addresses, cables), *_members_chains(members)]
    return table_remove(table) + f"table inet {table} {{\n" + "\n".join(chains) + "\n}\n"


def inner_rules(opened: Sequence[Service]) -> str:
    """Return the table inside a tenant's network, which leads to the node's services by their own addresses."""
    lines = [
        f"ip daddr {each.address} meta l4proto {{ tcp, udp }} th dport {each.port} dnat ip to {GATEWAY}:{FIRST_PORT + at}"
        for at, each in enumerate(opened)
    ]
    return (
        "table inet berth {\n"
        + _chain("out", "nat hook output priority -100", lines)
        + "\n"
        + _chain("leave", "nat hook postrouting priority srcnat", [f'oifname "{INNER}" masquerade'])
        + "\n}\n"
    )


def _cables_chains(opened: Sequence[Service], addresses: Sequence[str], cables: Sequence[Cable]) -> list[str]:
    if not cables:
        return []
    links = _set(str(each.index) for each in cables)
    own = _set(f"{each.index} . {each.address}" for each in cables)
    sources = _set(each.address for each in cables)
    nodes = _set([GATEWAY, *(each for each in addresses if ":" not in each)])
    forward = [
        f"iif {links} goto leaving",
        f"oif {links} ct state established,related accept",
        f"oif {links} drop",
    ]
    entering = [f"oif {links} ct state established,related accept", *(f"oif {links} {no}" for no in _NO)]
    leaving = [
        "meta nfproto != ipv4 drop",
        f"iif . ip saddr != {own} drop",
        "ct state established,related accept",
        *(f"{to} {no}" for to in (f'oifname "{LINK}*"', f"ct original ip daddr {nodes}") for no in _NO),
        "accept",
    ]
    arriving = ["meta nfproto != ipv4 drop", f"iif . ip saddr != {own} drop", "ct state established,related accept"]
    arriving += [
        f"ct original ip daddr {GATEWAY} ip daddr {each.address} th dport {each.port} accept" for each in opened
    ]
    arriving += _NO
    return [
        _chain("leaving", "", leaving),
        _chain("arriving", "", arriving),
        _chain("forward", "filter hook forward priority filter", forward),
        _chain("input_cables", "filter hook input priority filter", [f"iif {links} goto arriving"]),
        _chain("output_cables", "filter hook output priority filter", entering),
        *_services_chains(opened, links),
        _chain("leave", "nat hook postrouting priority srcnat", [f"ip saddr {sources} masquerade"]),
    ]


def _services_chains(opened: Sequence[Service], links: str) -> list[str]:
    services = [
        f"iif {links} ip daddr {GATEWAY} meta l4proto {{ tcp, udp }} th dport {FIRST_PORT + at} "
        f"dnat ip to {each.address}:{each.port}"
        for at, each in enumerate(opened)
    ]
    as_local = [f"iif {links} ip daddr 127.0.0.0/8 ct status dnat snat ip to 127.0.0.1"]
    return [
        _chain("services", "nat hook prerouting priority dstnat", services),
        _chain("as_local", "nat hook input priority 100", as_local if opened else []),
    ]


def _members_chains(members: Sequence[Member]) -> list[str]:
    if not members:
        return []
    marks = _set(f"{account} : {account}" for account in sorted({each.account for each in members}))
    senders = [f"{way} meta mark set meta skuid map {marks}" for way in ('oifname "lo"', _TO_ALL)]
    chains = [_chain("senders", "filter hook output priority filter", senders)]
    for at, each in enumerate(members):
        lines = [f"{way} meta mark {{ 0, {each.account} }} accept" for way in _FROM_HERE]
        lines += [f"{way} {no}" for way in _FROM_HERE for no in _NO]
        lines.append("ct state established,related accept")
        for family, some in (
            ("ip6", [p for p in each.peers if ":" in p]),
            ("ip", [p for p in each.peers if ":" not in p]),
        ):
            lines += [f"{family} saddr {_set(some)} accept"] if some else []
        chains.append(_chain(f"part_{at}", "", [*lines, *_NO]))
    received = [
        f'socket cgroupv2 level {each.group.count("/") + 1} "{each.group}" goto part_{at}'
        for at, each in enumerate(members)
    ]
    return [*chains, _chain("input_members", "filter hook input priority filter", received)]


def _set(elements: Iterable[str]) -> str:
    return "{ " + ", ".join(elements) + " }"


def _chain(name: str, hook: str, lines: Sequence[str]) -> str:
    head = [f"    type {hook};"] if hook else []
    return "\n".join([f"  chain {name} {{", *head, *(f"    {line}" for line in lines), "  }"])
