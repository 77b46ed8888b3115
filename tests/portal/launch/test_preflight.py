"""Each thing that can be wrong before the start is one sentence with its remedy."""

import socket
from pathlib import Path

import pytest

from portal.foundation.errors import LaunchError
from portal.foundation.layout import Layout
from portal.launch import __main__ as launch
from portal.launch import preflight
from portal.launch.broker import free_port


@pytest.mark.parametrize("version", [(3, 11), (3, 12), (3, 13), (3, 14)])
def test_pythons_that_do(version):
    preflight.check_python(version)


@pytest.mark.parametrize("version", [(3, 10), (3, 15), (2, 7)])
def test_pythons_that_do_not(version):
    with pytest.raises(LaunchError, match=rf"Python {version[0]}\.{version[1]}.*apt install"):
        preflight.check_python(version)


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("BERTH_LEASE_S", "1", "BERTH_LEASE_S: 1 is outside 5 to 86400 s."),
        ("BERTH_LEASE_S", "soon", "BERTH_LEASE_S: 'soon' is not a whole number."),
        ("BERTH_LEASE_S", "9" * 400, r"BERTH_LEASE_S: 9+\.\.\.9+ is outside 5 to 86400 s\."),
        ("BERTH_LEASE_S", "9" * 5000, r"BERTH_LEASE_S: '9+\.\.\.9+' is not a whole number\."),
        ("BERTH_DEMO_UNTIL", "9" * 400, "BERTH_DEMO_UNTIL: .* is outside 0 to"),
        ("DATABASE_URL", "foo://me:pass@word", r"DATABASE_URL is not an address of a database that Berth knows\."),
        ("DATABASE_URL", "postgres://[", r"DATABASE_URL is not an address of a database that Berth knows\."),
        ("DATABASE_URL", "mysql://h/x", r"DATABASE_URL is not an address of a database that Berth knows\."),
        ("REDIS_URL", "redis://:pass@[", "REDIS_URL is not an address of a server that Berth knows"),
        ("REDIS_URL", "unix:///a?db=pass", "REDIS_URL is not an address of a server that Berth knows"),
        ("REDIS_URL", "http://h", "REDIS_URL starts with http://"),
        ("BERTH_HANG_LIMIT_S", "3", "BERTH_HANG_LIMIT_S: 3 is neither 0 nor at least 5 s."),
        ("BERTH_SMTP_TLS", "some", "BERTH_SMTP_TLS: 'some' is not one of starttls, tls, none."),
    ],
)
def test_a_variable_out_of_range_is_named_with_what_it_may_be(monkeypatch, name, value, said):
    preflight.check_variables()
    monkeypatch.setenv(name, value)
    with pytest.raises(LaunchError, match=said) as error:
        preflight.check_variables()
    assert len(str(error.value)) < 300
    assert "pass" not in str(error.value)


def test_manage_says_so_too_before_django_loads(monkeypatch, capsys):
    monkeypatch.setenv("BERTH_SIGN_IN_FAILURES", "0")
    monkeypatch.setattr("os.execve", lambda *_: pytest.fail("manage.py ran"))
    assert launch.main(["manage", "check"]) == 1
    said = capsys.readouterr().err
    assert said.startswith("berth: BERTH_SIGN_IN_FAILURES: 0 is outside 1 to 1000 attempts. Correct")
    assert said.count("\n") == 1


def test_a_taken_port_is_named_with_a_way_out():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(LaunchError, match=rf"Another program uses port {port} on 127\.0\.0\.1.*--port"):
            preflight.check_port("127.0.0.1", port)


def test_a_free_port_passes():
    preflight.check_port("127.0.0.1", free_port())


def test_a_port_that_served_a_moment_ago_passes():
    """Connections in TIME_WAIT must not keep the second `up` from starting."""
    with socket.socket() as server:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        server.bind(("127.0.0.1", 0))
        server.listen()
        address = server.getsockname()
        with socket.create_connection(address):
            connection, _ = server.accept()
            connection.close()
    preflight.check_port(*address)


@pytest.mark.parametrize("port", [0, -1, 65536])
def test_no_port(port):
    with pytest.raises(LaunchError, match="from 1 to 65535"):
        preflight.check_port("127.0.0.1", port)


@pytest.mark.parametrize("host", ["203.0.113.7", "no-such-host.invalid"])
def test_a_host_that_is_not_this_machine(host):
    with pytest.raises(LaunchError, match=host):
        preflight.check_port(host, free_port())


def test_too_little_disk(tmp_path):
    with pytest.raises(LaunchError, match=r"MiB are free.*--data DIR"):
        preflight.check_disk(tmp_path, needed_mib=10**9)
    preflight.check_disk(tmp_path, needed_mib=1)


@pytest.mark.parametrize(
    ("host", "loopback"),
    [
        ("localhost", True),
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("::1", True),
        ("[::1]", True),
        ("0.0.0.0", False),
        ("192.0.2.1", False),
        ("gpu.example", False),
        ("localhost.evil.example", False),
    ],
)
def test_is_loopback(host, loopback):
    assert preflight.is_loopback(host) is loopback


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"tls_cert": Path("/c")}, "go together"),
        ({"insecure": True}, "other machines"),
        ({"host": "0.0.0.0", "insecure": True, "tls_cert": Path("/c"), "tls_key": Path("/k")}, "contradicts"),
        ({"tls_cert": Path("/nonexistent"), "tls_key": Path("/nonexistent")}, "--tls-cert /nonexistent cannot be read"),
    ],
)
def test_flags_that_contradict(changes, words):
    values = {"host": "127.0.0.1", "insecure": False, "tls_cert": None, "tls_key": None}
    with pytest.raises(LaunchError, match=words):
        preflight.check_transport(**(values | changes))


def test_plain_http_off_loopback_with_insecure_passes():
    preflight.check_transport(host="0.0.0.0", insecure=True, tls_cert=None, tls_key=None)


def test_a_data_directory_that_cannot_be(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(LaunchError, match=r"cannot be written.*--data DIR"):
        Layout.at(tmp_path / "file" / "data").prepare()


def test_the_data_directory_is_its_owners_alone(tmp_path):
    layout = Layout.at(tmp_path / "a" / "b")
    layout.prepare()
    assert {path.stat().st_mode & 0o777 for path in (layout.root, layout.run, layout.logs)} == {0o700}


@pytest.mark.parametrize(
    ("url", "installed", "words"),
    [
        ("https://berth", True, "BERTH_S3_URL must be like s3://bucket.*leave it empty"),
        ("s3://berth", False, "needs the package boto3.*pip install"),
    ],
)
def test_a_store_of_artefacts_that_could_not_be_used(monkeypatch, url, installed, words):
    monkeypatch.setenv("BERTH_S3_URL", url)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: installed or None)
    with pytest.raises(LaunchError, match=f"(?s){words}"):
        preflight.check_store()


def test_a_store_of_artefacts_need_not_answer_before_the_start(monkeypatch):
    preflight.check_store()
    monkeypatch.setenv("BERTH_S3_URL", "s3://berth/artefacts")
    monkeypatch.setenv("BERTH_S3_ENDPOINT", "http://127.0.0.1:1")
    preflight.check_store()
