"""The building program by itself: one builds while others wait, what was killed begins anew, what failed is told."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import pytest

from tests.workers.conftest import wait_until
from workers.environments import build

MADE = 'echo built >> "$COUNT"; mkdir -p "$ENTRY/venv/bin"; ln -sf /bin/sh "$ENTRY/venv/bin/python"'


class Builder:
    """One environment, whose steps are shell commands instead of an installer's: quick, and they count themselves."""

    def __init__(self, room) -> None:
        self.room, self.entry, self.count = room, room / "entry", room / "count"
        self.entry.mkdir()

    def start(self, command: str = MADE, *, again_s: float = 600.0) -> subprocess.Popen:
        why = self.room / "why"
        plan = {"kind": "requirements", "entry": str(self.entry), "installer": "uv", "again_s": again_s}
        plan |= {
            "doing": "Building the environment.",
            "made": f"{self.entry}/venv/bin/python",
            "away": build.AWAY_REMEDY,
        }
        environment = {"ENTRY": str(self.entry), "COUNT": str(self.count)}
        plan |= {"environment": environment, "steps": [["/bin/sh", "-c", command]], "why": str(why)}
        file = self.room / f"plan-{len(list(self.room.iterdir()))}.json"
        file.write_text(json.dumps(plan))
        command_line = [sys.executable, "-I", "-S", build.__file__, str(file)]
        return subprocess.Popen(command_line, stdout=subprocess.PIPE, text=True, start_new_session=True)

    def run(self, command: str = MADE, **more) -> tuple[int, str]:
        child = self.start(command, **more)
        said = child.communicate(timeout=60)[0]
        return child.returncode, said

    @property
    def builds(self) -> int:
        return len(self.count.read_text().splitlines()) if self.count.exists() else 0


@pytest.fixture
def builder(tmp_path):
    return Builder(tmp_path)


def test_two_at_once_build_once(builder):
    gate = builder.room / "gate"
    os.mkfifo(gate)
    first = builder.start(f'echo x > "$ENTRY/begun"; read _ < {gate}; {MADE}')
    wait_until((builder.entry / "begun").exists)
    second = builder.start()
    assert second.stdout.readline() == "[environment] Another job is building this environment; waiting for it.\n"
    gate.write_text("go\n")
    assert first.wait(60) == second.wait(60) == 0
    assert builder.builds == 1
    assert "built before" in second.stdout.read()


def test_what_a_kill_left_half_built_is_built_anew(builder):
    child = builder.start('mkdir -p "$ENTRY/venv/bin"; touch "$ENTRY/venv/half"; exec sleep 1000')
    wait_until((builder.entry / "venv/half").exists)
    os.killpg(child.pid, signal.SIGKILL)
    child.wait()
    assert builder.run()[0] == 0
    assert builder.builds == 1
    assert not (builder.entry / "venv/half").exists()
    assert (builder.entry / "ready.json").exists()


def test_a_failure_is_told_and_not_tried_again_for_a_while(builder):
    fails = 'echo built >> "$COUNT"; echo "ERROR: No matching distribution found for nonesuch"; exit 1'
    code, said = builder.run(fails)
    why = "uv ended with code 1: ERROR: No matching distribution found for nonesuch"
    assert (code, said.splitlines()[-1]) == (1, f"[environment] Failed: {why}")
    code, said = builder.run(fails)
    assert code == 1
    assert f"could not be built here 0 min ago: {why}. It is tried again in 10 min" in said
    assert (builder.room / "why").read_text() in said
    assert builder.builds == 1
    assert builder.run(again_s=0.0)[0] == 0
    assert builder.builds == 2


@pytest.mark.parametrize("junk", ["", "[]", '{"at": "x", "why": 3}', '{"at": 1e400}', "\0"])
def test_a_broken_note_of_a_failure_counts_as_none(builder, junk):
    (builder.entry / "failed.json").write_text(junk)
    assert builder.run()[0] == 0


def test_an_index_that_does_not_answer_is_told_with_the_remedy(builder):
    said = builder.run("echo 'WARNING: Retrying after NewConnectionError: Connection refused' >&2; exit 1")[1]
    assert build.AWAY_REMEDY in said


def test_a_full_disk_is_told_and_tried_again(builder):
    said = builder.run("echo 'ERROR: [Errno 28] No space left on device'; exit 1")[1]
    assert build.FULL_REMEDY in said
    assert builder.run()[0] == 0


def test_what_leaves_no_python_is_no_environment(builder):
    code, said = builder.run("true")
    assert code == 1
    assert "there is no python" in said


def prefix(room, path) -> tuple[int, str]:
    plan = room / "plan.json"
    about = {"kind": "prefix", "prefix": str(path), "name": "The environment x", "why": str(room / "why")}
    plan.write_text(json.dumps(about))
    done = subprocess.run(
        [sys.executable, "-I", "-S", build.__file__, str(plan)], capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout


def test_a_prefix_needs_a_python_that_runs(tmp_path):
    assert prefix(tmp_path, tmp_path / "none")[0] == 1
    assert "Give the directory of a virtual or conda environment" in (tmp_path / "why").read_text()
    (tmp_path / "venv/bin").mkdir(parents=True)
    python = tmp_path / "venv/bin/python"
    python.write_text("#!/bin/sh\necho Python 3.9.9\n")
    assert "does not run (Permission denied)" in prefix(tmp_path, tmp_path / "venv")[1]
    python.chmod(0o755)
    assert prefix(tmp_path, tmp_path / "venv") == (0, "[environment] The environment x: Python 3.9.9.\n")
