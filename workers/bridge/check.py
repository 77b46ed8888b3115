"""Tells a Slurm admin in a table whether a bridge would work here, and the command that mends the rest. It changes nothing."""

from __future__ import annotations

import re
import shlex
import time
from collections import Counter
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Literal

from workers.bridge import texts
from workers.bridge.command import CommandError, Ssh
from workers.bridge.trial import PATIENCE_S, TrialError, has_landlock, node_try
from workers.protocol.engine import Away

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from workers.bridge.slurm import SlurmEngine
    from workers.protocol.engine import Order

Mark = Literal["well", "warning", "mend", "untried"]
SIGNS: dict[Mark, str] = {"well": "✓", "warning": "!", "mend": "✗", "untried": "·"}
FAINT, PLAIN = "\x1b[2m", "\x1b[0m"
ON_A_NODE = "a compute node: Python, Landlock, the folder"


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the table. `mend`: a command, or the line to write; "" where nothing is to be done."""

    mark: Mark
    tried: str
    found: str
    mend: str = ""
    took_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Asked:
    """The bridge that is planned. `order`: one pilot. `portal`: asks it, and returns "" or the reason of a failure."""

    engine: SlurmEngine
    order: Order
    folder: str
    leave_s: float
    portal: Callable[[], str]
    try_job: bool = False
    patience_s: float = PATIENCE_S


def check(asked: Asked) -> list[Line]:
    """Return the table's lines. Without Slurm the lines that ask it are left out."""
    first = [login_node] if isinstance(asked.engine.runner, Ssh) else []
    lines = [*_tried(first, asked), *_tried([slurm], asked)]
    if not must_mend(lines):
        lines += _tried([partition, longest, gpus, acceptance, kill_wait, accounting], asked)
    lines += _tried([portal], asked)
    if not must_mend(lines[: len(first)]):
        lines += _tried([folder], asked)
    if asked.try_job and not must_mend(lines):
        return [*lines, *_tried([compute_node], asked)]
    why = "something above must be mended first" if asked.try_job else "not tried: add --try-job"
    return [*lines, Line("untried", ON_A_NODE, why)]


def _tried(functions: Iterable[Callable[[Asked], Line]], asked: Asked) -> list[Line]:
    lines = []
    for each in functions:
        began = time.monotonic()
        line = each(asked)
        lines.append(Line(line.mark, line.tried, line.found, line.mend, round(time.monotonic() - began, 3)))
    return lines


def login_node(asked: Asked) -> Line:
    runner = asked.engine.runner
    assert isinstance(runner, Ssh)
    tried = f"the login node {runner.host} answers"
    done = runner.run("true")
    if done.code == 0:
        return Line("well", tried, "it does")
    if "Permission denied" in done.err:
        public = runner.key.with_name(runner.key.name + ".pub").read_text().strip()
        return Line(
            "mend", tried, done.words, f"echo '{public}' >> ~/.ssh/authorized_keys   # there, as the bridge's account"
        )
    if "Host key verification failed" in done.err:
        known = runner.directory / "known_hosts"
        return Line(
            "mend", tried, "its key is another one than at first", f"rm {known}   # if the admin has changed it"
        )
    return Line("mend", tried, done.words, f"ssh {runner.host} true")


def slurm(asked: Asked) -> Line:
    found = asked.engine.describe()
    if isinstance(found, Away):
        return Line(
            "mend", "Slurm answers", found.reason, "scontrol ping   # Slurm's clients: apt install slurm-client"
        )
    return Line("well", "Slurm answers", f"Slurm {found[1]}, cluster {found[0]}")


def partition(asked: Asked) -> Line:
    name = asked.engine.partition
    tried = f"the partition {name} is up"
    done = asked.engine.runner.run("scontrol", "-o", "show", "partition", name)
    words = texts.words_read(done.out)
    if done.code != 0 or "State" not in words:
        return Line("mend", tried, done.words, "sinfo --summarize   # names the partitions")
    if words["State"] != "UP":
        return Line("mend", tried, f"it is {words['State']}", f"scontrol update PartitionName={name} State=UP")
    return Line("well", tried, f"{words.get('TotalNodes', '?')} nodes, {words.get('TotalCPUs', '?')} cores")


def longest(asked: Asked) -> Line:
    """Say whether the partition lets a job last this long: sbatch takes a longer one, which then waits for ever."""
    name, limit_s = asked.engine.partition, asked.order["limit_s"]
    tried = f"a job may last {texts.minutes(limit_s)} minutes"
    done = asked.engine.runner.run("scontrol", "-o", "show", "partition", name)
    most_s = texts.seconds_read(texts.words_read(done.out).get("MaxTime", ""))
    if done.code != 0:
        return Line("warning", tried, done.words)
    if most_s is None:
        return Line("well", tried, "the partition has no limit")
    if most_s < texts.minutes(limit_s) * 60:
        mend = f"scontrol update PartitionName={name} MaxTime={texts.minutes(limit_s)}   # or ask for less"
        return Line("mend", tried, f"MaxTime is {most_s / 60:g} minutes", mend)
    return Line("well", tried, f"MaxTime is {most_s / 60:g} minutes")


