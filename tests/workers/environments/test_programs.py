"""`python` in jobs: the folder at the end of their PATH, through real agents, shims and jobs."""

from __future__ import annotations

import os
import stat
import subprocess
import sys

import pytest

from tests.workers.conftest import wait_until
from tests.workers.controls.test_shim import ShimRun
from tests.workers.controls.test_terminals import Pty, begun
from workers.environments.programs import PROGRAMS, programs_make
from workers.system.files import read_json, write_json

pytestmark = [pytest.mark.system, pytest.mark.slow]  # agents and jobs as processes of their own

SAYS = "#!/bin/sh\necho {0} says $*\n"
THIS = "python -c 'import sys; print(\"Python\", sys.argv[1:])' a 'b c' '$d'"
"""A newcomer's command, and arguments that a shell must not read again."""


def folder(path, *names):
    """A folder with programs of these names alone, each of which says who it is."""
    path.mkdir(parents=True)
    for name in names:
        (path / name).write_text(SAYS.format(f"{path.name}/{name}"))
        (path / name).chmod(0o755)
    return path


@pytest.fixture
def shim(tmp_path):
    programs_make(tmp_path)
    run = ShimRun(tmp_path)
    yield run
    run.end()


def said(shim, command, **more):
    result = shim.prepare(command=command, programs=shim.root / PROGRAMS, **more).start().result()
    return result["exit_code"], shim.stdout(), (shim.directory / "stderr").read_text()


def test_a_newcomers_command_runs_on_a_node_that_has_python3_alone(portal, node):
    """As Debian's are, and the demo's: PATH is the agent's own here, and the job is of a tenant's account where that can be."""
    key = portal.want(command=f'{THIS}; {{ echo broken > "$(command -v python)"; }} 2>/dev/null || echo kept', job=1)
    node.start("--nice", "0")
    assert portal.wait_report(key, "ended")["exit_code"] == 0, portal.logs
    assert portal.logs[*key, "stdout"].decode().splitlines() == ["Python ['a', 'b c', '$d']", "kept"]


def test_it_is_there_for_a_job_that_runs_while_the_agent_is_replaced(portal, node):
    """By one of another version, which writes another script: the job sees the folder, and so the new one."""
    key = portal.want(command=f"until [ -e go ]; do sleep 0.1; done; {THIS}", job=1)
    node.start("--nice", "0")
    portal.wait_report(key, "running")
    node.end()
    (node.directory / PROGRAMS / "python").write_text("#!/bin/false\n")
    node.start("--nice", "0")
    wait_until(lambda: len(portal.inventories) > 2)
    (node.job(key) / "work/go").touch()
    assert portal.wait_report(key, "ended")["exit_code"] == 0, portal.logs


@pytest.mark.parametrize("broken", ["link", "file", "gone", "unreadable"])
def test_what_somebody_broke_while_no_agent_ran_is_made_again(tmp_path, broken):
    place = programs_make(tmp_path)
    if broken == "unreadable":
        (place / "python").chmod(0)
    else:
        (place / "python").unlink()
        place.rmdir()
    if broken == "link":
        place.symlink_to("/nowhere")
    elif broken == "file":
        place.touch()
    done = subprocess.run([programs_make(tmp_path) / "python", "-c", "print(7)"], capture_output=True, check=True)
    assert done.stdout == b"7\n"


def test_everybody_may_run_it_and_nobody_else_may_write_it_whatever_the_umask(tmp_path):
    before = os.umask(0o077)
    try:
        programs_make(tmp_path)
        (tmp_path / PROGRAMS / "python").chmod(0o600)
        programs_make(tmp_path)
    finally:
        os.umask(before)
    for path in (tmp_path / PROGRAMS, tmp_path / PROGRAMS / "python"):
        assert stat.S_IMODE(path.lstat().st_mode) == 0o755
    assert (tmp_path / PROGRAMS / "python").read_text().count("\n") == 2
    changed = (tmp_path / PROGRAMS / "python").stat().st_mtime_ns
    programs_make(tmp_path)
    assert (tmp_path / PROGRAMS / "python").stat().st_mtime_ns == changed


def test_the_first_python3_of_path_runs_also_where_the_tenant_gives_the_path(shim, tmp_path):
    first, second = folder(tmp_path / "first", "python3"), folder(tmp_path / "second", "python3")
    code, out, _ = said(shim, "python train.py 'a b'", environment={"PATH": f"{first}:{second}"})
    assert (code, out) == (0, "first/python3 says train.py a b\n")


def test_a_python_that_is_on_path_wins(shim, tmp_path):
    own = folder(tmp_path / "own", "python", "python3")
    assert said(shim, "python x", environment={"PATH": f"/bin:{own}"})[1] == "own/python says x\n"


def test_an_environments_own_python_comes_first(shim, tmp_path):
    own = folder(tmp_path / "venv/bin", "python", "python3")
    shim.prepare(command="python x; command -v python", programs=shim.root / PROGRAMS)
    write_json(shim.directory / "launch.json", read(shim) | {"prefix": str(own.parent)})
    assert shim.start().result()["exit_code"] == 0
    assert shim.stdout() == f"bin/python says x\n{own}/python\n"


def test_an_environment_with_python3_alone_is_found_with_its_packages(shim, tmp_path):
    """A link to a Python would have been another one's: it looks beside itself for packages."""
    (tmp_path / "venv/bin").mkdir(parents=True)
    (tmp_path / "venv/bin/python3").symlink_to(sys.executable)
    home = os.path.dirname(os.path.realpath(sys.executable))  # noqa: PTH120
    (tmp_path / "venv/pyvenv.cfg").write_text(f"home = {home}\n")
    shim.prepare(command="python -c 'import sys; print(sys.prefix)'", programs=shim.root / PROGRAMS)
    write_json(shim.directory / "launch.json", read(shim) | {"prefix": str(tmp_path / "venv")})
    assert shim.start().result()["exit_code"] == 0, (shim.directory / "stderr").read_text()
    assert shim.stdout() == f"{tmp_path}/venv\n"


def test_without_any_python3_it_ends_with_127_and_says_what_to_do(shim, tmp_path):
    code, _, err = said(shim, "python train.py", environment={"PATH": str(folder(tmp_path / "empty"))})
    assert code == 127
    assert "no python3 on this job's PATH" in err
    assert "software" in err
    assert len(err.splitlines()) == 1


@pytest.mark.parametrize("line", ["#!/usr/bin/env python", "#!/bin/sh\nexec python -"])
def test_scripts_and_programs_that_a_job_starts_find_it_too(shim, line):
    text = f"{line}\n" if "env" in line else f"{line} <<END\n"
    text += "print('it runs')\n" + ("" if "env" in line else "END\n")
    command = f"cat > script <<'STOP'\n{text}STOP\nchmod +x script; ./script"
    assert said(shim, command)[:2] == (0, "it runs\n")


def test_a_terminal_finds_it_as_its_job_does(shim):
    begun(shim, programs=shim.root / PROGRAMS)
    pty = Pty(shim, THIS)
    assert pty.ended() == b"0", pty.shown
    assert b"Python ['a', 'b c', '$d']" in pty.shown


def test_a_launch_from_before_an_upgrade_has_the_path_that_it_had(shim):
    shim.prepare(command="echo $PATH", programs=None)
    launch = read(shim)
    launch.pop("programs", None)
    write_json(shim.directory / "launch.json", launch)
    shim.start().result()
    assert shim.stdout() == "/usr/local/bin:/usr/bin:/bin\n"


def read(shim):
    return read_json(shim.directory / "launch.json")
