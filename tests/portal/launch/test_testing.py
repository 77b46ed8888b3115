"""`./berth test`: which tests run, and one summary of all runs side by side."""

import json
import os
import re
import signal
import subprocess
import sys
import time
import uuid

import psutil
import pytest

from portal.launch import testing
from portal.launch.summing import costs_of, counts_of, summary_of
from portal.launch.testing import COMPUTING_PARTS, WAITING_PART, arguments_for


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ([], ["-m", "not gpu"]),
        (["tests/scheduler"], ["-m", "not gpu", "tests/scheduler"]),
        (["-m", "gpu"], ["-m", "gpu"]),
        (["--fast", "-x"], [*testing.FAST, "-q", "-x"]),
    ],
)
def test_what_pytest_is_asked_for(given, expected):
    assert arguments_for(given) == expected


def test_pytest_finds_its_own_settings_and_no_installation():
    """Importing `portal` names Django's settings in our environment; pytest would take them for the caller's choice."""
    ours = {"DJANGO_SETTINGS_MODULE": "portal.settings", "BERTH_DATA_DIR": "/srv/berth", "HOME": "/root"}
    found = testing.environment_of(ours)
    assert found["HOME"] == "/root"
    assert not {"DJANGO_SETTINGS_MODULE", "BERTH_DATA_DIR"} & set(found)


def test_a_summary_counts_both_runs():
    first = "...\n==== 2 failed, 10 passed, 5 deselected, 1 warning in 2.00s ====\n"
    second = "==== 3 passed, 2 skipped, 12 deselected, 2 errors in 9.50s (0:00:09) ====\n"
    assert summary_of([first, second], 9.6) == "===== 2 failed, 2 errors, 13 passed, 2 skipped, 1 warning in 10 s ====="
    assert counts_of("Killed\n") == {}
    assert (
        summary_of([first, second], 9.6, flaky=2)
        == "===== 2 failed, 2 flaky, 13 passed, 2 skipped, 1 warning in 10 s ====="
    )


def test_the_costliest_files_of_all_processes_are_named(tmp_path):
    assert costs_of(tmp_path) == []
    for process in range(3):
        costs = {"tests/test_both.py": 40.25} | {f"tests/test_{process}_{n}.py": float(n) for n in range(9)}
        (tmp_path / f"{process}.json").write_text(json.dumps(costs))
    first, *most = costs_of(tmp_path)
    assert first == "processor time of the tests: 229 s, most of it in"
    assert most[0].split() == ["120.8", "s", "tests/test_both.py"]
    assert len(most) == 10


COSTLY = """
import subprocess, sys
SPEND = "import time; sum(i for i in iter(lambda: int(time.process_time() < {spends}), 0))"
def detached():
    subprocess.run(["sh", "-c", f'"{{sys.executable}}" -c "{{SPEND}}" & echo $! > {ended}'], check=True)
def test_starts_what_outlives_it(): detached()
def test_waits_for_it():
    import os, time
    pid = open("{ended}").read().strip()
    while open(f"/proc/{{pid}}/stat").read().rpartition(")")[2].split()[0] != "Z": time.sleep(0.05)
"""


@pytest.mark.impure
def test_what_a_process_spends_counts_after_its_parent_ended_too(tmp_path):
    (tmp_path / "test_it.py").write_text(COSTLY.format(spends=1.5, ended=tmp_path / "pid"))
    (tmp_path / "conftest.py").write_text(
        f"from tests.costs import Costs\ndef pytest_configure(config): config.pluginmanager.register(Costs({str(tmp_path)!r}))\n"
    )
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "--rootdir",
        str(tmp_path),
        str(tmp_path),
    ]
    environment = testing.environment_of(os.environ) | {
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "PYTHONPATH": str(testing.SOURCE),
    }
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    (told,) = tmp_path.glob("*.json")
    (spent_s,) = json.loads(told.read_text()).values()
    assert spent_s >= 1.4, "of 1.5 s, as the kernel counts"


def test_every_test_of_the_waiting_part_stands_in_a_file_that_it_is_given(request):
    """A mark that is added elsewhere, as by a conftest.py, would take a test out of both parts."""
    files = set(testing.waiting_files())
    marked = {
        str(item.path.relative_to(testing.SOURCE))
        for item in request.session.items
        if any(item.get_closest_marker(name) for name in testing.WAITING.split(" or "))
    }
    assert marked <= files
    assert tuple(testing.waiting_files()[: len(testing.FIRST)]) == testing.FIRST
    assert {"tests/system/test_road.py", "tests/postgres/test_same_on_postgres.py"} <= files
    for conftest in (testing.SOURCE / "tests").rglob("conftest.py"):
        assert not testing._WAITS.search(conftest.read_text()), conftest
    assert len(files) < 60


MARKS = "[pytest]\nmarkers =\n  system\n  browser\n  postgres\n  gpu\n"
BY_TURNS = """
import pathlib, pytest
@pytest.mark.system
@pytest.mark.parametrize("number", range({tests}))
def test_it(number):
    with pathlib.Path("turns").open("a") as file:
        file.write("{name}\\n")
"""


