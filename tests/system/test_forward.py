"""`berth forward`: what a running job serves, reached from one's own machine through portal, agent and shim (story 12)."""

import concurrent.futures
import contextlib
import hashlib
import os
import random
import re
import select
import signal
import socket
import subprocess
import sys
import time

import httpx2
import pytest

from portal.foundation.layout import SOURCE
from portal.launch.broker import free_port
from tests.servers import stretched
from tests.system.helpers.client import Tenant, rows

pytestmark = [pytest.mark.system, pytest.mark.slow, pytest.mark.xdist_group("shells")]
PATIENCE_S = 60
BIG = 3_000_000
SERVE = f"""
import http.server, sys
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        self.answer(b"x" * {BIG})
    def do_POST(self):
        self.answer(self.rfile.read(int(self.headers["Content-Length"])))
    def answer(self, body):
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
class Server(http.server.ThreadingHTTPServer):
    request_queue_size = 64  # else the kernel lets the sixth that comes at once wait
Server(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""


@pytest.fixture(scope="module")
def berth(berth_shared):
    return berth_shared


@pytest.fixture(scope="module")
def tenant(berth):
    return Tenant(berth)


@pytest.fixture
def served(tenant):
    """(number, port) of a job that serves."""
    port = free_port()
    number = tenant.submit(f"exec $BERTH_PYTHON serve.py {port}", name="serves", files={"serve.py": SERVE})
    tenant.wait_state(number, "RUNNING")
    yield number, port
    if tenant.state(number) == "RUNNING":
        tenant.act(number, "cancel")


@pytest.fixture
def environment(berth, tenant, tmp_path):
    own = {"BERTH_URL": berth.url, "BERTH_TOKEN": tenant.token, "PYTHONPATH": str(SOURCE / "client")}
    return {**os.environ, **own, "BERTH_CONFIG": str(tmp_path / "config.ini")}


class Forward:
    """A running `berth forward`; `said` is what it has told so far."""

    def __init__(self, environment, *arguments):
        argv = [sys.executable, "-m", "berth_client", "forward", *map(str, arguments), "--local", "0"]
        self.process = subprocess.Popen(argv, env=environment, stderr=subprocess.PIPE)
        self.said = ""
        self.port = int(self.until(r"127\.0\.0\.1:(\d+) leads to")[1])

    def until(self, pattern):
        deadline = time.monotonic() + stretched(PATIENCE_S)
        while not (found := re.search(pattern, self.said)):
            assert time.monotonic() < deadline, self.said
            if select.select([self.process.stderr], [], [], 1.0)[0]:
                self.said += os.read(self.process.stderr.fileno(), 4096).decode()
        return found

    def ended(self):
        return self.process.wait(stretched(PATIENCE_S))


@pytest.fixture
def forward(environment):
    with contextlib.ExitStack() as begun:

        def begin(*arguments):
            made = Forward(environment, *arguments)
            begun.callback(made.process.wait)
            begun.callback(made.process.kill)
            return made

        yield begin


def answered(act):
    """What `act` returns once it no longer raises: the job's server is a moment in coming."""
    deadline = time.monotonic() + stretched(PATIENCE_S)
    while True:
        try:
            return act()
        except httpx2.TransportError:
            assert time.monotonic() < deadline
            time.sleep(0.3)


def test_what_a_job_serves_is_reached_with_many_connections(berth, served, forward):
    number, port = served
    running = forward(number, port)
    url = f"http://127.0.0.1:{running.port}/"
    body = random.Random(3).randbytes(BIG)
    assert hashlib.sha256(answered(lambda: httpx2.post(url, content=body, timeout=60)).content).digest() == (
        hashlib.sha256(body).digest()
    )
    with concurrent.futures.ThreadPoolExecutor(20) as many:
        lengths = list(many.map(lambda _: len(httpx2.get(url, timeout=stretched(PATIENCE_S)).content), range(40)))
    assert lengths == [BIG] * 40
    running.process.send_signal(signal.SIGINT)
    assert running.ended() == 0
    trail = rows(berth, "SELECT action FROM tenants_auditevent WHERE action LIKE 'job.forward%' ORDER BY id")
    assert trail[0] == ("job.forward",), "one session, however many connections"
    assert len(trail) <= 2


def test_what_the_node_serves_besides_is_not_reached(berth, served, forward):
    """The portal itself listens on that machine, and so may another tenant's notebook."""
    number, port = served
    answered_at = forward(number, port)
    answered(lambda: httpx2.get(f"http://127.0.0.1:{answered_at.port}/", timeout=60))
    running = forward(number, int(berth.url.rpartition(":")[2]))
    with socket.create_connection(("127.0.0.1", running.port)) as wire:
        wire.settimeout(stretched(PATIENCE_S))
        wire.sendall(b"GET / HTTP/1.0\r\n\r\n")
        with contextlib.suppress(ConnectionResetError):
            assert wire.recv(100) == b""
    running.until(rf"Nothing in the job listens on port \d+\. It listens on {port}\.")
    assert running.process.poll() is None, "it goes on: what serves may still come"


def test_it_ends_with_the_job_and_says_so(tenant, served, forward):
    number, port = served
    running = forward(number, port)
    tenant.act(number, "cancel")
    running.until("The attempt of the job that it led to has ended")
    assert running.ended() == 0


def test_after_a_killed_agent_the_next_connection_goes_through(berth, served, forward):
    number, port = served
    running = forward(number, port)
    url = f"http://127.0.0.1:{running.port}/"
    assert len(answered(lambda: httpx2.get(url, timeout=60)).content) == BIG
    berth.kill("agent")
    assert len(answered(lambda: httpx2.get(url, timeout=60)).content) == BIG
