"""Settings: where each comes from, and what is said when one is wrong."""

from __future__ import annotations

import ssl

import pytest

from tests.workers.settings import settings_from
from workers.agent.enrol import trust_for
from workers.agent.inventory import VirtualNode, virtual_parse
from workers.agent.settings import SettingError

NEEDED = ["--url", "http://127.0.0.1:8000/", "--dir", "somewhere"]


def test_command_line_goes_before_environment_before_default():
    environment = {"BERTH_AGENT_NAME": "from-environment", "BERTH_AGENT_LOG_PERIOD_S": "3", "BERTH_TRUST_TENANTS": "1"}
    read = settings_from([*NEEDED, "--name", "from-flag"], environment)
    assert (read.name, read.log_period_s, read.trust_tenants, read.retry_max_s) == ("from-flag", 3.0, True, 10.0)
    assert read.url == "http://127.0.0.1:8000"
    assert read.storage_dir == read.dir / "storage"
    assert settings_from(NEEDED, {"BERTH_TRUST_TENANTS": "0"}).trust_tenants is False


def test_jobs_of_a_virtual_node_are_nice():
    assert settings_from(NEEDED, {}).nice == 0
    assert settings_from([*NEEDED, "--virtual", "cores=1,memory-mib=1"], {}).nice == 19


def test_a_wrong_setting_is_named(subtests):
    for flags, said in [
        (["--dir", "x"], "--url is needed"),
        (["--url", "http://127.0.0.1"], "--dir is needed"),
        ([*NEEDED, "--log-period-s", "61"], "--log-period-s: 61.0 is outside 0.1 to 60 s"),
        ([*NEEDED, "--isolation", "some"], "--isolation: 'some' is not one of auto, off"),
        ([*NEEDED, "--jobs-network", "8.8.0.0/16"], "'8.8.0.0/16' is not a private range of IPv4 addresses"),
        ([*NEEDED, "--nice", "much"], "--nice: 'much' is not a whole number"),
        ([*NEEDED, "--nice", "-1"], "--nice: -1 is outside 0 to 19"),
        ([*NEEDED, "--retry-max-s", "nan"], "--retry-max-s: nan is not a finite number"),
    ]:
        with subtests.test(flags=flags, said=said):
            with pytest.raises(SettingError) as raised:
                settings_from(flags, {})
            assert said in str(raised.value)


@pytest.mark.parametrize("flag", ["--url", "--environments-index"])
@pytest.mark.parametrize(
    "url",
    ["https://ann:hunter2@a.example/x", "https://hunter2@a.example", "https:hunter2@a", "https://a.example/?t=hunter2"],
)
def test_a_login_in_a_url_is_refused_and_never_repeated(flag, url):
    """All that see the node's log, its processes or a build's log would read it."""
    name = f"BERTH_AGENT_{flag.strip('-').replace('-', '_').upper()}"
    for flags, environment in (
        ([*NEEDED, flag, url], {}),
        ([*NEEDED[2:], "--name", "n"], {"BERTH_AGENT_URL": "http://a", name: url}),
    ):
        with pytest.raises(SettingError, match=flag) as raised:
            settings_from(flags, environment)
        assert "hunter2" not in str(raised.value)
        assert "a name, a password or a token" in str(raised.value)
    assert settings_from([*NEEDED, "--environments-index", "http://10.1.2.3:8080/simple"], {}).environments_index


def test_virtual_node_is_read_with_quotes():
    text = "gpus=8,type='A100 80 GB',gpu-memory-mib=81920,cores=64,memory-mib=524288"
    assert virtual_parse(text) == VirtualNode(8, "A100 80 GB", 81920, 64, 524288)
    several = virtual_parse("gpus=4+2,type='A 1'+T4,gpu-memory-mib=80+16,cores=4,memory-mib=100")
    assert several.kinds == [(4, "A 1", 80), (2, "T4", 16)]
    assert virtual_parse("cores=4,memory-mib=100") == VirtualNode(0, None, 0, 4, 100)
    assert virtual_parse("cores=4,memory-mib=100,core-percent=4").core_percent == 4


def test_a_wrong_virtual_node_is_named(subtests):
    for text, said in [
        ("gpus=8,cores=4,memory-mib=1", "type must name the GPUs"),
        ("gpus=-1,type=T,cores=4,memory-mib=1", "gpus must be a whole number"),
        ("gpus=1,type=T,cores=4,memory-mib=1", "gpu-memory-mib must be"),
        ("cores=0,memory-mib=1", "cores must be a whole number of at least 1"),
        ("cores=1", "memory-mib must be"),
        ("cores=1,memory-mib=1,core-percent=0", "core-percent must be a whole number of at least 1"),
        ("cores=1,memory-mib=1,core-percent=101", "core-percent must be at most 100"),
        ("cores=1,memory-mib=1,colour=red", "unknown 'colour'"),
        ("type='A", "--virtual: "),
        ("gpus=1+2,type=A,gpu-memory-mib=1+1,cores=1,memory-mib=1", "as lists of equal length"),
        ("gpus=1+0,type=A+B,gpu-memory-mib=1+1,cores=1,memory-mib=1", "as lists of equal length"),
    ]:
        with subtests.test(text=text, said=said):
            with pytest.raises(SettingError) as raised:
                virtual_parse(text)
            assert said in str(raised.value)


def trusts_nobody(verify):
    """Whether what uses it asks each TLS server for a certificate, and takes none."""
    return verify.verify_mode is ssl.CERT_REQUIRED and verify.check_hostname and verify.get_ca_certs() == []


@pytest.mark.parametrize("url", ["http://localhost:8000", "http://127.0.0.1", "http://[::1]:8000"])
def test_plain_http_is_for_loopback(url, tmp_path):
    assert trusts_nobody(trust_for(url, ca_sha256=None, insecure=False, directory=tmp_path))


def test_plain_http_elsewhere_needs_a_word(tmp_path):
    with pytest.raises(SettingError, match="--insecure"):
        trust_for("http://portal.example:8000", ca_sha256=None, insecure=False, directory=tmp_path)
    verify = trust_for("http://portal.example:8000", ca_sha256=None, insecure=True, directory=tmp_path)
    assert trusts_nobody(verify), "a word for plain http is none for TLS that proves nothing"


def test_a_pin_that_is_none_is_refused(tmp_path):
    with pytest.raises(SettingError, match="64 hexadecimal digits"):
        trust_for("https://portal.example", ca_sha256="abc", insecure=False, directory=tmp_path)


@pytest.mark.parametrize("url", ["ftp://x", "portal:8000", "http://", "https:///x"])
def test_an_address_that_is_none_is_refused(url, tmp_path):
    with pytest.raises(SettingError, match="--url"):
        trust_for(url, ca_sha256=None, insecure=True, directory=tmp_path)