@pytest.mark.impure
def test_files_begin_in_our_order_however_few_tests_they_have(tmp_path):
    """Xdist would begin with the file of most tests; the costliest one has a single test."""
    tests = {name: number for number, name in enumerate(testing.FIRST[:4], start=1)}
    for name, number in tests.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(BY_TURNS.format(tests=number, name=name))
    (tmp_path / "pytest.ini").write_text(MARKS)
    command = [sys.executable, "-m", "pytest", *WAITING_PART, *testing.FIRST[:4], "-n", "1"]
    environment = os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=tmp_path, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    began = list(dict.fromkeys((tmp_path / "turns").read_text().splitlines()))
    assert began == list(testing.FIRST[:4])


TESTS = """
import os
import pytest
def told(): open({told!r}, "a").write(str(os.nice(0)) + " ")
def test_plain(): told()
@pytest.mark.system
def test_system(): told(); assert {system}
@pytest.mark.gpu
def test_gpu(): assert False
"""


def whole_in(folder):
    script = (
        "import sys; from pathlib import Path; from portal.launch import testing; testing.SOURCE = Path(sys.argv[1])"
    )
    run = "import os; sys.exit(testing._side_by_side({**os.environ, 'PYTEST_DISABLE_PLUGIN_AUTOLOAD': '1'}, testing.whole()))"
    command = [sys.executable, "-c", f"{script}; {run}", str(folder)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=testing.SOURCE)


@pytest.mark.impure
@pytest.mark.parametrize(
    ("portal", "system", "code", "words"),
    [
        (True, True, 0, "4 passed"),
        (False, True, 1, "1 failed, 3 passed"),
        (True, False, 1, "1 failed, 3 passed"),
    ],
)
def test_every_test_but_a_gpus_runs_once_and_a_failure_of_any_run_is_one(tmp_path, portal, system, code, words):
    (tmp_path / testing.PORTAL).mkdir(parents=True)
    told = tmp_path / "niceness"
    (tmp_path / "tests/test_it.py").write_text(TESTS.format(system=system, told=str(told)))
    (tmp_path / testing.PORTAL / "test_page.py").write_text(f"def test_page(): assert {portal}\n")
    (tmp_path / testing.PORTAL / "api").mkdir()
    (tmp_path / testing.PORTAL / "api/test_rest.py").write_text("def test_lent(): pass\n")
    (tmp_path / "pytest.ini").write_text(MARKS)
    done = whole_in(tmp_path)
    assert done.returncode == code, done.stdout + done.stderr
    assert words in done.stdout.splitlines()[-1]
    computes, waits = sorted(map(int, told.read_text().split()), reverse=True)[:2]
    assert computes == min(19, os.nice(0) + testing.YIELDING)
    assert waits == os.nice(0)
    for part in COMPUTING_PARTS:
        assert not set(part) & set(WAITING_PART) - {"-m", "--durations=25"}


STARTS = """
import os, subprocess, sys, time
import pytest
DAEMON = "import os, time; os.setsid(); time.sleep(300)  # {mark}"
def detached():
    if os.fork() == 0:  # and its child is an orphan at once
        os.setsid()
        subprocess.Popen([sys.executable, "-c", DAEMON])
        os._exit(0)
def test_computes():
    detached()
    open("{ready}-computes", "w").close()
    time.sleep(300)
@pytest.mark.system
def test_waits():
    detached()
    open("{ready}-waits", "w").close()
    time.sleep(300)
"""


def running_with(mark):
    return [each.pid for each in psutil.process_iter(["cmdline"]) if mark in " ".join(each.info["cmdline"] or ())]


@pytest.mark.impure
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_when_it_is_stopped_all_that_it_started_ends(tmp_path, number):
    mark, ready = f"mark-{uuid.uuid4()}", tmp_path / "ready"
    (tmp_path / testing.PORTAL).mkdir(parents=True)
    (tmp_path / "tests/test_it.py").write_text(STARTS.format(mark=mark, ready=ready))
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers =\n  system\n  browser\n  postgres\n  gpu\n")
    run = (
        "import sys; from pathlib import Path; from portal.launch import testing; testing.SOURCE = Path(sys.argv[1]); "
        "import os; os.sched_getaffinity = lambda _: {0, 1}; sys.exit(testing.main([]))"
    )
    running = subprocess.Popen(
        [sys.executable, "-c", run, str(tmp_path)],
        cwd=testing.SOURCE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env=os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
    )
    try:
        deadline = time.monotonic() + 60
        while len(list(tmp_path.glob("ready-*"))) < 2 or len(running_with(mark)) < 2:
            assert time.monotonic() < deadline, "the tests did not begin"
            time.sleep(0.1)
        os.killpg(running.pid, number)  # as a terminal does
        told, _ = running.communicate(timeout=60)
        assert running_with(mark) == [], told
        assert running.returncode == 128 + number
        assert len(re.findall(r"still ran after the tests, and was ended: \d+ \S+ -c .* in /\S+\n", told)) == 2
    finally:
        running.kill()
        for pid in running_with(mark):
            os.kill(pid, signal.SIGKILL)
