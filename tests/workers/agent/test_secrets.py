"""An agent and a part's secrets: asked for at its start, handed over in memory, and on no disk of the node."""

from __future__ import annotations

import contextlib

import pytest

from tests.workers.conftest import wait_until

pytestmark = pytest.mark.system  # agents and jobs as processes of their own, waited for

TOKEN = "hf_0123456789abcdef"


def lies(directory):
    """Files of the node that hold the value."""
    found = []
    for path in directory.rglob("*"):
        with contextlib.suppress(FileNotFoundError):  # written under another name first, and renamed meanwhile
            if path.is_file() and not path.is_symlink() and TOKEN.encode() in path.read_bytes():
                found.append(path)
    return found


def test_the_command_has_it_and_neither_log_nor_disk(portal, node):
    portal.secrets = {"HF_TOKEN": TOKEN}
    key = portal.want(command='echo "token $HF_TOKEN"; echo ${#HF_TOKEN} >&2; sleep 1', secrets=True)
    node.start()
    portal.wait_report(key, "running")
    assert lies(node.directory) == []
    assert portal.wait_report(key, "ended")["exit_code"] == 0
    assert portal.logs[*key, "stdout"] == b"token ***\n"
    assert portal.logs[*key, "stderr"] == b"19\n"
    assert lies(node.directory) == []


def test_a_secret_that_is_gone_ends_the_part_before_its_command(portal, node):
    key = portal.want(command="echo ran", secrets=True)
    node.start()
    ended = portal.wait_report(key, "ended")
    assert (ended["reason"], ended["detail"]) == ("start_failed", "unknown_secret")
    assert not portal.logs.get((*key, "stdout"))


def test_an_agent_that_was_killed_before_the_shim_began_asks_again(portal, node):
    portal.secrets = {"HF_TOKEN": TOKEN}
    key = portal.want(command="echo $HF_TOKEN", secrets=True, go=False)
    node.start()
    portal.wait_report(key, "prepared")
    node.kill()
    record = node.part(key) / "part.json"
    record.write_text(record.read_text().replace('"phase": "prepared"', '"phase": "starting"'))
    portal.change(key, go=True)
    node.start()
    assert portal.wait_report(key, "ended")["exit_code"] == 0
    wait_until(lambda: portal.logs.get((*key, "stdout")) == b"***\n")