def gpus(asked: Asked) -> Line:
    tried, kind = "GPUs have types", asked.order["gpu_type"]
    nodes = asked.engine.inventory()
    if isinstance(nodes, Away):
        return Line("mend", tried, nodes.reason, "scontrol -o -d show nodes")
    count: Counter[str] = Counter()
    for node in nodes:
        count.update(node["gpus"])
    found = ", ".join(f"{each}: {many}" for each, many in sorted(count.items()))
    if asked.order["gpus"] and not count[kind or next(iter(count), "")]:
        named = f"no node has a GPU of the type {kind}" if kind else "no node has a GPU"
        return Line(
            "mend",
            tried,
            f"{named} ({found or 'none'})",
            "GresTypes=gpu in slurm.conf, Gres=gpu:TYPE:COUNT at its nodes",
        )
    if not any(node["takes_jobs"] for node in nodes):
        reasons = ", ".join(f"{node['name']} is {node['state']} ({node['reason']})" for node in nodes[:3])
        return Line(
            "warning", tried, f"no node takes jobs now: {reasons}", "scontrol update NodeName=NODE State=RESUME"
        )
    if "gpu" in count:
        return Line("warning", tried, f'{found}; those of "gpu" have none', "Type=TYPE in gres.conf")
    return Line("well", tried, found or "no GPUs, whole nodes are asked for")


def acceptance(asked: Asked) -> Line:
    tried, words = "a job would be accepted", asked.engine.asks(asked.order)
    done = asked.engine.runner.run("sbatch", "--test-only", *words, text="#!/bin/sh\n")
    if done.code == 0:
        return Line("well", tried, _start(done.err))
    again = shlex.join(["sbatch", "--test-only", *words, "--wrap=true"])
    return Line("mend", tried, re.sub(r"(?:sbatch: error|allocation failure): ", "", done.words), again)


def _start(text: str) -> str:
    """Return the nodes that `sbatch --test-only` names: `sbatch: Job 22 to start at 1796024171 using ... on nodes n2 in ...`."""
    _, _, rest = text.partition(" on nodes ")
    return f"Slurm would take {rest.split()[0]}" if rest.split() else "it would"


def kill_wait(asked: Asked) -> Line:
    tried = f"a job has {asked.leave_s:g} s between SIGTERM and SIGKILL"
    config = texts.lines_read(asked.engine.runner.run("scontrol", "show", "config").out)
    kill_s = config.get("KillWait", "").removesuffix(" sec")
    if not kill_s.isdecimal():
        return Line("warning", tried, "KillWait is not known", "scontrol show config")
    if int(kill_s) < asked.leave_s:
        mend = f"KillWait={asked.leave_s:.0f} in slurm.conf, then: scontrol reconfigure"
        return Line("warning", tried, f"{kill_s} s after scancel (KillWait): checkpoints must be saved in less", mend)
    return Line("well", tried, f"KillWait is {kill_s} s")


def accounting(asked: Asked) -> Line:
    tried = "sacct tells past jobs"
    done = asked.engine.runner.run("sacct", "--allusers", "-X", "-n", "-P", "--starttime=now-1days", "--format=User")
    if done.code != 0:
        return Line(
            "warning", tried, f"{done.words}: the past stays unknown", "AccountingStorageType=... in slurm.conf"
        )
    users = set(filter(None, done.out.split()))
    if users <= {asked.engine.runner.run("id", "-un").out.strip()}:
        mend = "sacctmgr modify user NAME set AdminLevel=Operator   # where PrivateData hides them"
        return Line("warning", tried, "none of another account in the last day", mend)
    return Line("well", tried, f"jobs of {len(users)} accounts in the last day")


def portal(asked: Asked) -> Line:
    reason = asked.portal()
    if reason:
        return Line("mend", "the portal is reached", reason, "curl URL/livez   # on the bridge's machine")
    return Line("well", "the portal is reached", "it answers")


def folder(asked: Asked) -> Line:
    tried, path = f"{asked.folder} is writable, and closed to others", f"{asked.folder}/.berth-check"
    try:
        asked.engine.runner.put(path, "")
    except CommandError as error:
        quoted = shlex.quote(asked.folder)
        return Line("mend", tried, str(error), f"mkdir -p {quoted} && chmod 700 {quoted}   # as the bridge's account")
    asked.engine.runner.run("rm", "-f", path)
    return Line("well", tried, "it is")


def compute_node(asked: Asked) -> Line:
    try:
        words = node_try(asked.engine, asked.folder, patience_s=asked.patience_s)
    except TrialError as error:
        if error.waits:
            return Line("warning", ON_A_NODE, f"{error}", "squeue --me --start   # and try again later")
        return Line("mend", ON_A_NODE, str(error), f"choose a folder that all nodes share instead of {asked.folder}")
    if not words.get("python"):
        return Line(
            "mend", ON_A_NODE, f"{words['node']} has no Python >= 3.11", "apt install python3.11-venv   # on each node"
        )
    found = f"{words['node']}: {words['python']}, Landlock {words['landlock']}"
    if not has_landlock(words["landlock"]):
        return Line(
            "warning", ON_A_NODE, f"{found}: no wall between tenants", "let a pilot serve one tenant: --tenant NAME"
        )
    return Line("well", ON_A_NODE, found)


def must_mend(lines: Iterable[Line]) -> bool:
    """Return whether the command ends with 1."""
    return any(line.mark == "mend" for line in lines)


def table(lines: Sequence[Line], *, colours: bool = False) -> str:
    """Return the lines as text for a terminal."""
    wide = max(len(line.tried) for line in lines)
    rows = []
    for line in lines:
        row = f"{SIGNS[line.mark]} {line.tried:{wide}}  {line.found}"
        row += f"  ({line.took_s * 1000:.0f} ms)" if line.mark != "untried" else ""
        rows.append(f"{FAINT}{row}{PLAIN}" if colours and line.mark == "untried" else row)
        rows += [f"  {'':{wide}}  → {line.mend}"] if line.mend else []
    return "\n".join(rows) + "\n"


def as_json(lines: Iterable[Line]) -> list[dict[str, object]]:
    """Return the same for the console."""
    return [asdict(line) for line in lines]
