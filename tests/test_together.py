"""Files that share a Berth: they come to one process, and whatever one leaves behind fails it and is not the next one's."""

import os
import re
import subprocess
import sys

import pytest

from portal.launch import testing
from portal.launch.testing import TOGETHER
from tests import together

OWN = re.compile(r"^def berth\(berth_shared", re.MULTILINE)
FILES = [file for files in TOGETHER.values() for file in files]
FAKE = """
import itertools
from pathlib import Path
from tests import together
numbers = itertools.count(1)
class Fake:
    def __init__(self): self.number, self.jobs = next(numbers), []
    def wait(self, condition, **_): assert condition()
    def wait_healthy(self): pass
def berth(self):
    self._berth = self._berth or Fake()
    return self._berth
together.Together.berth, together.standing = berth, lambda berth: {"open jobs": list(berth.jobs)}
"""
TESTS = """
import os
def test_it(berth_shared):
    with open("told", "a") as file:
        print({name!r}, berth_shared.number, os.environ.get("PYTEST_XDIST_WORKER"), file=file)
    {act}
"""
LEAVES, FAILS, PASSES = "berth_shared.jobs.append('left')", "assert False", "pass"


def run(folder, acts, *arguments):
    """Run files of these names with a Berth that is none; ([(file, Berth's number, process)], what pytest said)."""
    (folder / "pytest.ini").write_text("[pytest]\n")
    (folder / "conftest.py").write_text(FAKE)
    for name, act in acts.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(TESTS.format(name=name, act=act))
    environment = os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": str(testing.SOURCE)}
    command = [sys.executable, "-m", "pytest", "-p", "tests.together", *arguments, *acts]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=folder, env=environment)
    return [tuple(line.split()) for line in (folder / "told").read_text().splitlines()], done.stdout + done.stderr


@pytest.mark.impure
def test_who_leaves_something_behind_fails_and_the_next_one_has_a_new_berth(tmp_path):
    first, second, third, fourth = TOGETHER["shells"][:4]
    told, said = run(tmp_path, {first: PASSES, second: LEAVES, third: FAILS, fourth: PASSES})
    assert [(name, number) for name, number, _ in told] == [(first, "1"), (second, "1"), (third, "2"), (fourth, "3")]
    assert "1 failed, 3 passed, 1 error" in said
    assert f"{second.rpartition('/')[2]} left behind" in said


@pytest.mark.impure
def test_a_file_that_spends_its_berth_may_leave_anything_and_a_group_ends_with_its_last_test(tmp_path):
    (first, second), other = TOGETHER["shells"][:2], TOGETHER["pages"][0]
    spends = f"{LEAVES}\nSPENDS_ITS_BERTH = True"
    told, said = run(tmp_path, {first: spends, second: PASSES, other: PASSES})
    assert [number for _, number, _ in told] == ["1", "2", "3"]
    assert "3 passed" in said


@pytest.mark.impure
def test_the_files_of_a_group_come_to_one_process(tmp_path):
    """Two processes begin with two files of a group: each would have one, if each file went by itself."""
    files = [*TOGETHER["shells"][:3], *TOGETHER["pages"][:3]]
    told, _ = run(tmp_path, dict.fromkeys(files, PASSES), *testing.WAITING_PART[:2], "-n", "2", "--dist", "loadfile")
    process = {name: process for name, _, process in told}
    assert len({process[name] for name in files[:3]}) == len({process[name] for name in files[3:]}) == 1
    assert process[files[0]] != process[files[3]]


def test_a_file_shares_a_berth_if_and_only_if_it_stands_in_one_group():
    texts = {path: path.read_text() for path in (testing.SOURCE / "tests").rglob("test_*.py")}
    sharing = {str(path.relative_to(testing.SOURCE)) for path, text in texts.items() if OWN.search(text)}
    assert sharing == set(FILES)
    assert len(FILES) == len(set(FILES))


def test_who_spends_the_berth_comes_last():
    spend = [file for file in FILES if "\nSPENDS_ITS_BERTH = True" in (testing.SOURCE / file).read_text()]
    assert set(spend) <= {files[-1] for files in TOGETHER.values()}
    order = [file for file in testing.waiting_files() if file in FILES]
    assert [[file for file in order if together.GROUP_OF[file] == group] for group in TOGETHER] == [
        list(files) for files in TOGETHER.values()
    ], "as they are handed out"
