"""Real servers for tests, each in a private directory on a free port or socket, ended with the test.

`broker_server` the embedded Redis-compatible server; `postgres_url` an embedded Postgres. `RunningBerth` is a whole Berth.
"""

import contextlib
import http.client
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from portal.foundation.layout import SOURCE, Layout, read_json
from portal.launch import broker
from portal.launch.processes import identity
from research.bench.errors import BenchError
from research.bench.postgres import postgres_started, url_of
from tests.remains import kill_all_of

UP_LIMIT_S = 150.0


@dataclass
class BrokerServer:
    """`url` is a REDIS_URL; `kill` is kill -9, `start` starts it again on the same socket and data."""

    layout: Layout
    server: broker.Server
    process: subprocess.Popen | None = None

    @property
    def url(self):
        return self.server.url

    def start(self):
        self.process = subprocess.Popen(self.server.argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        broker.wait_until_up(self.url)

    def kill(self):
        self.process.kill()
        self.process.wait()


@contextlib.contextmanager
def private_directory():
    """Short, so that sockets fit; readable by its owner only."""
    directory = Path(tempfile.mkdtemp(prefix="berth-t-"))
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture(scope="session")
def broker_server():
    with private_directory() as directory:
        layout = Layout.at(directory)
        layout.prepare()
        server = BrokerServer(layout, broker.server_configure(layout))
        server.start()
        yield server
        server.kill()


@pytest.fixture(scope="session")
def postgres_server():
    """An embedded Postgres 18 on a Unix socket: its directory, and a function that runs SQL. Skips loudly without one."""
    with contextlib.ExitStack() as stack:
        directory = stack.enter_context(private_directory())
        try:
            run_sql = stack.enter_context(postgres_started(directory))
        except BenchError as error:
            pytest.skip(f"SKIPPED LOUDLY: {error}")
        for name in ("fsync", "full_page_writes"):
            run_sql(f"ALTER SYSTEM SET {name} = off")  # it ends with the tests: nothing of it must outlive a power cut
        run_sql("SELECT pg_reload_conf()")
        yield directory, run_sql


@pytest.fixture(scope="module")
def postgres_url(postgres_server, request):
    """DATABASE_URL of a database of the module's own, empty at first."""
    directory, run_sql = postgres_server
    name = request.module.__name__.rpartition(".")[2]
    run_sql(f"CREATE DATABASE {name}")
    return url_of(directory, name)


@dataclass
class RunningBerth:
    """A whole Berth in the background. `launch` gives the flags of `up`; `environment` is added to ours."""

    data: Path
    port: int
    flags: list = field(default_factory=list)
    environment: dict = field(default_factory=dict)
    first_operator: dict | None = None

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    @property
    def layout(self):
        return Layout.at(self.data)

    @property
    def tokens(self):
        """API tokens by tenant name (the demo's)."""
        return read_json(self.layout.demo_tokens)

    @property
    def users(self):
        """{username: {password, tenant, role}} of the demo's people."""
        return read_json(self.layout.demo_users)

    @property
    def operator(self):
        """{username, password}, as they were before the first sign-in deleted the file."""
        return self.first_operator

    def command(self, *arguments, check=True, limit_s=UP_LIMIT_S):
        """Run a verb of the launcher on this data directory; returns the finished process."""
        environment = {name: value for name, value in os.environ.items() if name != "DJANGO_SETTINGS_MODULE"}
        environment |= {"PYTHONPATH": str(SOURCE), "BERTH_DATA_DIR": str(self.data)} | self.environment
        done = subprocess.run(
            [sys.executable, "-P", "-m", "portal.launch", *arguments],
            env=environment,
            cwd=self.data.parent,
            capture_output=True,
            text=True,
            timeout=limit_s,
            check=False,
        )
        if check and done.returncode:
            raise AssertionError(f"{arguments} gave {done.returncode}:\n{done.stdout}{done.stderr}\n{self.logs()}")
        return done

    def up(self):
        done = self.command("up", "--detach", "--port", str(self.port), *self.flags)
        self.first_operator = read_json(self.layout.operator) or self.first_operator
        return done

    def down(self, *flags):
        return self.command("down", *flags)

    def status(self):
        return json.loads(self.command("status", "--json", check=False).stdout)

    def pids(self, role):
        """{name: pid} of the living children of a role: broker, portal, worker, beat or agent; `supervisor` too."""
        state = read_json(self.layout.state) or {"children": {}, "supervisor": {}}
        if role == "supervisor":
            found = {"supervisor": state["supervisor"].get("pid")}
        else:
            found = {name: each["pid"] for name, each in state["children"].items() if each["role"] == role}
        return {name: pid for name, pid in found.items() if pid and identity.identity_of(pid)}

    def kill(self, role, name=None):
        """Kill -9 the children of a role (or one of them by name); returns the pids killed."""
        victims = [pid for child, pid in self.pids(role).items() if name in {None, child}]
        for pid in victims:
            os.kill(pid, signal.SIGKILL)
        return victims

    def request(self, path, *, method="GET", body=None, token=None, headers=None, limit_s=10.0):
        """(status, JSON or text) of one call; no exception for a 4xx or 5xx, an OSError for an answer cut off anywhere."""
        data = None if body is None else json.dumps(body).encode()
        sent = {"Content-Type": "application/json"} if data else {}
        sent |= {"Authorization": f"Bearer {token}"} if token else {}
        asked = urllib.request.Request(self.url + path, data=data, method=method, headers=sent | (headers or {}))
        try:
            with urllib.request.urlopen(asked, timeout=limit_s) as answer:
                return answer.status, _decoded(answer.read())
        except urllib.error.HTTPError as error:
            return error.code, _decoded(error.read())
        except http.client.HTTPException as error:  # IncompleteRead: the server died in the middle of its answer
            raise ConnectionResetError(repr(error)) from error

    def wait(self, condition, *, limit_s=60.0, what="the condition"):
        """Ask until `condition()` is true and return its value; an exception in it counts as not yet."""
        limit_s = stretched(limit_s)
        deadline = time.monotonic() + limit_s
        last = None
        while (asked := time.monotonic()) < deadline:
            try:
                found = condition()
            except (OSError, KeyError, TypeError, AssertionError) as error:
                found, last = None, error
            if found:
                return found
            time.sleep(pause_s(time.monotonic() - asked))
        raise AssertionError(f"waited {limit_s:g} s in vain for {what} ({last!r})\n{self.logs()}")

    def wait_healthy(self, limit_s=60.0):
        return self.wait(lambda: self.request("/healthz")[0] == 200, limit_s=limit_s, what="/healthz")

    def logs(self, lines=15):
        """The ends of all logs, for a failure's message."""
        parts = []
        for log in sorted(self.layout.logs.glob("*.log")):
            tail = log.read_text(errors="replace").splitlines()[-lines:]
            parts += [f"--- {log.name}", *tail]
        return "\n".join(parts)

    def end(self):
        """Kill all of it with its jobs, in any state. A test that is about an end in order calls `down`."""
        found = self.pids("supervisor").values()  # first, so that nothing is started again
        for pid in found:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        kill_all_of(self.data)


USUAL_LOAD = 4.0
"""Processes for each core that want to run while the tests do; each limit allows for them."""


def stretched(limit_s):
    """The limit of a wait, longer by as much as more than usual wants to run on this machine now."""
    return limit_s * max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1) / USUAL_LOAD)


def pause_s(asking_s, least_s=0.1):
    """How long to wait before the same is asked again: what is waited for needs the processor more than the question does.

    A question to a portal costs it hundredths of a second; ten a second for each of a dozen jobs took all of a core. Asking
    takes a twentieth of the time at most, for other tests run meanwhile.
    """
    return min(1.0, max(least_s, 19 * asking_s))


def _decoded(body):
    try:
        return json.loads(body)
    except ValueError:
        return body.decode(errors="replace")
