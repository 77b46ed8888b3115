"""The process that loads once what agents work with, and becomes each of several."""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys

import pytest

from tests.workers.conftest import ROOT
from workers.system.procs import _PR_SET_CHILD_SUBREAPER, become_subreaper

pytestmark = pytest.mark.impure  # processes of their own

LOAD = """
import os, sys, threading
before = set(os.listdir("/proc/self/fd"))
from workers import nursery
nursery.load()
tasks, modules = len(os.listdir("/proc/self/task")), set(sys.modules)
print(tasks, threading.active_count(), sorted(set(os.listdir("/proc/self/fd")) - before))
print(sorted({"django", "celery", "redis", "portal", "workers.telemetry.nvml"} & modules))
print(sorted(name for name in modules if name.startswith("scheduler")))
"""
REQUEST = """
import asyncio, sys
from workers import nursery
from workers.portal_client import Portal, PortalAwayError
from workers.agent.enrol import trust_for
nursery.load()
loaded = set(sys.modules)
async def hello():
    url = "http://127.0.0.1:1"
    portal = Portal(url, token="t", verify=trust_for(url, ca_sha256=None, insecure=False, directory=None))
    try:
        await portal.hello({})
    except PortalAwayError:
        print(sorted(name for name in set(sys.modules) - loaded if name.startswith(("http", "anyio", "h11"))))
    await portal.close()
asyncio.run(hello())
"""


def python(script):
    argv = [sys.executable, "-c", script]
    return subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=True, timeout=60).stdout.splitlines()


def test_what_agents_load_starts_no_thread_opens_nothing_and_has_no_django():
    assert python(LOAD) == ["1 1 []", "[]", "['scheduler', 'scheduler.setting']"]


def test_an_agents_first_request_loads_nothing_more():
    assert python(REQUEST) == ["[]"]


BECOME = """
import ctypes, json, os, sys
from workers import nursery
def told(arguments):
    listed = [f"/proc/self/fd/{number}" for number in sorted(map(int, os.listdir("/proc/self/fd")))]
    files = {os.path.basename(path): os.readlink(path) for path in listed if os.path.exists(path)}
    found = {"arguments": arguments, "argv": sys.argv, "session": os.getsid(0) == os.getpid(), "cwd": os.getcwd()}
    found |= {"name": open("/proc/self/comm").read().strip(), "dumpable": ctypes.CDLL(None).prctl(3), "files": files}
    found |= {"environment": {name: os.environ.get(name) for name in ("COMMON", "TOKEN", "BERTH_ALIVE_DESCRIPTOR")}}
    print(json.dumps(found), flush=True)
    return int(arguments[0])
nursery.agent_main = told
sys.exit(nursery.main())
"""


@pytest.fixture
def bear(tmp_path):
    """Have a nursery bear agents, which tell of themselves instead; returns its lines and {name: (what it told, its exit code)}."""
    become_subreaper()
    opened = []

    def bear(**agents):
        for name, agent in agents.items():
            agent["output"] = os.open(tmp_path / f"{name}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            opened.append(agent["output"])
        plan = [agent | {"name": name} for name, agent in agents.items()]
        passed = [each[number] for each in plan for number in ("output", "signs") if each[number] is not None]
        argv, pipe = [sys.executable, "-c", BECOME], subprocess.PIPE
        environment = {"PATH": os.environ["PATH"], "COMMON": "same", "TOKEN": "nobody's"}
        with subprocess.Popen(
            argv, cwd=ROOT, env=environment, stdin=pipe, stdout=pipe, text=True, pass_fds=passed
        ) as nursery:
            said, _ = nursery.communicate(json.dumps(plan) + "\n", timeout=60)
        assert nursery.returncode == 0
        first, pids = said.splitlines()
        ended = {name: os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for name, pid in json.loads(pids).items()}
        return first, {name: (json.loads((tmp_path / f"{name}.log").read_text()), ended[name]) for name in agents}

    yield bear
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
    for number in opened:
        os.close(number)


def agent(*words, signs=None, **environment):
    return {"words": ["workers.agent", *words], "environment": environment, "signs": signs}


def test_each_is_a_process_with_what_is_its_own(bear, tmp_path):
    reader, writer = os.pipe()
    try:
        said, found = bear(n1=agent("0", "--x", signs=writer, TOKEN="one"), **{"a-name-of-many-words": agent("3")})
    finally:
        os.close(reader)
        os.close(writer)
    assert said == "loaded"
    alike = {"session": True, "cwd": str(ROOT), "dumpable": 0}
    first, second = found["n1"][0], found["a-name-of-many-words"][0]
    files = [first.pop("files"), second.pop("files")]
    assert found["n1"][1] == 0
    assert first == alike | {
        "arguments": ["0", "--x"],
        "argv": ["workers.agent", "0", "--x"],
        "name": "berth-n1",
        "environment": {"COMMON": "same", "TOKEN": "one", "BERTH_ALIVE_DESCRIPTOR": str(writer)},
    }
    assert found["a-name-of-many-words"][1] == 3
    assert second == alike | {
        "arguments": ["3"],
        "argv": ["workers.agent", "3"],
        "name": "berth-a-name-of",
        "environment": {"COMMON": "same", "TOKEN": "nobody's", "BERTH_ALIVE_DESCRIPTOR": None},
    }
    for name, open_files, more in zip(found, files, ({str(writer)}, set()), strict=True):
        log = str(tmp_path / f"{name}.log")
        assert [open_files.pop(number) for number in "012"] == ["/dev/null", log, log]
        assert set(open_files) == more


def test_without_a_line_it_becomes_nobody(bear):
    assert bear() == ("loaded", {})
