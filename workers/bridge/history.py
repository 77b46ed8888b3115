"""Reads the past of a partition from Slurm's accounting, for the laboratory, without the names of jobs and users.

`sacct` is asked for a day at a time. A job that was there on two days is listed twice, and counts once.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from workers.protocol.engine import NodeGroup

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from workers.bridge.command import Runner
    from workers.bridge.slurm import SlurmEngine
    from workers.protocol.engine import NodeSeen

COLUMNS = ("JobID", "User", "Account", "State", "Submit", "Start", "Elapsed", "AllocTRES", "ReqTRES")
"""Those that the reader of traces uses (docs/traces.md). None of them holds a text that a user chooses."""
DAY_S, OVERLAP_S, LIMIT_S = 86_400.0, 60, 300.0
NO_ACCOUNT = "no-account"
ACCOUNTING = "AccountingStorageType=accounting_storage/slurmdbd in slurm.conf, and a slurmdbd"


class HistoryError(Exception):
    """The past cannot be had; the text says why, and how to get it."""


@dataclass(slots=True)
class History:
    """The jobs as a trace of the format `sacct`. `older`: jobs left out because they were submitted before."""

    lines: list[str] = field(default_factory=lambda: ["|".join(COLUMNS)])
    accounts: set[str] = field(default_factory=set)
    users: dict[str, int] = field(default_factory=dict)
    older: int = 0
    odd: int = 0
    own_only: bool = False

    @property
    def jobs(self) -> int:
        return len(self.lines) - 1

    @property
    def text(self) -> str:
        return "\n".join(self.lines) + "\n"


def history_read(engine: SlurmEngine, days: int, *, clock: Callable[[], float] = time.time) -> History:
    """Return the jobs that were submitted to the partition in the last days. Raises HistoryError."""
    history, since = History(), clock() - days * DAY_S
    known: set[tuple[str, ...]] = set()
    for day in range(days):
        from_s = since + day * DAY_S
        for values in _rows(_slice(engine, from_s, from_s + DAY_S, clock()), history):
            number, user, account, state, submit, start, *rest = values
            if float(submit) < since:
                history.older += 1
            elif (run := (number, submit, start)) not in known:
                known.add(run)
                history.accounts.add(account or NO_ACCOUNT)
                person = str(history.users.setdefault(user, len(history.users) + 1))
                cleaned = (number, person, account or NO_ACCOUNT, state.split()[0], _date(submit), _date(start), *rest)
                history.lines.append("|".join(cleaned))
    if not history.jobs:
        raise HistoryError(
            f"sacct lists no job that was submitted to {engine.partition} in the last {days} days. Where others' jobs are "
            "hidden (PrivateData in slurmdbd.conf), ask the admin: sacctmgr modify user NAME set AdminLevel=Operator"
        )
    history.own_only = history.users.keys() <= {_own_name(engine.runner)}
    return history


def _slice(engine: SlurmEngine, from_s: float, until_s: float, now: float) -> str:
    """Return sacct's text of this time. Times are counted back from now: the login node's time zone does not matter."""
    began, ended = math.ceil(now - from_s) + OVERLAP_S, max(0, math.floor(now - until_s))
    words = ["--allusers", "--allocations", "--parsable2", f"--partition={engine.partition}"]
    words += [f"--starttime=now-{began}", f"--endtime=now-{ended}" if ended else "--endtime=now"]
    done = engine.runner.run("sacct", *words, f"--format={','.join(COLUMNS)}", limit_s=LIMIT_S)
    if done.code == 0:
        return done.out
    if "accounting storage is disabled" in done.err.lower():
        raise HistoryError(
            f"Slurm keeps no record of past jobs here ({done.words}). Ask the admin for accounting: {ACCOUNTING}"
        )
    raise HistoryError(f"sacct gives no past jobs: {done.words}")


def _rows(said: str, history: History) -> Iterable[Sequence[str]]:
    """Yield the values of each job. Lines that are none are counted."""
    header, *lines = said.splitlines() or [""]
    if header != "|".join(COLUMNS):
        raise HistoryError(f"sacct prints other columns than it is asked for: {header[:200]}")
    for line in lines:
        values = line.split("|")
        if len(values) == len(COLUMNS) and values[3] and values[4].isdecimal():
            yield values
        else:
            history.odd += 1


def _date(unix: str) -> str:
    """Return Unix seconds as the reader of traces wants them. A job that never began has a word instead."""
    return datetime.fromtimestamp(int(unix), tz=UTC).strftime("%Y-%m-%dT%H:%M:%SZ") if unix.isdecimal() else unix


def _own_name(runner: Runner) -> str:
    return runner.run("id", "-un").out.strip()


def history_words(history: History, days: int) -> str:
    """Return the counts and the warnings, for the person at the terminal."""
    words = f"sacct lists {history.jobs} jobs of {len(history.accounts)} accounts and {len(history.users)} users "
    words += f"in {days} days.\n"
    if history.odd:
        words += f"Warning: {history.odd} of its lines are no jobs, and are left out.\n"
    if history.own_only:
        words += (
            "Warning: all of them are your own. Where others' jobs are hidden (PrivateData in slurmdbd.conf) the answer is "
            "about yours only. Ask the admin: sacctmgr modify user NAME set AdminLevel=Operator\n"
        )
    return words


def nodes_grouped(nodes: Iterable[NodeSeen]) -> list[NodeGroup]:
    """Return the nodes by kind: those with as many cores, as much memory and the same GPUs are one group."""
    kinds = Counter((each["cores"], each["memory_mib"], tuple(sorted(each["gpus"].items()))) for each in nodes)
    return [
        NodeGroup(count=count, cores=cores, memory_mib=memory_mib, gpus=dict(gpus))
        for (cores, memory_mib, gpus), count in kinds.items()
    ]
