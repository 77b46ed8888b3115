"""Reads Slurm's texts: `scontrol -o -d show nodes`, a formatted `squeue`, `scontrol show config`. Pure functions of text."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from workers.protocol.engine import MOST_REASON, NodeSeen, OrderSeen

if TYPE_CHECKING:
    from workers.protocol.engine import State

BETWEEN = "\x1f"
FORMAT = BETWEEN.join(("%i", "%T", "%r", "%N", "%S", "%e", "%j"))
"""A job's name is the last field, for a user chooses it; the others never hold this separator."""
PENDING = frozenset({"PENDING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "RESV_DEL_HOLD", "SPECIAL_EXIT"})
RUNNING = frozenset(
    {"RUNNING", "CONFIGURING", "COMPLETING", "SUSPENDED", "RESIZING", "SIGNALING", "STAGE_OUT", "STOPPED"}
)
ENDED = frozenset(
    {
        "COMPLETED",
        "CANCELLED",
        "FAILED",
        "TIMEOUT",
        "NODE_FAIL",
        "PREEMPTED",
        "BOOT_FAIL",
        "DEADLINE",
        "OUT_OF_MEMORY",
        "REVOKED",
    }
)
STATES: dict[str, State] = {
    **dict.fromkeys(PENDING, "pending"),
    **dict.fromkeys(RUNNING, "running"),
    **dict.fromkeys(ENDED, "ended"),
}
NO_REASON = ("None", "")

TAKES_JOBS = frozenset({"idle", "mixed", "allocated"})
CLOSES = frozenset(
    "drain fail maint not_responding invalid_reg power_down powering_down reboot_requested reboot_issued blocked".split()
)
RESERVED = "reserved"
SUFFIXES = "*~#!%$@^-"
NOT_RESPONDING = "*"


def nodes_read(text: str, partition: str, *, reservation: bool = False) -> list[NodeSeen]:
    """Return the partition's nodes. `reservation`: jobs go into one, so nodes that belong to one take them."""
    lines = re.split(r"(?m)^(?=NodeName=)", text)
    mine = (line for line in lines if partition in _word(line, "Partitions").split(","))
    return [_node(line, reservation=reservation) for line in mine]


def _node(line: str, *, reservation: bool) -> NodeSeen:
    state = _word(line, "State").lower()
    base, *flags = state.rstrip(SUFFIXES).split("+")
    closed = CLOSES if reservation else CLOSES | {RESERVED}
    reason = re.search(r" Reason=(.*?)(?: \[[^][ ]*@[^][ ]*\].*)?$", line.rstrip(), re.DOTALL)
    return NodeSeen(
        name=_word(line, "NodeName"),
        state=state,
        takes_jobs=base in TAKES_JOBS and closed.isdisjoint(flags) and NOT_RESPONDING not in state,
        reason=" ".join(reason[1].split())[:MOST_REASON] if reason else "",
        cores=_count(line, "CPUEfctv") or _count(line, "CPUTot"),
        cores_busy=_count(line, "CPUAlloc"),
        memory_mib=max(0, _count(line, "RealMemory") - _count(line, "MemSpecLimit")),
        memory_busy_mib=_count(line, "AllocMem"),
        gpus=gpus_read(_word(line, "Gres")),
        gpus_busy=gpus_read(_word(line, "GresUsed")),
    )


def _word(line: str, key: str) -> str:
    """Return the first value of this key: an admin's words come behind all that is read."""
    found = re.search(rf"(?:^|\s){key}=(\S*)", line)
    return found[1] if found else ""


def _count(line: str, key: str) -> int:
    text = _word(line, key)
    return int(text) if text.isdecimal() else 0


def gpus_read(text: str) -> dict[str, int]:
    """Return the GPUs by type, where there are any: `gpu:a100:4(S:0-1),gpu:2,shard:8` has 4 of "a100" and 2 of "gpu"."""
    gpus: dict[str, int] = {}
    for each in re.sub(r"\([^)]*\)", "", text).split(","):
        name, *rest = each.split(":")
        count = int(rest.pop()) if rest and rest[-1].isdecimal() else 1
        if name == "gpu" and count:
            kind = ":".join(rest) or "gpu"
            gpus[kind] = gpus.get(kind, 0) + count
    return gpus


def orders_read(text: str) -> tuple[list[OrderSeen], list[str]]:
    """Return the jobs, without arrays and jobs of several parts, and the lines that are none."""
    orders, bad = [], []
    for line in filter(None, text.split("\n")):
        words = line.split(BETWEEN, 6)
        if len(words) != 7 or words[1] not in STATES:
            bad.append(line)
        elif words[0].isdecimal():
            orders.append(_order(words))
    return orders, bad


def _order(words: list[str]) -> OrderSeen:
    ticket, word, why, node, starts, ends, name = words
    state = STATES[word]
    reason = "" if why in NO_REASON else why
    if state == "ended":
        reason = ": ".join(filter(None, (word, reason)))
    seen = OrderSeen(name=name, ticket=ticket, state=state, reason=reason[:MOST_REASON], node=node)
    seen["since"] = float(starts) if starts.isdecimal() else None
    seen["ends_at"] = float(ends) if ends.isdecimal() and state != "pending" else None
    return seen


def lines_read(text: str) -> dict[str, str]:
    """Return the lines `Name = value`."""
    return {found[1]: found[2].strip() for found in re.finditer(r"(?m)^(\S+)\s*= (.*)$", text)}


def words_read(text: str) -> dict[str, str]:
    """Return the words `Name=value`; the first of a name counts."""
    pairs = [each.partition("=") for each in text.split() if "=" in each]
    return {name: value for name, _, value in reversed(pairs)}


def minutes(seconds: float) -> int:
    """Return Slurm's unit of time limits, rounded up."""
    return max(1, -int(-seconds // 60))


def seconds_read(text: str) -> float | None:
    """Return a time limit of Slurm's ([DAYS-]HOURS:MINUTES:SECONDS) in seconds; None: no limit."""
    found = re.fullmatch(r"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+)", text)
    if found is None:
        return None
    days, hours, mins, secs = (int(each or 0) for each in found.groups())
    return float(((days * 24 + hours) * 60 + mins) * 60 + secs)
