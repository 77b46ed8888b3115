"""The `berth` script itself: verbs, stamps, and the sentence for each thing that is missing."""

import importlib.machinery
import importlib.util
import json
import os
import shutil
import subprocess
import sys
from types import SimpleNamespace

import pytest

from portal.foundation.layout import SOURCE

SCRIPT = SOURCE / "berth"


@pytest.fixture
def berth(tmp_path, monkeypatch):
    """The script as a module, in an empty clone of its own."""
    loader = importlib.machinery.SourceFileLoader("berth_script", str(SCRIPT))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("berth_script", loader))
    loader.exec_module(module)
    monkeypatch.setattr(module, "HERE", tmp_path)
    monkeypatch.setattr(module, "VENV", tmp_path / ".venv")
    monkeypatch.setattr(module, "PYTHON", tmp_path / ".venv" / "bin" / "python")
    monkeypatch.setattr(module, "STAMP", tmp_path / ".venv" / "berth-stamp.json")
    (tmp_path / "requirements.lock").write_text("one==1\n")
    (tmp_path / "requirements-dev.lock").write_text("one==1\ntwo==2\n")
    return module


@pytest.fixture
def installs(berth, monkeypatch):
    """Instead of the network: the packages that would have been installed, in order."""
    done = []

    def make_venv():
        berth.PYTHON.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy("/bin/true", berth.PYTHON)
        done.append("venv")

    monkeypatch.setattr(berth, "make_venv", make_venv)
    monkeypatch.setattr(berth, "install", done.append)
    return done


def run(*arguments):
    return subprocess.run([sys.executable, SCRIPT, *arguments], capture_output=True, text=True, check=False)


def test_help():
    done = run("help")
    assert done.returncode == 0
    assert "./berth COMMAND" in done.stdout


def test_the_client_needs_no_installation(berth, installs, monkeypatch):
    became = []
    monkeypatch.setattr(berth.os, "execve", lambda python, argv, _: became.append([python, *argv[1:]]))
    berth.main(["lab", "list"])
    assert became == [[sys.executable, "-P", "-m", "berth_client", "lab", "list"]]
    assert installs == []


def test_no_command_is_a_usage_error():
    assert run().returncode == 2


def test_a_command_that_is_none():
    done = run("frobnicate", "--x")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "berth: no such command: frobnicate (./berth help lists them)\n"


def test_a_second_call_installs_nothing(berth, installs):
    berth.venv_ensure("requirements.lock")
    berth.venv_ensure("requirements.lock")
    assert installs == ["venv", "requirements.lock"]


def test_the_development_requirements_include_the_others(berth, installs):
    berth.venv_ensure("requirements-dev.lock")
    berth.venv_ensure("requirements.lock")
    assert installs == ["venv", "requirements-dev.lock"]


def test_a_changed_requirement_installs_again_in_the_same_venv(berth, installs):
    berth.venv_ensure("requirements-dev.lock")
    (berth.HERE / "requirements.lock").write_text("another\n")
    berth.venv_ensure("requirements-dev.lock")
    assert installs == ["venv", "requirements-dev.lock", "requirements-dev.lock"]


@pytest.mark.parametrize("change", [{"python": [3, 10]}, {"directory": "/moved/.venv"}])
def test_another_python_or_a_moved_clone_makes_the_venv_anew(berth, installs, change):
    berth.venv_ensure("requirements.lock")
    berth.STAMP.write_text(json.dumps(json.loads(berth.STAMP.read_text()) | change))
    berth.venv_ensure("requirements.lock")
    assert installs == ["venv", "requirements.lock"] * 2


def test_an_install_that_was_cut_off_is_done_again(berth, installs, monkeypatch):
    monkeypatch.setattr(berth, "install", lambda _name: (_ for _ in ()).throw(berth.Refusal("cut off")))
    with pytest.raises(berth.Refusal):
        berth.venv_ensure("requirements.lock")
    monkeypatch.setattr(berth, "install", installs.append)
    berth.venv_ensure("requirements.lock")
    assert installs == ["venv", "venv", "requirements.lock"]


