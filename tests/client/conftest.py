"""The client against the REST API in the same process: its requests go to Django by the test client, through no socket."""

import json
from types import SimpleNamespace

import pytest
from django.test import Client

from berth_client import Berth
from berth_client.cli import main
from berth_client.transport import Answer
from tests.portal.conftest import nothing_counted  # noqa: F401 - a fixture
from tests.portal.foundation.api.conftest import world_make

URL = "http://testserver"


class InProcess:
    """Sends requests to Django itself. `asked` holds method and path of each."""

    def __init__(self):
        self.client = Client()
        self.asked = []

    def __call__(self, method, url, *, headers, body, timeout_s):
        self.asked.append((method, url.removeprefix(f"{URL}/api/v1")))
        sent, body = dict(headers), body if body is None or isinstance(body, bytes) else body.read()
        content_type = sent.pop("Content-Type", "")
        answer = self.client.generic(
            method, url.removeprefix(URL), body or b"", content_type=content_type, headers=sent
        )
        return Answer(answer.status_code, dict(answer.headers), answer.getvalue())


@pytest.fixture(autouse=True)
def own_settings(monkeypatch, tmp_path):
    """No test reads what the person who runs it wrote down."""
    for name in ("BERTH_URL", "BERTH_TOKEN", "BERTH_PORTAL", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("BERTH_CONFIG", str(tmp_path / "own" / "config.ini"))
    monkeypatch.setenv("TZ", "UTC")
    monkeypatch.setenv("COLUMNS", "100")


@pytest.fixture
def world(db):
    return world_make()


def secret_of(caller):
    return caller.headers["Authorization"].removeprefix("Bearer ")


@pytest.fixture
def transport():
    return InProcess()


@pytest.fixture
def berth(world, transport):
    """The client class with lena's token."""
    return Berth(URL, secret_of(world.owner), transport=transport)


@pytest.fixture
def cli(world, transport, monkeypatch, capsys):
    """Call `berth` as lena, or another of the world's callers; returns code, out, err and the value that -o json prints."""

    def call(*arguments, code=0, caller=None):
        monkeypatch.setenv("BERTH_URL", URL)
        monkeypatch.setenv("BERTH_TOKEN", secret_of(caller or world.owner))
        capsys.readouterr()
        try:
            found = main([str(each) for each in arguments], transport=transport)
        except SystemExit as ended:
            found = ended.code
        told = capsys.readouterr()
        assert found == code, (found, told)
        as_json = json.loads(told.out) if "json" in arguments and told.out else None
        return SimpleNamespace(out=told.out, err=told.err, json=as_json)

    return call
