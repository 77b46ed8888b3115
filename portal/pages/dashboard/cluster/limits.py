"""Limits and walls to which a node can hold jobs, as its agent tried them at its start, in plain words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from portal.cluster.models import Node


class Limit(NamedTuple):
    """`walls`: the agent's names, all of which must hold; `held`, `open`: how it is where they hold, and where they do not.

    `part`: how it is where the first holds, but another does not or the agent names an exception.
    """

    label: str
    short: str
    walls: tuple[str, ...]
    held: str
    open: str
    part: str = ""


LIMITS = (
    Limit("CPU cores", "cores", ("cores",), "a job never gets more than it holds", "a job may take more than it holds"),
    Limit(
        "Memory",
        "memory",
        ("memory",),
        "a job that uses more is ended",
        "measured each second; a job that uses more is ended",
    ),
    Limit("GPUs", "GPUs", ("devices",), "a job sees its own only", "a job knows its own, and could open others"),
    Limit(
        "GPU memory, when shared", "shared GPU memory", ("gpus",), "limit set at its start", "each job takes its turn"
    ),
    Limit(
        "Processes",
        "processes",
        ("processes", "pids"),
        "a job sees its own only, up to a limit",
        "a job sees others, or may start too many",
    ),
    Limit(
        "Network",
        "network",
        ("network",),
        "other tenants' jobs do not reach a job's ports",
        "any job may reach a job's ports: give servers a password",
        "other tenants' jobs do not reach ports of a job on one node; of jobs over several nodes they do",
    ),
    Limit(
        "Other users' files",
        "other users' files",
        ("accounts", "mounts"),
        "each tenant's jobs run under an account of their own",
        "jobs run under one account; tenants must trust each other",
        "each tenant's jobs run under an account of their own; /tmp is shared",
    ),
)
DISK = Limit("Disk", "disk", (), "", "measured while it runs; a fast writer passes its limit for seconds")
BERTHS = Limit(
    "Berth's files",
    "Berth's files",
    ("files",),
    "a job cannot open them",
    "a job may read all that the agent may",
    "a job cannot open them, but can end Berth's processes",
)
TURNS = "time slicing"
"""The agent's word for jobs on one GPU that take turns: nothing holds them to a share."""
SEEN = {"groups": "; lists of connections are seen"}
MEANS = {"cgroup2": "control group v2", "cgroup1": "control group v1"}


def limits_context(node: Node) -> dict[str, Any] | None:
    """Return the rows, and a digest of them; None from an agent that tells nothing."""
    known: Mapping[str, Any] = node.isolation
    told = {wall["name"]: wall for wall in known.get("walls", ())}
    rows = [_row(limit, told) for limit in LIMITS if any(name in told for name in limit.walls)]
    if rows:
        rows.insert(-1, _row(DISK, told))
    if "files" in known:
        berths = {"by": "Landlock or accounts" * known["files"], "why": known.get("why", "")}
        rows.append(_row(BERTHS, {"files": berths}))
    if not rows:
        return None
    held = [row["short"] for row in rows if row["held"]]
    left = [row["short"] for row in rows if not row["held"]]
    said = [_joined(held, "and")] * bool(held) + [f"not {_joined(left, 'or')}"] * bool(left)
    return {"rows": rows, "digest": "; ".join(said)}


def _joined(names: list[str], word: str) -> str:
    return f" {word} ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))


def _row(limit: Limit, told: Mapping[str, Any]) -> dict[str, Any]:
    """`how` is in plain words, `cause` the agent's own: the means by which it holds, or the reason why it does not."""
    own = [told[name] for name in limit.walls if name in told]
    means = list(dict.fromkeys(each["by"] for each in own if each["by"]))
    whys = list(dict.fromkeys(each["why"] for each in own if each["why"]))
    good = [bool(each["by"]) and each["by"] != TURNS for each in own]
    in_part = bool(limit.part and whys and own[0]["by"] and own[0]["by"] not in SEEN)
    holds = in_part or (bool(own) and all(good))
    by = f"{MEANS[means[0]]}; " if holds and means[0] in MEANS else ""
    kept = limit.part if in_part else limit.held
    return {
        "label": limit.label,
        "short": limit.short,
        "held": holds,
        "how": by + kept + SEEN.get(means[0], "") if holds else limit.open,
        "cause": ". ".join(whys) or ", ".join(means),
    }
