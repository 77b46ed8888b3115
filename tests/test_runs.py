"""`./berth test`: which tests run and in which order, and the lines at the end of a run."""

import os
import signal
import subprocess
import sys
import time
import uuid
from types import SimpleNamespace

import psutil
import pytest

from portal.foundation.layout import SOURCE
from tests import order, together
from tests.__main__ import AGAIN, ALL, DAILY, FAST, SHARED, arguments_for, environment_of

FILE, TEST = "tests/test_runs.py", "tests/test_runs.py::test_it[a b]"


def test_what_pytest_is_asked_for(subtests):
    for given, before, after in (
        ([], [*DAILY, "-n", "5", *SHARED], []),
        (["--all", "-x"], [*ALL, "-n", "5", *SHARED], ["-x"]),
        (["--fast"], [*FAST, "-n", "2", *SHARED], []),
        (["--fast", "tests/scheduler"], [*FAST, "-n", "2", *SHARED], ["tests/scheduler"]),
        (["--fast", FILE], FAST, [FILE]),
        (["tests/scheduler"], ALL, ["tests/scheduler"]),
        ([TEST], ALL, [TEST]),
        (["-m", "gpu", FILE], [], ["-m", "gpu", FILE]),
    ):
        with subtests.test(given=given):
            assert arguments_for(given, 2) == [*before, *AGAIN, *after]


def test_pytest_finds_its_own_settings_and_no_installation():
    """Importing `portal` names Django's settings in our environment; pytest would take them for the caller's choice."""
    ours = {"DJANGO_SETTINGS_MODULE": "portal.settings", "BERTH_DATA_DIR": "/srv/berth", "HOME": "/root"}
    found = environment_of(ours)
    assert found["HOME"] == "/root"
    assert not {"DJANGO_SETTINGS_MODULE", "BERTH_DATA_DIR"} & set(found)


def item(file, *marks, fixtures=(), **module):
    named = {mark.partition(":")[0]: SimpleNamespace(args=(mark.partition(":")[2],)) for mark in marks}
    return SimpleNamespace(
        path=SOURCE / file, get_closest_marker=named.get, module=SimpleNamespace(**module), fixturenames=fixtures
    )


def test_files_with_servers_are_spread_and_a_group_s_files_stand_together():
    computing = [item(f"tests/test_{number}.py") for number in range(6)]
    alone, house = item("tests/system/test_alone.py", "system"), item("tests/test_house.py")
    spends = item("tests/system/test_a.py", "system", "xdist_group:pages", SPENDS_ITS_BERTH=True)
    last = item("tests/system/test_z.py", "system", "xdist_group:pages")
    commits, beside = item("tests/test_0.py", fixtures=["transactional_db"]), computing.pop(0)
    items = [commits, beside, *computing, house, alone, spends, last]
    order.put_in_order(items)
    assert items == [house, last, spends, *computing[:4], alone, *computing[4:], beside, commits]


CONFTEST = """
import os
import pytest
from pathlib import Path
from tests import order
from tests.conftest import pytest_runtest_protocol, pytest_terminal_summary, pytest_xdist_make_scheduler
from tests.costs import Costs
from tests.ending import Ending
from tests.failures import SKIPPED, Skipped
order.SOURCE = Path(__file__).parent
def pytest_configure(config):
    config.pluginmanager.register(Costs())
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Ending())
        config.pluginmanager.register(Skipped(os.environ.pop(SKIPPED)))
"""


def command_in(folder, files, *arguments):
    """Write files of tests; return how a run of them in two processes, as `./berth test` has them, is begun."""
    (folder / "pytest.ini").write_text("[pytest]\n")
    (folder / "conftest.py").write_text(CONFTEST)
    for name, text in files.items():
        (folder / name).write_text(f"import os, pathlib, pytest, subprocess, sys, time\n{text}")
    environment = os.environ | {"PYTHONPATH": str(SOURCE), "TESTS_SKIPPED_IN": "skipped"}
    argv = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "no:django",
        "-p",
        "no:asyncio",
        "-n",
        "2",
        *SHARED,
        *AGAIN,
        *arguments,
    ]
    return {"args": argv, "cwd": folder, "env": environment, "text": True, "stdout": subprocess.PIPE}


GROUP = """
pytestmark = pytest.mark.xdist_group("pages")
def test_it():
    with open("told", "a") as told: print(__name__, os.environ["PYTEST_XDIST_WORKER"], file=told)
"""
FLAKY = """
@pytest.mark.flaky(reruns=1)
def test_fails_once():
    if not os.path.exists("seen"): open("seen", "w").close(); assert "the cause" == 0
@pytest.mark.parametrize("why", ["no rights"])
def test_skipped(why): pytest.skip()
"""


