"""Processes that others of the account cannot look into, and how a supervisor knows them all the same."""

import os
import shutil
import subprocess
import sys

import psutil
import pytest

from portal.foundation.layout import SOURCE, Layout
from portal.launch.guarded import directory_of, guarded_argv
from portal.launch.processes import identity

pytestmark = pytest.mark.impure  # processes of their own

LOOK = "import sys\ntry: open(f'/proc/{sys.argv[1]}/environ', 'rb').read()\nexcept PermissionError: print('refused')"


def powerless():
    """Drops root's powers, which see everything; nothing where there is no root."""
    if psutil.Process().uids().real:
        return []
    return [shutil.which("setpriv"), "--bounding-set=-all", "--inh-caps=-all"]


@pytest.fixture
def sleeper(tmp_path):
    """A guarded process of a data directory, without root's powers; `timeit` stands in for a server."""
    argv = guarded_argv(
        str(tmp_path), "timeit", "-n", "1", "-r", "1", "import time; print('up', flush=True); time.sleep(60)"
    )
    process = subprocess.Popen([*powerless(), *argv], cwd=SOURCE, stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "up\n"
    yield process
    process.kill()
    process.wait()


def test_nobody_looks_into_it(sleeper):
    done = subprocess.run(
        [*powerless(), sys.executable, "-c", LOOK, str(sleeper.pid)], capture_output=True, text=True, check=True
    )
    assert done.stdout == "refused\n"


def test_the_look_would_see_what_is_not_guarded():
    """The test above could not fail otherwise."""
    plain = subprocess.Popen(
        [*powerless(), sys.executable, "-c", "import time; print('up', flush=True); time.sleep(60)"],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert plain.stdout.readline() == "up\n"
        done = subprocess.run(
            [*powerless(), sys.executable, "-c", LOOK, str(plain.pid)], capture_output=True, text=True, check=True
        )
        assert done.stdout == ""
    finally:
        plain.kill()
        plain.wait()


def test_a_supervisor_knows_what_a_killed_one_left(sleeper, tmp_path):
    assert [p.pid for p in identity.leftovers(Layout.at(tmp_path))] == [sleeper.pid]
    assert identity.leftovers(Layout.at(tmp_path / "another")) == []


def test_only_guarded_command_lines_name_a_directory():
    assert directory_of(["nice", "-n", "5", *guarded_argv("/d", "celery", "-A", "portal")]) == "/d"
    assert directory_of(["python", "-m", "celery"]) is None
    assert directory_of([]) is None
    assert directory_of(["python", "-m", "portal.launch.guarded"]) is None


ENDS = """
import atexit, sys, threading, time
import django
django.setup()
from django.db import connection
connection.cursor().execute("create table written (it integer)")
atexit.register(lambda: print("at the end"))
threading.Thread(target=lambda: (time.sleep(0.3), print("a thread's end"))).start()
class Kept:
    def __del__(self): print("taken apart")
kept = Kept()
sys.modules["kept"] = kept
print("printed", end=" ")
{end}
"""


@pytest.mark.parametrize(
    ("end", "code", "said"),
    [
        ("", 0, ""),
        ("sys.exit(3)", 3, ""),
        ("sys.exit('no port')", 1, "no port"),
    ],
)
def test_it_ends_as_python_does_but_at_once(tmp_path, end, code, said):
    """Threads, exit calls and output as ever; nothing is taken apart, and the database's log is back in its file."""
    (tmp_path / "ends.py").write_text(ENDS.format(end=end))
    environment = os.environ | {
        "PYTHONPATH": f"{tmp_path}:{SOURCE}",
        "BERTH_DATA_DIR": str(tmp_path),
        "DATABASE_URL": "",
        "DJANGO_SETTINGS_MODULE": "portal.settings",
    }
    done = subprocess.run(
        guarded_argv(str(tmp_path), "ends"), env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == code, done.stderr
    assert "printed" in done.stdout
    assert "a thread's end" in done.stdout
    assert "at the end" in done.stdout
    assert said in done.stderr
    assert (tmp_path / "berth.sqlite3").exists()
    if not said:
        assert "taken apart" not in done.stdout
        assert not (tmp_path / "berth.sqlite3-wal").exists()
