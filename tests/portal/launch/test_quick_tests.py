"""`./berth test --fast`: its runs side by side, of all quick tests or of those of named folders."""

import os
import subprocess
import sys
from collections import Counter

import pytest

from portal.launch import testing

MARKS = "[pytest]\nmarkers =\n  system\n  browser\n  postgres\n  gpu\n  impure\n  slow\n"
TEST = "import pytest\ndef test_plain(): pass\n@pytest.mark.system\ndef test_system(): assert False\n"
TAKES_FEWER = "def pytest_addoption(parser): parser.addoption('--fewer-examples', action='store_true')\n"


def fast_in(folder, *more):
    run = (
        "import os, sys; from pathlib import Path; from portal.launch import testing; testing.SOURCE = Path(sys.argv[1]); "
        "os.sched_getaffinity = lambda _: {0, 1}; sys.exit(testing.main(['--fast', *sys.argv[2:]]))"
    )
    return subprocess.run(
        [sys.executable, "-c", run, str(folder), *more],
        capture_output=True,
        text=True,
        timeout=120,
        cwd=testing.SOURCE,
        env=os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
    )


@pytest.mark.impure
def test_the_fast_tests_are_two_runs_side_by_side_and_each_test_is_in_one(tmp_path):
    for where in ("tests", *testing.SECOND):
        (tmp_path / where).mkdir(parents=True)
        name = where.replace("/", "_")
        (tmp_path / where / f"test_{name}.py").write_text(TEST)
    (tmp_path / "pytest.ini").write_text(MARKS)
    (tmp_path / "tests" / "conftest.py").write_text(TAKES_FEWER)
    done = fast_in(tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1].startswith(f"===== {1 + len(testing.SECOND)} passed in ")


@pytest.mark.impure
def test_the_fast_tests_of_a_folder_are_two_runs_too_where_it_has_many_files(tmp_path):
    (tmp_path / "tests/room").mkdir(parents=True)
    (tmp_path / "tests/test_elsewhere.py").write_text("def test_elsewhere(): assert False\n")
    for number in range(testing.WORTH_TWO):
        deep = tmp_path / "tests" / ("room/deep" if number < 5 else "room")
        deep.mkdir(exist_ok=True)
        told = f"import os\ndef test_it(): open({str(tmp_path / 'told')!r}, 'a').write(f'{{os.getpid()}} ')\n"
        (deep / f"test_{number:02}.py").write_text(told)
    (tmp_path / "pytest.ini").write_text(MARKS)
    (tmp_path / "conftest.py").write_text(TAKES_FEWER)
    done = fast_in(tmp_path, "tests/room")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1].startswith(f"===== {testing.WORTH_TWO} passed in ")
    told = Counter((tmp_path / "told").read_text().split())
    assert list(told.values()) == [testing.WORTH_TWO // 2] * 2

    (tmp_path / "tests/room/test_19.py").write_text("def test_it(): assert False\n")
    assert fast_in(tmp_path, "tests/room").returncode == testing.FAILURES
    for file in (tmp_path / "tests/room").rglob("test_*.py"):
        file.write_text("")
    assert fast_in(tmp_path, "tests/room").returncode == testing.NO_TESTS


def test_the_cores_quick_tests_need_no_django():
    for part in testing.parts_of(["--fast", "tests/scheduler/simulator", "tests/scheduler/policies"]):
        assert set(testing.WITHOUT_DJANGO) <= set(part)
    for part in testing.parts_of(["--fast", "tests/scheduler", "tests/client"]):
        assert not set(testing.WITHOUT_DJANGO) & set(part)


def test_few_files_a_file_and_options_are_one_run():
    assert testing.parts_of(["--fast", "tests/scheduler/fairness"]) is None
    assert testing.parts_of(["--fast", "tests/scheduler", "tests/test_documents.py"]) is None
    assert testing.parts_of(["--fast", "tests/scheduler", "-x"]) is None
    assert testing.parts_of(["tests/scheduler"]) is None
