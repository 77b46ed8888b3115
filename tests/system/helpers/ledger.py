"""The truth outside the database: what jobs themselves wrote about when and on what they ran."""

import json
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from portal.launch.processes import identity
from tests.system.helpers.client import leaks

SCRIPT = Path(__file__).with_name("ledger_job.py")


@dataclass
class Ledger:
    """`directory` is an absolute path that jobs can write; `accepted` are the numbers of all jobs submitted into it."""

    directory: Path
    tenant: object

    def __post_init__(self):
        self.accepted = []
        self.directory.mkdir(parents=True, exist_ok=True)

    def submit(self, seconds, *flags, key=None, **description):
        """A job that runs for `seconds` (or until its `--until` file exists) and tells the ledger."""
        command = " ".join([f"exec {sys.executable} {SCRIPT} {self.directory} {seconds}", *map(str, flags)])
        number = self.tenant.submit(command, key=key, **description)
        self.accepted.append(number)
        return number

    def entries(self, what=None, number=None):
        path = self.directory / "ledger"
        lines = path.read_text().splitlines() if path.exists() else []
        found = [json.loads(line) for line in lines]
        return [e for e in found if what in {None, e["what"]} and (number is None or e["job"] == int(number))]

    def running(self):
        """Entries of processes that live at this moment, by pid."""
        started = {e["pid"]: e for e in self.entries("start")}
        over = {e["pid"] for e in self.entries() if e["what"] in {"done", "stopped"}}
        return {pid: entry for pid, entry in started.items() if pid not in over and _is_ours(pid)}

    def violations(self):
        return self.entries("violation")

    def settle(self, *, limit_s=60.0):
        """Wait until every accepted job has ended; {number: state}."""
        return self.tenant.ends(self.accepted, limit_s=limit_s)

    def check(self, states):
        """What must be true after all jobs have ended, whatever was killed meanwhile."""
        assert self.violations() == []
        done = Counter(e["job"] for e in self.entries("done") if e["rank"] == 0)
        for number, state in states.items():
            assert done[int(number)] == (1 if state == "COMPLETED" else 0), (number, state, self.entries(number=number))
        assert self.running() == {}, "processes of jobs that have ended"
        assert leaks(self.tenant.berth) == []


def _is_ours(pid):
    """The pid lives and still is a ledger's job (pids are used again)."""
    if identity.identity_of(pid) is None:
        return False
    try:
        return b"ledger_job.py" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def alive(pid):
    return identity.identity_of(pid) is not None


def pids_running(directory):
    """Every process of this user that runs a ledger's job of `directory`, whoever knows of it."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if str(SCRIPT).encode() in words and str(directory).encode() in words:
                found.append(int(entry.name))
    return found
