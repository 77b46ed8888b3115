"""`./berth test` runs few tests with servers again, alone, before it calls them failed."""

import os
import shutil
import subprocess
import sys

import pytest

from portal.launch import testing
from tests.portal.launch.test_testing import MARKS, whole_in

CONFTEST = """
import os
from failures import Named
def pytest_configure(config):
    if "TESTS_FAILED_IN" in os.environ and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Named("failed", os.environ.pop("TESTS_FAILED_IN")))
"""
FAILS_FIRST = """
import pathlib, pytest
@pytest.mark.system
@pytest.mark.parametrize("number", range({tests}))
def test_it(number):
    seen = pathlib.Path(f"{name}-{{number}}")
    times = seen.read_text() if seen.exists() else ""
    seen.write_text(times + "x")
    assert len(times) >= {fails}
"""


@pytest.mark.impure
@pytest.mark.parametrize(
    ("files", "tests", "fails", "code", "words"),
    [
        (1, 1, 1, 0, "1 flaky, 1 passed"),
        (2, 3, 1, 0, "6 flaky, 1 passed"),
        (1, 1, 2, 1, "1 failed, 1 passed"),
        (testing.AGAIN + 1, 1, 1, 1, "4 failed, 1 passed"),
    ],
)
def test_few_tests_with_servers_that_fail_are_run_again_alone(tmp_path, files, tests, fails, code, words):
    """What passes then is named. What fails again, or too many at once, fails the whole; so does a test without servers."""
    (tmp_path / testing.PORTAL).mkdir(parents=True)
    (tmp_path / testing.PORTAL / "test_page.py").write_text("def test_page(): pass\n")
    for number in range(files):
        text = FAILS_FIRST.format(name=tmp_path / f"seen-{number}", tests=tests, fails=fails)
        (tmp_path / f"tests/test_{number}.py").write_text(text)
    (tmp_path / "tests/conftest.py").write_text(CONFTEST)
    shutil.copy(testing.SOURCE / "tests/failures.py", tmp_path / "tests")
    (tmp_path / "pytest.ini").write_text(MARKS)
    done = whole_in(tmp_path)
    assert done.returncode == code, done.stdout + done.stderr
    assert words in done.stdout.splitlines()[-1]
    assert done.stdout.count("FLAKY: failed beside the others, passed alone: tests/") == (
        files * tests if not code else 0
    )


@pytest.mark.impure
def test_what_was_skipped_is_named_for_another_account(tmp_path):
    """`.ci/run` gives these names to root: a parameter with a space in it is one line too."""
    told, environment = (
        tmp_path / "skipped",
        {key: each for key, each in os.environ.items() if key != "BERTH_TRACE_DATA"},
    )
    file = "tests/research/simulator/packing/test_published.py"
    command = [sys.executable, "-m", "pytest", "-q", "-n", "2", file, "tests/test_dialect.py"]
    done = subprocess.run(
        command, env=environment | {testing.SKIPPED: str(told)}, cwd=testing.SOURCE, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout
    named = told.read_text().splitlines()
    assert named
    assert all(name.startswith(f"{file}::") for name in named)
    assert f"{len(named)} skipped" in done.stdout.splitlines()[-1]
