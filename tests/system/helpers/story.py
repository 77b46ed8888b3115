"""The story of a backup: taken while jobs run, 12 more jobs after it, everything killed, restored, and 12 new jobs.

The nodes then hold the journals of a time that the database has forgotten. Whatever either side believes, every job
ends or goes on, and none runs twice at once: jobs write a ledger and hold file locks, so the truth comes from them.
"""

import os
import re
import signal
from collections import Counter

from portal.foundation.layout import read_json
from portal.launch.processes import identity
from tests.system.helpers.client import Tenant, leaks
from tests.system.helpers.ledger import Ledger, alive, pids_running

LIMIT_S = 180.0
AFTER = 12
ENVIRONMENT = {"BERTH_LEASE_S": "300"}  # longer than any pause here


def killed(berth):
    """Everything of Berth dies at one stroke, as when the power fails; the jobs' own processes are left."""
    state = read_json(berth.layout.state)
    victims = [state["supervisor"]["pid"], *(each["pid"] for each in state["children"].values() if each["pid"])]
    victims += [process.pid for process in identity.leftovers(berth.layout)]
    for pid in dict.fromkeys(victims):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    berth.wait(lambda: not identity.leftovers(berth.layout), what="the end of all that was killed")


class Story:
    """Ledgers, one a time: numbers come again after a restore, and mean other jobs."""

    def __init__(self, berth, directory):
        self.berth, self.tenant, self.directory = berth, Tenant(berth), directory
        self.before, self.lost = Ledger(directory / "before", self.tenant), Ledger(directory / "lost", self.tenant)
        self.finish, self.midway, self.early = (directory / name for name in ("finish", "midway", "early"))

    @staticmethod
    def jobs_running(ledger):
        """Numbers of the jobs whose processes live, by the pid of their first node's."""
        return {entry["job"]: pid for pid, entry in ledger.running().items() if entry["rank"] == 0}

    @staticmethod
    def once(ledger, states):
        """Each job of the ledger ended once, by itself, and nothing of it is left."""
        done = Counter(entry["job"] for entry in ledger.entries("done") if entry["rank"] == 0)
        assert done == Counter(int(number) for number in states)
        assert ledger.running() == {}

    def until_backup(self):
        """Three jobs that ended, five that run (one of them until soon after the backup), and two that wait."""
        for number in [self.before.submit(0.1) for _ in range(3)]:
            self.tenant.wait_state(number, "COMPLETED", limit_s=60)
        self.rigid = self.before.submit(3000, "--until", self.finish, gpus=4)
        self.leased = self.before.submit(3000, "--until", self.finish, gpus=4, restartable=True)
        self.told = self.before.submit(3000, "--until", self.finish, name="is told to end")
        self.ends = self.before.submit(3000, "--until", self.early, name="ends by itself", restartable=True)
        self.short = self.before.submit(3000, "--until", self.midway, name="ends between backup and crash", gpus=2)
        self.berth.wait(lambda: len(self.jobs_running(self.before)) == 5, limit_s=LIMIT_S, what="the five that run")
        waits = {"restartable": True, "depends_on": [int(self.short)]}
        self.held = self.before.submit(2, name="waits at the backup, has run at the crash", **waits)
        self.twice = self.before.submit(3000, "--until", self.finish, name="waits, and runs at the crash", **waits)

    def after_backup(self):
        """12 jobs that end, two that go on, and those that waited start: nothing of it is in the backup."""
        self.midway.touch()
        ended = [*(self.lost.submit(0.1) for _ in range(AFTER)), self.held, self.short]
        assert set(self.tenant.ends(ended, limit_s=LIMIT_S).values()) == {"COMPLETED"}
        self.lost.submit(3000, "--until", self.finish)
        self.lost.submit(3000, "--until", self.finish, restartable=True)
        unknown = lambda: len(self.jobs_running(self.lost)) == 2 and int(self.twice) in self.jobs_running(self.before)  # noqa: E731
        self.berth.wait(unknown, limit_s=LIMIT_S, what="three jobs that the backup does not know to run")

    def goes_on(self, name, *going_on):
        """12 new jobs end; what ran at the backup and still did at the crash runs on; nothing else is left."""
        running, after = self.jobs_running(self.before), Ledger(self.directory / name, self.tenant)
        states = self.tenant.ends([after.submit(0.1) for _ in range(AFTER)], limit_s=LIMIT_S)
        assert set(states.values()) == {"COMPLETED"}, states
        self.once(after, states)
        waited = self.tenant.ends([self.held, self.short], limit_s=LIMIT_S)
        assert set(waited.values()) == {"COMPLETED"}, waited
        assert len(self.before.entries("done", self.short)) == 1, "its node told how it had ended; it did not run again"
        for number in (self.rigid, self.leased, *going_on):
            job = self.tenant.job(number)
            assert (job["state"], job["epoch"], alive(running[int(number)])) == ("RUNNING", 1, True), job
        self.berth.wait(
            lambda: not pids_running(self.lost.directory), limit_s=LIMIT_S, what="the end of what nobody knows"
        )
        self.tenant.wait_state(self.twice, "RUNNING", limit_s=60)
        assert after.violations() == []

    def some_end(self):
        """Of what ran at the backup one is told to end, and one ends by itself."""
        self.tenant.act(self.told, "cancel")
        self.early.touch()
        self.tenant.wait_state(self.told, "CANCELLED", limit_s=60)
        self.tenant.wait_state(self.ends, "COMPLETED", limit_s=60)

    def had_ended(self):
        """The nodes tell a database of before it how both ended. Neither ran again."""
        states = self.tenant.ends([self.told, self.ends], limit_s=LIMIT_S)
        assert states[self.ends] == "COMPLETED"
        assert [len(self.before.entries("start", number)) for number in states] == [1, 1]
        assert len(self.before.entries("done", self.ends)) == 1

    def all_end(self):
        self.tenant.act(self.rigid, "cancel")
        self.tenant.wait_state(self.rigid, "CANCELLED", limit_s=60)
        self.finish.touch()
        for number in (self.leased, self.twice):
            self.tenant.wait_state(number, "COMPLETED", limit_s=60)
        self.berth.wait(lambda: not pids_running(self.directory), limit_s=LIMIT_S, what="the end of all processes")
        for ledger in (self.before, self.lost):
            assert ledger.violations() == []
        if self.berth.layout.database.exists():
            assert leaks(self.berth) == []


def backup(story, file):
    """What `./berth backup` and `./berth restore` say of a Berth that runs."""
    refused = story.berth.command("restore", str(file.with_name("none")), check=False)
    assert refused.returncode == 1
    assert "Berth runs on" in refused.stderr
    made = story.berth.command("backup", "--to", str(file))
    assert "the backup is good" in made.stdout
    assert file.stat().st_mode & 0o077 == 0


def restore(story, file):
    restored = story.berth.command("restore", str(file))
    run = re.findall(r"(\d+) were running", restored.stdout)
    assert run in (["5"], ["6"]), restored.stdout  # the sixth: a probe of the nodes' links
    story.berth.up()
