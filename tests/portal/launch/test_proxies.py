"""A caller's word about its own address counts only where a named proxy says it: the real server, with the portal's own flags."""

import contextlib
import json
import subprocess
import time
import urllib.request

import pytest

from portal.foundation.command_errors import LaunchError
from portal.foundation.layout import SOURCE, Layout
from portal.launch import broker
from portal.launch.options import Options
from portal.launch.programs import services, site_of

pytestmark = pytest.mark.impure  # processes of their own

FORGED = {"X-Forwarded-For": "198.51.100.7", "X-Forwarded-Proto": "https"}


@contextlib.contextmanager
def served(tmp_path):
    """The portal's command line, another application behind it."""
    options = Options(data=tmp_path, port=broker.free_port())
    Layout(tmp_path).prepare()
    portal = services(options, Layout(tmp_path), environment={}, site=site_of(options, None))[0]
    argv = [each.replace("portal.asgi:application", "tests.portal.launch.echo:application") for each in portal.argv]
    process = subprocess.Popen(argv, cwd=SOURCE)
    try:
        yield f"http://127.0.0.1:{options.port}/"
    finally:
        process.terminate()
        process.wait(30)


def seen(url, headers):
    deadline = time.monotonic() + 60
    while True:
        try:
            with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=10) as answer:
                return json.loads(answer.read())
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


@pytest.mark.parametrize("named", ["", "192.0.2.0/24"])
def test_nobody_is_believed_who_is_not_named(tmp_path, monkeypatch, named):
    monkeypatch.setenv("BERTH_TRUSTED_PROXIES", named)
    monkeypatch.setenv("FORWARDED_ALLOW_IPS", "*")  # the server's own variable is no way around
    with served(tmp_path) as url:
        assert seen(url, FORGED) == {"client": "127.0.0.1", "scheme": "http"}


def test_a_named_proxy_is_believed_and_what_was_there_before_it_is_not(tmp_path, monkeypatch):
    monkeypatch.setenv("BERTH_TRUSTED_PROXIES", "127.0.0.1, 192.0.2.0/24")
    with served(tmp_path) as url:
        assert seen(url, FORGED) == {"client": "198.51.100.7", "scheme": "https"}
        forged = {"X-Forwarded-For": "203.0.113.9, 198.51.100.7, 192.0.2.5"}
        assert seen(url, forged)["client"] == "198.51.100.7", "the last that no named proxy is"


@pytest.mark.parametrize("named", ["*", "proxy.example", "10.0.0.0/33", "127.0.0.1;10.0.0.1"])
def test_what_is_no_address_is_refused_with_the_remedy(tmp_path, monkeypatch, named):
    monkeypatch.setenv("BERTH_TRUSTED_PROXIES", named)
    with pytest.raises(LaunchError, match="BERTH_TRUSTED_PROXIES"):
        services(Options(data=tmp_path), Layout(tmp_path), environment={}, site=site_of(Options(data=tmp_path), None))
