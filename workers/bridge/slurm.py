"""Slurm, by its command line: one partition, one ordinary account, jobs that are known by their names.

`squeue` and `scontrol` in their own formats: `--json` takes twenty times as long, and says nothing of a controller that is away.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from workers.bridge import texts
from workers.protocol.engine import MOST_REASON, NAME, Away, ClusterEngine, Follow, RefusedError, Seen, UnknownError
from workers.system import log

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from workers.bridge.command import Answer, Runner
    from workers.protocol.engine import NodeSeen, Order, OrderSeen

LOST = re.compile(
    r"unable to contact|timed out|connect|communicat|message (?:send|receive)|transmitted|unexpected message"
    r"|in standby|temporarily unable|authenticat|munge|configuration source|protocol version",
    re.IGNORECASE,
)
"""Words of Slurm's clients (slurm_errno.c) that say nothing of the order: the controller did not answer, or not them."""
SAID_AN_ERROR = re.compile(r"^(?:squeue|scontrol|slurm_\w+)\b.*\berror\b", re.MULTILINE)
"""`squeue --user=NAME` ends with 0 and lists nothing where the account is not known at the moment."""
NO_SUCH_JOB = re.compile(r"invalid job id|already complet", re.IGNORECASE)
HAS_ENDED = re.compile(r"job has already finished", re.IGNORECASE)
SBATCH_SAYS = re.compile(r"(?m)^(?:\S*/)?sbatch: (?:error: )?(?:Batch job submission failed: )?(.*)")
NAMES_MOST = 50


