"""A server of ssh under a shim: wrong orders do no harm, and refusals are in words."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.workers.conftest import wait_until
from tests.workers.controls.test_gpu_devices import program_of, shim  # noqa: F401 - the fixture
from tests.workers.controls.test_terminals import begun
from tests.workers.parts.test_terminal_channel import Portal
from workers.controls.logins import SSHD, _quoted
from workers.parts import logins
from workers.protocol.frames import Kind, pack
from workers.system.files import write_json
from workers.system.view import View

needs_sshd = pytest.mark.skipif(
    not (os.access(SSHD, os.X_OK) and shutil.which("ssh-keygen")), reason="SKIPPED LOUDLY: needs openssh-server"
)
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIBnRqUz9gMGcyYHdQzIZ0dYQYFZr7iH1nhrm0mGPp7Ab"
OWN = subprocess.run(["id", "-un"], capture_output=True, text=True, check=True).stdout.strip()


def ask(shim, until=b"\r\n", **asked):  # noqa: F811
    """How the stream ended, and all that came; it is left when `until` has come."""

    async def talk():
        portal = Portal(shim)
        whole = {"kind": "ssh", "attempt": "5", "epoch": 2, "rank": 0, "user": OWN, "key": KEY, **asked}
        portal.channel._take(pack(Kind.OPEN, 1, json.dumps(whole).encode()), portal.hear)
        for _ in range(1200):
            if portal.end.done() or until in portal.shown:
                break
            await asyncio.sleep(0.05)
        if not portal.end.done():
            portal.channel._take(pack(Kind.CLOSE, 1, b'{"code": "left", "detail": "", "exit_code": null}'), portal.hear)
        return await asyncio.wait_for(portal.end, 60), portal.shown

    return asyncio.run(talk())


@needs_sshd
def test_it_says_its_key_first_and_takes_its_files_away(shim):  # noqa: F811
    begun(shim)
    _, shown = ask(shim)
    key, _, banner = shown.partition(b"\n")
    assert key.startswith(b"ssh-ed25519 AAAA")
    assert banner.startswith(b"SSH-2.0-OpenSSH")
    wait_until(lambda: not list(shim.root.rglob(".ssh-*")))
    assert not list(shim.directory.glob("terminal*"))
    assert shim.engine.life(shim.directory) == "alive"


def test_a_machine_without_a_server_says_so_and_what_to_do(shim, monkeypatch):  # noqa: F811
    begun(shim)
    monkeypatch.setattr(logins, "SSHD", "/nowhere/sshd")
    end, _ = ask(shim)
    assert end["code"] == "no_sshd"
    assert "openssh-server" in end["detail"]
    assert "berth forward" in end["detail"]


@needs_sshd
def test_a_job_in_an_image_is_refused_in_words(shim):  # noqa: F811
    begun(shim)
    end, shown = ask_in_image(shim)
    assert (end["code"], shown) == ("no_ssh", b"")
    assert "an image, which ssh does not reach. Use `berth shell`" in end["detail"]


def ask_in_image(shim):  # noqa: F811
    """As the shim of such a job would do it: the order goes to a child of ours."""
    from workers.controls import terminals  # here: the fixture's shim is another process

    launch = {**json.loads((shim.directory / "launch.json").read_text()), "container": {"engine": "x", "image": "y"}}
    command = shim.engine.job(shim.directory)["pid"]
    pids, forget = [], shim.engine.terminal

    def order(*words, **more):
        hold = shim.directory.with_name("hold")
        hold.mkdir(exist_ok=True)
        for pipe in shim.directory.glob("terminal-*"):
            os.link(pipe, hold / pipe.name)
        whole = {"tty": words[1], "end": words[2], "command": None, **more}
        write_json(hold / "terminal.json", whole)
        pids.append(terminals.terminal_begin(hold, launch, command, None))
        pid, end = pids[-1]
        terminals.terminal_ended(end, os.waitpid(pid, 0)[1])

    shim.engine.terminal = order
    try:
        return ask(shim)
    finally:
        shim.engine.terminal = forget


@pytest.mark.parametrize(
    "asked",
    [
        {"user": "a:b"},
        {"user": "-oProxyCommand=x"},
        {"user": None},
        {"key": f"{KEY}\nssh-ed25519 {'A' * 60}"},
        {"key": f'command="id" {KEY}'},
        {"key": 5},
    ],
)
def test_what_is_no_name_and_no_key_reaches_no_shim(shim, asked):  # noqa: F811
    begun(shim)
    assert ask(shim, **asked)[0]["code"] == "closed"


@pytest.mark.parametrize("ssh", [5, {}, {"in": "../x.in", "out": "terminal-1.out", "user": "a", "key": KEY}])
def test_an_order_that_is_none_is_taken_away_and_does_nothing(shim, ssh):  # noqa: F811
    begun(shim)
    master, slave = os.openpty()
    os.mkfifo(path := shim.directory / "terminal-1.end")
    end = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    shim.engine.terminal(shim.directory, os.ttyname(slave), path.name, ssh=ssh)
    wait_until(lambda: shim.engine.terminal_taken(shim.directory))
    for descriptor in (master, slave, end):
        os.close(descriptor)
    assert shim.engine.life(shim.directory) == "alive"


def test_variables_cross_as_they_are_but_for_line_breaks():
    assert _quoted({"A": 'x "y" \\ z', "B": "two\nlines", "TERM": "dumb"}) == ['"A=x \\"y\\" \\\\ z"']


@needs_sshd
@pytest.mark.skipif(os.geteuid() != 0, reason="SKIPPED LOUDLY: only root can start jobs under other accounts")
def test_an_account_without_a_name_is_lent_the_one_that_is_asked_for(shim, tmp_path):  # noqa: F811
    """And in the job's own view, with no way to new rights; the machine's own names stay as they are."""
    begun(shim, view=View((shim.root,), program_of(shim.root)), accounts=True)
    job = shim.engine.job(shim.directory)["pid"]
    wait_until(lambda: Path(f"/proc/{job}").stat().st_uid != 0)
    before = Path("/etc/passwd").read_bytes()
    _, shown = ask(shim, user="somebody-else")
    assert b"SSH-2.0" in shown
    assert Path("/etc/passwd").read_bytes() == before