def test_too_little_disk(berth, monkeypatch):
    monkeypatch.setattr(berth.shutil, "disk_usage", lambda _path: SimpleNamespace(free=287 * 2**20))
    with pytest.raises(berth.Refusal, match=r"Only 287 MiB are free.*1536 MiB"):
        berth.venv_ensure("requirements.lock")


def test_a_clone_that_cannot_be_written(berth, monkeypatch):
    monkeypatch.setattr(berth.os, "access", lambda _path, mode: mode != os.W_OK)
    with pytest.raises(berth.Refusal, match="cannot be written by this user"):
        berth.venv_ensure("requirements.lock")


def test_no_ensurepip(berth, monkeypatch):
    monkeypatch.setitem(sys.modules, "ensurepip", None)
    with pytest.raises(berth.Refusal, match="apt install python3-venv"):
        berth.make_venv()


def test_a_link_to_another_clones_is_left_alone(berth, monkeypatch, tmp_path):
    (tmp_path / "other").mkdir()
    link = tmp_path / "linked"
    link.symlink_to(tmp_path / "other")
    monkeypatch.setattr(berth, "VENV", link)
    with pytest.raises(berth.Refusal, match=r"Remove the link and run \./berth again"):
        berth.make_venv()
    assert link.is_symlink()


def test_a_folder_that_berth_did_not_make_is_left_alone(berth, tmp_path):
    (tmp_path / ".venv").mkdir()
    (tmp_path / ".venv" / "mine").write_text("by hand")
    with pytest.raises(berth.Refusal, match=r"was not made by Berth.*Move it to another place"):
        berth.venv_ensure("requirements.lock")
    assert (tmp_path / ".venv" / "mine").read_text() == "by hand"


def test_one_of_berths_that_was_cut_off_is_made_anew(berth):
    berth.VENV.mkdir()
    berth.STAMP.write_text("{}")
    (berth.VENV / "half").touch()
    berth.make_venv()
    assert (berth.PYTHON.exists(), berth.STAMP.exists(), (berth.VENV / "half").exists()) == (True, True, False)


def test_pip_failing_gives_its_first_error(berth, tmp_path):
    berth.PYTHON.parent.mkdir(parents=True)
    berth.PYTHON.write_text("#!/bin/sh\necho Collecting x\necho 'ERROR: no network today'\nexit 1\n")
    berth.PYTHON.chmod(0o755)
    with pytest.raises(berth.Refusal, match=r"requirements\.lock failed: ERROR: no network today"):
        berth.install("requirements.lock")
    assert "no network today" in (tmp_path / ".venv" / "pip.log").read_text()


def test_a_python_that_is_too_new_hands_over_to_one_that_does(berth, monkeypatch):
    handed = []
    monkeypatch.setattr(berth.sys, "version_info", (3, 15, 0))
    monkeypatch.setattr(berth.shutil, "which", lambda name: f"/opt/{name}" if name == "python3.12" else None)
    monkeypatch.setattr(berth.os, "execv", lambda path, _argv: handed.append(path))
    monkeypatch.delenv("BERTH_PYTHON_TRIED", raising=False)
    with pytest.raises(berth.Refusal):
        berth.find_python()
    monkeypatch.delenv("BERTH_PYTHON_TRIED")
    assert handed == ["/opt/python3.12"]


def test_no_python_that_does(berth, monkeypatch):
    monkeypatch.setattr(berth.sys, "version_info", (3, 9, 2))
    monkeypatch.setattr(berth.shutil, "which", lambda _name: None)
    with pytest.raises(berth.Refusal, match=r"needs Python 3\.11 to 3\.14, and this is 3\.9.*apt install"):
        berth.find_python()


def test_node_without_a_portal(berth):
    with pytest.raises(berth.Refusal, match="--join URL"):
        berth.node(["--token", "x"])