class SlurmEngine(ClusterEngine):
    """One partition. `extra`: words that the operator adds for each submission, such as --account and --qos."""

    def __init__(self, runner: Runner, *, partition: str, extra: Sequence[str] = ()) -> None:
        self.runner, self.partition, self.extra = runner, partition, tuple(extra)
        self._user, self._bad = "", list[str]()

    def describe(self) -> tuple[str, str] | Away:
        """Return the cluster's name and Slurm's version."""
        said = self._ask("scontrol", "show", "config")
        if isinstance(said, Away):
            return said
        config = texts.lines_read(said)
        if not {"ClusterName", "SLURM_VERSION"} <= config.keys():
            return Away("`scontrol show config` has no ClusterName and SLURM_VERSION")
        return config["ClusterName"], config["SLURM_VERSION"]

    def inventory(self) -> list[NodeSeen] | Away:
        """Return the partition's nodes."""
        said = self._ask("scontrol", "-o", "-d", "show", "nodes")
        if isinstance(said, Away):
            return said
        reservation = any(word.startswith("--reservation") for word in self.extra)
        return texts.nodes_read(said, self.partition, reservation=reservation)

    def submit(self, order: Order, script: str, *, whole: bool = True) -> str:
        """Ask for the order, once; return its number. Raises RefusedError or UnknownError."""
        done = self.runner.run("sbatch", "--parsable", *self.asks(order, whole=whole), text=script)
        number = re.search(r"(?m)^(\d+)(?:;\S+)?$", done.out)
        if done.code == 0 and number:
            return number[1]
        if (done.code or 0) > 0 and SBATCH_SAYS.search(done.err) and not LOST.search(done.err):
            raise RefusedError(refusal(done.err))
        raise UnknownError(done.words)

    def asks(self, order: Order, *, whole: bool = True) -> list[str]:
        """Return sbatch's words for the order. `whole`: no GPU means a whole node. Raises ValueError for a wrong name."""
        gpus = ["--exclusive"] if whole else []
        if order["gpus"]:
            kind = [order["gpu_type"]] if order["gpu_type"] not in {"", "gpu"} else []
            gpus = [f"--gres={':'.join(['gpu', *kind, str(order['gpus'])])}"]
        cores = [f"--cpus-per-task={order['cores']}"] if order["cores"] else []
        return [
            *("-J", _checked(order["name"]), "--comment=Berth", "--no-requeue", "-p", self.partition),
            *("--nodes=1", "--ntasks=1", *gpus, *cores, f"--mem={order['memory_mib']}M"),
            *(f"--time={texts.minutes(order['limit_s'])}", "--output=/dev/null", "--chdir=/", *self.extra),
        ]

    def look(self, names: Collection[str] | None = None) -> Seen | Away:
        """Return the orders of these names that are listed; None: all of this account's in the partition."""
        user = self._uid()
        if isinstance(user, Away):
            return user
        few = [f"--name={','.join(sorted(map(_checked, names)))}"] if names and len(names) <= NAMES_MOST else []
        asked = ["--noheader", "--states=all", f"--user={user}", f"--partition={self.partition}", *few]
        said = self._ask("squeue", *asked, f"--format={texts.FORMAT}")
        if isinstance(said, Away):
            return said
        listed, bad = texts.orders_read(said)
        if bad and bad != self._bad:
            log.error("squeue prints lines that are no jobs", lines=len(bad), first=bad[0][:200])
        self._bad = bad
        return seen(
            each for each in listed if NAME.fullmatch(each["name"]) and (names is None or each["name"] in names)
        )

    def stop(self, ticket: str, name: str) -> Away | None:
        """Ask for the order's end. Slurm itself compares the name, so that a number that was given again is safe."""
        user = self._uid()
        if isinstance(user, Away):
            return user
        number = [ticket] if ticket.isdecimal() else []
        done = self.runner.run("scancel", f"--name={_checked(name)}", f"--user={user}", *number)
        return None if done.code == 0 or NO_SUCH_JOB.search(done.err) else Away(done.words)

    def extend(self, ticket: str, name: str, limit_s: int) -> bool | Away:
        """Let the order last this long from its start; False where Slurm allows it not: most accounts may only shorten."""
        user = self._uid()
        if isinstance(user, Away):
            return user
        words = (f"JobName={_checked(name)}", f"UserId={user}", f"TimeLimit={texts.minutes(limit_s)}")
        done = self.runner.run("scontrol", "update", *words)
        if done.code == 0:
            return True
        if done.code is None or LOST.search(done.err):
            return Away(done.words)
        refused = [line for line in done.err.splitlines() if line and not HAS_ENDED.search(line)]
        if not refused:  # an older job of this name has ended: it counts in the exit code, and the others were changed
            found = self.look([name])
            return found if isinstance(found, Away) else name in found.orders and found.orders[name]["state"] != "ended"
        log.info("slurm keeps the time limit", job=ticket, name=name, reason=done.words)
        return False

    def _uid(self) -> str | Away:
        """Return the account's number: Slurm's commands look a name up, and may fail at that."""
        if not self._user:
            said = self._ask("id", "-u")
            if isinstance(said, Away):
                return said
            self._user = said.strip()
        return self._user

    def _ask(self, *words: str) -> str | Away:
        done: Answer = self.runner.run(*words)
        return done.out if done.code == 0 and not SAID_AN_ERROR.search(done.err) else Away(done.words)


def _checked(name: str) -> str:
    if not NAME.fullmatch(name):
        raise ValueError(f"{name!r} is no name of an order")
    return name


def refusal(err: str) -> str:
    """Return Slurm's reasons in one line."""
    return "; ".join(filter(None, map(str.strip, SBATCH_SAYS.findall(err))))[:MOST_REASON]


def seen(orders: Iterable[OrderSeen]) -> Seen:
    """Return one order for each name: one that lives before one that has ended, then the lowest number."""
    kept: dict[str, OrderSeen] = {}
    doubles = []
    for each in sorted(orders, key=lambda each: (each["state"] == "ended", int(each["ticket"]))):
        if each["name"] not in kept:
            kept[each["name"]] = each
        elif each["state"] != "ended":
            doubles.append(Follow(name=each["name"], ticket=each["ticket"]))
    return Seen(kept, doubles)
