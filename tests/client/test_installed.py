"""The package installed without a clone around it does its work; the shell completes with live values."""

import os
import shutil
import subprocess
import sys

import pytest

from berth_client import __version__
from berth_client.cli import parser_make
from berth_client.cli.completion import completers_set
from portal.foundation.layout import SOURCE
from tests.client.conftest import URL, secret_of

pytestmark = pytest.mark.impure  # pip and the installed command are processes


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """The folder that `pip install` of this one package fills; nothing is fetched."""
    source, target = tmp_path_factory.mktemp("source") / "client", tmp_path_factory.mktemp("target")
    shutil.copytree(SOURCE / "client", source, ignore=shutil.ignore_patterns("__pycache__"))
    flags = (
        "--no-build-isolation --no-deps --no-index --no-compile --disable-pip-version-check --quiet --target".split()
    )
    subprocess.run([sys.executable, "-m", "pip", "install", *flags, target, source], check=True)
    return target


def test_it_is_typed_and_brings_its_command(installed):
    names = {path.relative_to(installed).as_posix() for path in installed.rglob("*") if path.is_file()}
    assert {"bin/berth", "berth_client/py.typed", "berth_client/cli/lab.py"} <= names
    own = {path.relative_to(SOURCE / "client").as_posix() for path in (SOURCE / "client/berth_client").rglob("*.py")}
    assert own <= names


@pytest.mark.django_db(transaction=True)
def test_it_works_with_python_alone(installed, live_server, world, tmp_path):
    """-S: without any other package that this Python has."""
    script = f"import sys; sys.path.insert(0, {str(installed)!r}); from berth_client.cli import run; sys.exit(run())"
    environment = {"BERTH_URL": live_server.url, "BERTH_TOKEN": secret_of(world.owner), "HOME": str(tmp_path)}

    def berth(*arguments):
        argv = [sys.executable, "-I", "-S", "-c", script, *arguments]
        done = subprocess.run(argv, env=environment, capture_output=True, text=True, check=False, timeout=60)
        assert done.returncode == 0, done
        return done.stdout

    assert berth("--version") == f"{__version__}\n"
    number = berth("submit", "--parsable", "--name", "hello", "--", "true").strip()
    assert berth("ps", "-o", "name") == f"{number}\n"
    assert "name: hello\n" in berth("show", number, "-o", "yaml")
    assert berth("cancel", number) == f"job {number}: CANCELLED\n"
    assert berth("logs", "--follow", number) == ""


def test_the_shell_gets_its_code():
    argv = [sys.executable, SOURCE / "berth", "completion", "bash"]
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    assert "complete " in done.stdout
    assert subprocess.run(["bash", "-n"], input=done.stdout, text=True, check=False).returncode == 0


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("berth can", {"cancel"}),
        ("berth show ", {"1", "2"}),
        ("berth cancel 2", {"2"}),
        ("berth nodes rt", {"rtx-01", "rtx-02"}),
        ("berth ps --tenant ", {"vision-lab"}),
        ("berth submit --cores", {"--cores", "--cores-per-gpu", "--cores-exactly"}),
        ("berth ps --output ", {"table", "wide", "json", "yaml", "name"}),
    ],
)
def test_it_completes_with_live_values(world, transport, monkeypatch, line, found):
    from argcomplete.finders import CompletionFinder

    monkeypatch.setattr("berth_client.transport.UrllibTransport", lambda **_: transport)
    monkeypatch.setenv("BERTH_URL", URL)
    monkeypatch.setenv("BERTH_TOKEN", secret_of(world.owner))
    for name in ("one", "two"):
        world.owner.submit(name=name)
    world.outsider.submit(name="foreign")
    parser = parser_make()
    completers_set(parser)
    finder = CompletionFinder(parser, always_complete_options=False)
    words = line.split(" ")
    told = finder._get_completions(words[:-1], words[-1], "", None)
    assert {each.strip() for each in told} - {"-h"} == found


def test_completion_is_silent_where_there_is_no_portal():
    from argcomplete.finders import CompletionFinder

    parser = parser_make()
    completers_set(parser)
    assert (
        CompletionFinder(parser, always_complete_options=False)._get_completions(["berth", "show"], "4", "", None) == []
    )
    assert "BERTH_URL" not in os.environ
