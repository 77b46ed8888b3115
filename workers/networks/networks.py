"""Which network each part of this node has: made before its first part of a tenant, and gone with the last one.

All is found again after a kill: a tenant's network by a living shim in it, its number by the address inside, and the rules
are one table that is written anew. Several threads use it.
"""

from __future__ import annotations

import os
import socket
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from workers.controls.cgroups import group_path2, owner_of, part_group
from workers.networks.links import NetworkError, cable_of, cable_remove, missing, network_make, nft, table_is_there
from workers.networks.rules import Cable, Member, outer_rules, table_remove
from workers.system import log
from workers.system.files import BrokenFileError, read_record
from workers.system.netns import namespace_of

if TYPE_CHECKING:
    from pathlib import Path

    from workers.networks.site import Site


@dataclass(slots=True)
class _Tenant:
    namespace: int
    cable: Cable
    parts: set[str] = field(default_factory=set)


class Networks:
    """`parts`: the directory of the node's parts. `site` None: parts on one node have no network of their own.

    `members`: parts in the node's network are behind rules.
    """

    def __init__(self, parts: Path, site: Site | None, *, members: bool) -> None:
        self._table = table_of(parts)
        self._site, self._with_members = site, members
        self._tenants: dict[str, _Tenant] = {}
        self._members: dict[str, Member] = {}
        self._tree: Path | None = None
        self._lock = threading.Lock()

    def begin(self, directory: Path) -> int | None:
        """Give a part its network before its shim starts; return its descriptor, None: the node's. Raises NetworkError."""
        launch = _launch(directory)
        with self._lock:
            if self._site is not None and launch.get("account") and len(launch["world"]["nodes"]) < 2:
                return self._enter(directory.name, str(launch["tenant_id"]))
            self._join(directory, launch)
        return None

    def adopt(self, directory: Path, pid: int) -> None:
        """Take over the network of a living part, as an earlier agent gave it. `write_rules` writes the rules."""
        launch = _launch(directory)
        with self._lock:
            try:
                namespace = namespace_of(pid)
            except (FileNotFoundError, ProcessLookupError):  # it has just ended
                return
            if namespace is None:
                self._join(directory, launch, rules=False)
                return
            tenant = str(launch["tenant_id"])
            if tenant in self._tenants or (cable := cable_of(namespace)) is None:
                os.close(namespace)
            else:
                self._tenants[tenant] = _Tenant(namespace, cable)
            if tenant in self._tenants:
                self._tenants[tenant].parts.add(directory.name)

    def write_rules(self) -> None:
        """Write the rules for all adopted parts, in place of an earlier agent's. Raises NetworkError."""
        with self._lock:
            if self._tenants or self._site is not None or self._with_members:
                self._write()

    def keep(self) -> None:
        """Write the rules again where somebody has removed them, as a reload of a firewall may do. Raises NetworkError."""
        with self._lock:
            if (self._tenants or self._members) and not table_is_there(self._table):
                log.warning("the rules of tenants' networks were removed by somebody; they are written again")
                self._write()

    def end(self, key: str) -> None:
        """Forget a part that has ended. With a tenant's last one its network and rules go. Raises NetworkError."""
        with self._lock:
            gone = [name for name, each in self._tenants.items() if each.parts == {key}]
            for each in self._tenants.values():
                each.parts.discard(key)
            for name in gone:
                self._leave(name)
            if self._members.pop(key, None) or gone:
                self._write()

    def _enter(self, key: str, tenant: str) -> int:
        assert self._site is not None
        known = self._tenants.get(tenant)
        if known is None:
            known = self._tenants[tenant] = _Tenant(*network_make(self._site))
            try:
                self._write()
            except OSError:
                self._leave(tenant)
                raise
        known.parts.add(key)
        return known.namespace

    def _leave(self, tenant: str) -> None:
        gone = self._tenants.pop(tenant)
        os.close(gone.namespace)
        cable_remove(gone.cable)

    def _join(self, directory: Path, launch: dict[str, Any], *, rules: bool = True) -> None:
        """Put a part in the node's network behind rules. Its group is there before the rules that name it."""
        if not self._with_members or not launch.get("account"):
            return
        found = group_path2(part_group(directory, virtual=launch["virtual"]))
        if found is None:
            raise NetworkError("its control group of cgroup 2, by which its network is kept apart, cannot be made")
        self._tree, group = found
        peers = _addresses(launch["world"]["nodes"])
        self._members[directory.name] = Member(group, launch["account"]["uid"], peers)
        try:
            if rules:
                self._write()
        except OSError:
            del self._members[directory.name]
            raise

    def _write(self) -> None:
        """Load the whole table. Raises NetworkError; then the one that was stays."""
        if not self._tenants and not self._members:
            nft(table_remove(self._table))
            return
        cables = [each.cable for each in self._tenants.values()]
        there = self._there()
        try:
            nft(outer_rules(self._table, self._site, cables, there), groups=self._tree)
        except NetworkError:
            still = self._there()
            if still == there:
                raise
            nft(outer_rules(self._table, self._site, cables, still), groups=self._tree)

    def _there(self) -> list[Member]:
        """Return the parts that are still behind rules: the shim of one that has ended has removed its group, and rules that
        name it would be refused.
        """
        return [each for each in self._members.values() if self._tree and (self._tree / each.group).is_dir()]


def table_of(parts: Path) -> str:
    """Return the name of an agent's table of rules: no other one of the machine has the same."""
    return f"berth_{owner_of(parts)}"


def trial_table_of(parts: Path) -> str:
    """Return the name of the table with which an agent tries its rules as it starts."""
    return f"{table_of(parts)}_trial"


def rules_remove(parts: Path) -> None:
    """Remove the rules of a node that runs nothing any more, if it has any. Raises NetworkError."""
    for table in (table_of(parts), trial_table_of(parts)):
        if os.geteuid() == 0 and not missing() and table_is_there(table):  # root in a container may not even ask
            nft(table_remove(table))


def _launch(directory: Path) -> dict[str, Any]:
    try:
        found = read_record(directory / "launch.json", tenant_id=(int, str), world=dict, virtual=bool)
    except BrokenFileError as error:
        raise NetworkError(str(error)) from error
    if found is None:
        raise NetworkError(f"{directory}/launch.json is missing")
    return found


def _addresses(nodes: list[dict[str, Any]]) -> tuple[str, ...]:
    """Return the addresses of a job's nodes. A name that leads nowhere is left out: the job cannot use it either."""
    found: dict[str, None] = {}
    for node in nodes:
        for name in (node["address"], *node.get("addresses", ())):
            with suppress(OSError, UnicodeError):
                found |= dict.fromkeys(
                    str(each[4][0]) for each in socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
                )
    return tuple(found)
