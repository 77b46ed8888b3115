"""Which portal is asked, with which token, and the file that `login` writes."""

import io
import stat
from concurrent.futures import ThreadPoolExecutor

import pytest

from berth_client import Berth, ClientError, settings
from berth_client.cli import main
from berth_client.settings import Chosen, login_write
from berth_client.ssh import Keys
from tests.client.conftest import URL, secret_of


@pytest.fixture
def typed(monkeypatch):
    """Set the text of standard input."""
    return lambda text: monkeypatch.setattr("sys.stdin", io.StringIO(text))


@pytest.mark.django_db
def test_login_checks_the_token_and_writes_it_for_its_owner_alone(world, transport, typed, capsys, monkeypatch):
    monkeypatch.setattr("berth_client.transport.UrllibTransport", lambda **_: transport)
    secret = secret_of(world.owner)
    typed(secret + "\n")
    assert main(["login", URL + "/"]) == 0
    told = capsys.readouterr()
    assert told.out == f"lena (vision-lab) on {URL}; written to {settings.file_path()}\n"
    assert "unencrypted" in told.err
    assert secret not in told.out + told.err
    assert stat.S_IMODE(settings.file_path().stat().st_mode) == 0o600
    assert stat.S_IMODE(settings.file_path().parent.stat().st_mode) == 0o700
    assert settings.chosen() == Chosen(URL, secret)
    assert main(["usage", "-o", "name"]) == 0


@pytest.mark.django_db
def test_a_token_that_is_refused_is_not_written_down(world, transport, typed, capsys, monkeypatch):
    monkeypatch.setattr("berth_client.transport.UrllibTransport", lambda **_: transport)
    for text, complaint in (
        ("berth_no\n", "unknown or was revoked"),
        ("\n", "No token was given"),
        ("tö\n", "no such char"),
    ):
        typed(text)
        assert main(["login", URL]) == 2
        assert complaint in capsys.readouterr().err
    assert not settings.file_path().exists()


def test_logins_by_name(monkeypatch):
    login_write("default", Chosen("https://one", "t1"))
    login_write("two", Chosen("https://two", "t%2", "/ca.pem"))
    assert settings.chosen() == Chosen("https://one", "t1")
    assert settings.chosen("two") == Chosen("https://two", "t%2", "/ca.pem")
    monkeypatch.setenv("BERTH_PORTAL", "two")
    assert settings.chosen().url == "https://two"
    with pytest.raises(ClientError, match="has no login 'three'; it has: default, two"):
        settings.chosen("three")


@pytest.mark.parametrize(
    "name",
    [
        "DEFAULT",
        "",
        " ",
        " a",
        "a\nb",
        "a]b",
        "]",
        "[a",
        "#a",
        ";a",
        "a=b",
        "é 训",
        "\udcff",
        "a\x00",
        "a\x85b",
        "a\u2028b",
    ],
)
def test_a_login_is_read_under_the_name_that_it_was_written_under_or_refused(name):
    """`DEFAULT` was no login: its file of certificates counted for all others."""
    other, own = Chosen("https://b.example", "two"), Chosen("https://a.example", "one", "/ca.pem")
    login_write("other", other)
    try:
        login_write(name, own)
    except ClientError as error:
        assert "--name" in str(error)
    else:
        assert settings.chosen(name) == own
    assert settings.chosen("other") == other


def test_the_environment_comes_first_and_a_token_goes_only_where_it_belongs(monkeypatch):
    login_write("default", Chosen("https://one", "t1"))
    monkeypatch.setenv("BERTH_URL", "https://one/")
    assert settings.chosen() == Chosen("https://one", "t1")
    monkeypatch.setenv("BERTH_URL", "https://elsewhere")
    with pytest.raises(ClientError, match="set BERTH_TOKEN"):
        settings.chosen()
    monkeypatch.setenv("BERTH_TOKEN", "t9")
    assert settings.chosen() == Chosen("https://elsewhere", "t9")
    assert settings.chosen("default") == Chosen("https://one", "t1")
    monkeypatch.delenv("BERTH_URL")
    assert settings.chosen() == Chosen("https://one", "t9")


def test_without_anything_it_says_what_it_needs(capsys):
    assert main(["ps"]) == 2
    assert "set BERTH_URL and BERTH_TOKEN: " in capsys.readouterr().err
    with pytest.raises(ClientError, match="begins with http:// or https://"):
        Berth("portal.example", "t")


def test_a_file_that_others_may_read_is_refused():
    login_write("default", Chosen("https://one", "t1"))
    settings.file_path().chmod(0o640)
    with pytest.raises(ClientError, match="others may read it; run `chmod 600"):
        settings.chosen()


@pytest.mark.parametrize("text", ["no section", "[default]\nurl=x", "[default\nurl=x", "[a]\n[a]\n"])
def test_a_damaged_file_is_named(text):
    path = settings.file_path()
    path.parent.mkdir()
    path.write_text(text)
    path.chmod(0o600)
    with pytest.raises(ClientError, match=r"config\.ini"):
        settings.chosen()


def test_hosts_of_connections_that_begin_at_once_are_all_known(tmp_path):
    hosts = [f"berth-{number}" for number in range(24)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda host: Keys(tmp_path).host_add(host, "ssh-ed25519 key"), hosts))
    assert sorted(line.split()[0] for line in Keys(tmp_path).hosts.read_text().splitlines()) == sorted(hosts)