SPENDS = """
SPEND = "import time; sum(i for i in iter(lambda: int(time.process_time() < 0.5), 0))"
def test_starts_what_outlives_it():
    subprocess.run(["sh", "-c", f'"{sys.executable}" -c "{SPEND}" & echo $! > pid'], check=True)
def test_waits_for_it():
    pid = open("pid").read().strip()
    while open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[0] != "Z": time.sleep(0.05)
"""
LEAVES = """
def test_it():
    if os.fork() == 0:  # and its child is an orphan at once
        os.setsid()
        subprocess.Popen([sys.executable, "-c", "MARK; import os, time; os.setsid(); time.sleep(300)"])
        os._exit(0)
    time.sleep(WAITS)
"""


@pytest.fixture
def mark():
    """A text in the command lines of what a run leaves."""
    made = uuid.uuid4().hex
    yield made
    for pid in running_with(made):
        os.kill(pid, signal.SIGKILL)


def running_with(mark):
    return [each.pid for each in psutil.process_iter(["cmdline"]) if mark in " ".join(each.info["cmdline"] or ())]


def leaving(mark, waits_s):
    """Two files of tests that leave a process each, and then wait."""
    text = LEAVES.replace("MARK", repr(mark)).replace("WAITS", str(waits_s))
    return {"test_one.py": text, "test_two.py": text}


@pytest.mark.impure
def test_a_run_groups_files_tries_again_and_tells_of_all_that_happened(tmp_path, mark):
    """It names what was flaky or skipped, what each file cost, children of ended processes included, and what it ended."""
    grouped = {f"test_group_{number}.py": GROUP for number in range(4)}
    others = {f"test_other_{number}.py": "def test_it(): pass\n" for number in range(6)}
    own = {"test_flaky.py": FLAKY, "test_spends.py": SPENDS} | leaving(mark, 0)
    done = subprocess.run(**command_in(tmp_path, own | grouped | others), timeout=120)
    assert done.returncode == 0, done.stdout
    told = [line.split() for line in (tmp_path / "told").read_text().splitlines()]
    assert [name for name, _ in told] == sorted(name.removesuffix(".py") for name in grouped)
    assert len({process for _, process in told}) == 1
    assert "FLAKY: failed, and passed when it was run again: test_flaky.py::test_fails_once\n" in done.stdout
    assert "the cause" in done.stdout
    assert (tmp_path / "skipped").read_text() == "test_flaky.py::test_skipped[no rights]\n"
    assert "15 passed, 1 skipped, 1 rerun" in done.stdout
    assert "processor time of the tests: " in done.stdout
    (spent_s,) = (float(line.split()[0]) for line in done.stdout.splitlines() if line.endswith(" s  test_spends.py"))
    assert spent_s >= 0.4, "of 0.5 s, as the kernel counts"
    assert running_with(mark) == [], done.stdout
    assert done.stdout.count(mark) == done.stdout.count("still ran after the tests, and was ended: ") == 2


@pytest.mark.impure
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_however_a_run_is_stopped_all_that_it_started_ends(tmp_path, mark, number):
    command = command_in(tmp_path, leaving(mark, 300))
    command["args"] = ["env", "--default-signal=INT", *command["args"]]  # a shell's `&` has it ignored, and so would we
    running = subprocess.Popen(**command, start_new_session=True)
    try:
        deadline = time.monotonic() + 60
        while len(running_with(mark)) < 2:
            assert time.monotonic() < deadline, "the tests did not begin"
            time.sleep(0.1)
        os.killpg(running.pid, number)  # as a terminal does
        told, _ = running.communicate(timeout=60)
        assert running_with(mark) == [], told
        assert running.returncode == 2, told
        assert told.count(mark) == told.count("still ran after the tests, and was ended: ") == 2
    finally:
        running.kill()


class Fake:
    def __init__(self):
        self.jobs = []

    def wait(self, condition, **_):
        assert condition()

    def wait_healthy(self):
        """It is."""


@pytest.mark.parametrize("module", [SimpleNamespace(), SimpleNamespace(SPENDS_ITS_BERTH=True)])
def test_a_file_that_leaves_something_behind_fails_but_for_one_that_spends_its_berth(monkeypatch, module):
    """The next one gets a new Berth."""
    made = together.Together(SimpleNamespace())
    made._berth = berth = Fake()
    monkeypatch.setattr(together, "standing", lambda berth: {"open jobs": list(berth.jobs)})
    monkeypatch.setattr(together, "group_of", lambda _: "pages")
    request = SimpleNamespace(node=None, module=module, path=SOURCE / FILE)
    using = together.berth_shared.__wrapped__(request, made)
    assert next(using) is berth
    berth.jobs.append("left")
    if hasattr(module, "SPENDS_ITS_BERTH"):
        assert list(using) == []
    else:
        with pytest.raises(pytest.fail.Exception, match=r"test_runs\.py left behind"):
            next(using)
    assert made._berth is None
