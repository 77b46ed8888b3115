"""All that a campaign runs on: Postgres, a broker, a demo, and nodes of other machines, with a wire to each."""

import contextlib
import os
import re
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

import psycopg

from portal.foundation.layout import SOURCE, Layout
from portal.launch import broker
from research.bench.postgres import postgres_started
from tests.native.clock import Clock
from tests.remains import kill_all_of
from tests.servers import BrokerServer, RunningBerth, private_directory
from tests.smalldisk import small_disk
from tests.system.campaign.wires import Wires
from tests.system.helpers.client import HELD_AFTER_THE_END

FAR = ("far-1", "far-2", "far-3", "far-4")
VIRTUAL = "gpus=4,type='RTX 3090',gpu-memory-mib=24576,cores=32,memory-mib=131072,core-percent=4"
DATABASE, BROKER = "database", "broker"
DISKS, CLOCKS = "disks", "clocks"
"""What some faults need: the right to mount, and a C compiler."""
DISK_MIB, LOW_MIB = 420, 60


class Stage:
    """`berth`: the demo with four nodes of its own. `agents`: {name: process} of four more, each behind a wire.

    `ledger`: the directory in which jobs write. `killed`: pids of jobs that a fault killed. `lease_s`: the length of leases;
    faults last a part of it, or twice as long. `source`: the code to try. `needs`: of `DISKS` and `CLOCKS` those that its faults
    break: `own_disk`, `own_clock` are those of the demo with its nodes, `far_disk`, `far_clock` those of the four others.
    """

    def __init__(self, directory, *, lease_s, source=SOURCE, needs=()):
        self.directory, self.lease_s, self.source, self.needs = Path(directory), lease_s, Path(source), needs
        self.ledger = self.directory / "ledger"
        self.wires, self.agents, self.killed = Wires(), {}, set()
        self._open = contextlib.ExitStack()

    def __enter__(self):
        with contextlib.ExitStack() as failing:
            failing.push(self._open)
            self._build()
            failing.pop_all()
        return self

    def __exit__(self, *_):
        self._open.close()

    def _build(self):
        stack = self._open
        stack.enter_context(self.wires)
        postgres = stack.enter_context(private_directory())  # its account must reach it
        self.sql = stack.enter_context(postgres_started(postgres))
        self.sql("CREATE DATABASE berth")
        self._database = f"host={postgres} user=berth dbname=berth"
        self.broker = self._broker_started(stack)
        server = self.broker.server
        database = self.wires.add(DATABASE, str(postgres / ".s.PGSQL.5432"))
        redis = self.wires.add(BROKER, str(server.socket_path))
        environment = {
            "DATABASE_URL": f"postgres://berth@127.0.0.1:{database}/berth",
            "REDIS_URL": f"redis://:{urlsplit(server.url).password}@127.0.0.1:{redis}/0",
            "BERTH_DEMO_WORKLOAD": "0",
            "BERTH_AGENT_ACCOUNTS": "off",  # else a job has a /tmp of its own, and could not write the ledger there
            "BERTH_LEASE_S": str(self.lease_s),
            "BERTH_LEASE_GRACE_S": "5",
            "BERTH_HANG_LIMIT_S": "15",
            "PYTHONPATH": str(self.source),
            "BERTH_DISK_LOW_MIB": str(LOW_MIB),
            "BERTH_AGENT_DISK_LOW_MIB": str(LOW_MIB),
        }
        own, self._far = self._places(stack)
        environment |= self.own_clock.environment if CLOCKS in self.needs else {}
        self.berth = RunningBerth(own / "data", broker.free_port(), ["--demo"], environment)
        stack.callback(self.berth.end)
        self.berth.up()
        self._ports = {name: self.wires.add(name, ("127.0.0.1", self.berth.port)) for name in FAR}
        stack.callback(self._agents_kill)
        for name in FAR:
            self.agent_start(name)
        self.berth.wait(lambda: self.rows("select count(*) from cluster_node") == [(4 + len(FAR),)], what="the nodes")

    def _places(self, stack):
        """Make disks and clocks that break; return where the demo's directory and those of the far nodes lie."""
        if CLOCKS in self.needs:
            folders = [self.directory / name for name in ("own-clock", "far-clock")]
            for folder in folders:
                folder.mkdir()
            self.own_clock, self.far_clock = map(Clock, folders)
        if DISKS not in self.needs:
            return self.directory, self.directory / "far"
        self.own_disk, self.far_disk = (stack.enter_context(small_disk(DISK_MIB)) for _ in range(2))
        for disk in (self.own_disk, self.far_disk):
            stack.callback(disk.give_back)
        return self.own_disk.path, self.far_disk.path

    def _broker_started(self, stack):
        layout = Layout.at(self.directory / "broker")
        layout.prepare()
        started = BrokerServer(layout, broker.server_configure(layout))
        started.start()
        stack.callback(started.kill)
        return started

    def agent_start(self, name):
        """Start a far node's agent, for the first time or again."""
        own = {"PATH": os.environ["PATH"], "HOME": str(self.directory), "BERTH_AGENT_ACCOUNTS": "off"}
        own |= {"BERTH_AGENT_DISK_LOW_MIB": str(LOW_MIB)}
        own |= self.far_clock.environment if CLOCKS in self.needs else {}
        directory = self._far / name
        if not directory.exists():
            own["BERTH_AGENT_TOKEN"] = re.search(r"berthjoin_\S+", self.berth.command("manage", "join_token").stdout)[0]
        argv = [sys.executable, "-m", "workers.agent", "--url", f"http://127.0.0.1:{self._ports[name]}", "--name", name]
        argv += ["--dir", str(directory), "--virtual", VIRTUAL, "--trust-tenants"]
        with (self.berth.layout.logs / f"{name}.log").open("a") as log:
            self.agents[name] = subprocess.Popen(argv, cwd=self.source, env=own, stdout=log, stderr=log)

    def _agents_kill(self):
        for agent in self.agents.values():
            agent.kill()
            agent.wait()
        for name in FAR:
            kill_all_of(self._far / name)

    def rows(self, query):
        """What the database says, past the wires."""
        with psycopg.connect(self._database) as connection:
            return connection.execute(query).fetchall()

    def told_of(self, numbers):
        """What Berth says of these jobs, and of its nodes if there are any: else nobody could tell later why they are stuck."""
        if not numbers:
            return []
        among = ",".join(map(str, numbers))
        queries = (
            f"select id, state, reason, reason_figures::text, epoch, requeues from jobs_job where id in ({among})",
            f"select job_id, epoch, state, stop_reason, created_at::text, started_at::text from jobs_attempt where job_id in ({among})",
            "select name, last_contact_at::text, drain_reason, disk_low, dead_at, unsettled_since, now()::text from cluster_node",
        )
        return [str(row) for query in queries for row in self.rows(query)]

    def leaks(self):
        """How many allocations and GPUs are still held by attempts that have ended."""
        return sum(len(self.rows(query)) for query in HELD_AFTER_THE_END)

    def refused(self):
        """How many messages of nodes were refused, as stale: 0 means that no fault ever bit."""
        return int(self.rows("select sum(refused_messages) from cluster_node")[0][0])

    def healthy(self):
        """Whether /healthz says `ok` at this moment."""
        try:
            status, answer = self.berth.request("/healthz", limit_s=8)
        except OSError:
            return False
        return status == 200 and answer["state"] == "ok"
