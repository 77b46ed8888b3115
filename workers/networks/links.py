"""A tenant's network: a namespace, and a cable (veth) that leads from it to the node.

Inside, the node's own addresses are the tenant's: a program that names its machine reaches itself, as it did on the node.
Packets to the outside go through the node, by the address of the cable's inner end. Two programs set Linux's networks: `ip` of
iproute2 and `nft` of nftables.
"""

from __future__ import annotations

import itertools
import os
import shutil
import socket
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from workers.networks.rules import GATEWAY, INNER, Cable, inner_rules
from workers.networks.site import LINK, Site, routes
from workers.system.interfaces import address_of
from workers.system.netns import inside, namespace_make

if TYPE_CHECKING:
    from collections.abc import Sequence

PATH = "/usr/sbin:/usr/bin:/sbin:/bin"
PACKAGES = {"ip": "iproute2", "nft": "nftables"}
LIMIT_S = 20.0
_GROUPS = Path("/sys/fs/cgroup")
_BOUND = 'mount --bind "$0" /sys/fs/cgroup && exec "$@"'


class NetworkError(OSError):
    """A network could not be set. The text says which program refused, and why."""


def missing() -> list[str]:
    return [package for program, package in PACKAGES.items() if shutil.which(program, path=PATH) is None]


def ip(lines: Sequence[str], namespace: int | None = None, *, handed: int | None = None) -> None:
    """Do as these lines of `ip` say, in a namespace; `handed`: a descriptor that they name. Raises NetworkError."""
    _run(["ip", "-batch", "-"], "\n".join(lines) + "\n", namespace, handed)


def nft(rules: str, namespace: int | None = None, *, groups: Path | None = None) -> None:
    """Load rules, all or none of them. `groups`: where cgroup 2 is mounted, if they name groups. Raises NetworkError.

    nft looks groups up only below /sys/fs/cgroup. Where something else lies there, this one call mounts the tree there.
    """
    words = ["nft", "-f", "-"]
    if groups is not None and groups != _GROUPS:
        words = ["unshare", "--mount", "sh", "-c", _BOUND, str(groups), *words]
    _run(words, rules, namespace, None)


def table_is_there(table: str) -> bool:
    try:
        _run(["nft", "list", "table", "inet", table], "", None, None)
    except NetworkError:
        return False
    return True


def _run(words: list[str], text: str, namespace: int | None, handed: int | None) -> None:
    def run() -> subprocess.CompletedProcess[str]:
        return subprocess.run(  # noqa: S603 - our own words
            words,
            input=text,
            capture_output=True,
            text=True,
            check=False,
            timeout=LIMIT_S,
            env={"PATH": PATH, "LC_ALL": "C"},
            pass_fds=() if handed is None else (handed,),
        )

    try:
        done = inside(namespace, run)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NetworkError(f"{words[0]}: {error}") from error
    if done.returncode:
        said = " ".join((done.stderr or done.stdout).split())[:200]
        raise NetworkError(f"{words[0]}: {said or f'it ended with {done.returncode}'}")


def sysctl(name: str, value: str) -> None:
    """Set one of /proc/sys, unless it is so. Raises NetworkError."""
    path = Path("/proc/sys", name)
    try:
        if path.read_text().strip() != value:
            path.write_text(value)
    except OSError as error:
        raise NetworkError(f"{path} cannot be set to {value}: {os.strerror(error.errno or 0)}") from error


_MOST_LINKS, _TRIES = 99_999, 100


def network_make(site: Site) -> tuple[int, Cable]:
    """Make a tenant's network; return a descriptor that holds it, and its cable. Raises NetworkError."""
    try:
        namespace = namespace_make()
    except OSError as error:
        raise NetworkError(f"no network namespace can be made: {error}") from error
    try:
        sysctl("net/ipv4/ip_forward", "1")
        cable = _lay(site, namespace)
        try:
            _furnish(site, namespace, cable)
        except OSError:
            cable_remove(cable)
            raise
    except BaseException:
        os.close(namespace)
        raise
    return namespace, cable


def _lay(site: Site, namespace: int) -> Cable:
    """Lay the cable under the first number that is free. The kernel takes a name once, so its name is the number's lock."""
    taken = _links()
    most = min(_MOST_LINKS, site.network.num_addresses - 2)
    for number in itertools.islice((n for n in range(1, most + 1) if f"{LINK}{n}" not in taken), _TRIES):
        name, address = f"{LINK}{number}", str(site.network.network_address + number)
        lines = [
            f"link add {name} mtu {site.mtu} type veth peer name {INNER} mtu {site.mtu} netns /proc/self/fd/{namespace}",
            f"link set {name} addrgenmode none",
            f"addr add {GATEWAY}/32 dev {name}",
            f"link set {name} up",
            f"route add {address}/32 dev {name}",
        ]
        try:
            ip(lines, handed=namespace)
        except NetworkError as error:
            if "File exists" in str(error) and name in _links():
                continue  # another agent of this machine was quicker
            raise
        return Cable(name, _index(name), address)
    raise NetworkError(f"no address of {site.network} is free for another tenant; give a larger range, --jobs-network")


def _furnish(site: Site, namespace: int, cable: Cable) -> None:
    own = [f"addr add {each}{'/128 nodad' if ':' in each else '/32'} dev lo" for each in site.addresses]
    lines = [
        f"link set {INNER} addrgenmode none",
        "link set lo up",
        *(line for line in own if ":" not in line or os.path.exists("/proc/net/if_inet6")),  # noqa: PTH110
        f"addr add {cable.address}/32 dev {INNER}",
        f"link set {INNER} up",
        f"route add {GATEWAY} dev {INNER}",
        f"route add default via {GATEWAY} dev {INNER}",
    ]
    ip(lines, namespace)
    if site.opened:
        sysctl(f"net/ipv4/conf/{cable.link}/route_localnet", "1")
        inside(namespace, lambda: sysctl(f"net/ipv4/conf/{INNER}/route_localnet", "1"))
        nft(inner_rules(site.opened), namespace)


def cable_of(namespace: int) -> Cable | None:
    """Return the cable of a network that an earlier agent made; None: it has none of ours. Raises NetworkError."""
    address = inside(namespace, lambda: address_of(INNER))
    found = [name for name, there in routes() if name.startswith(LINK) and str(there) == f"{address}/32"]
    return Cable(found[0], _index(found[0]), address) if address and found else None


def cable_remove(cable: Cable) -> None:
    """Take the cable away, though a process may still hold the namespace. It may be gone already."""
    try:
        ip([f"link del {cable.link}"])
    except NetworkError:
        if cable.link in _links():
            raise


def _index(link: str) -> int:
    try:
        return socket.if_nametoindex(link)
    except OSError as error:
        raise NetworkError(f"{link} is gone: {error}") from error


def _links() -> set[str]:
    return {name for _, name in socket.if_nameindex()}
