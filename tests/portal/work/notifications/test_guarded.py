"""A tenant's webhook reaches no address inside, whatever its name resolves to, and nothing of the answer comes back."""

import ipaddress
import socket
import threading

import httpcore2
import pytest

from portal.foundation.errors import BerthError
from portal.work.notifications import guarded
from portal.work.notifications.guarded import Refused, address_allowed, call, url_check
from tests.portal.work.notifications.receivers import http_server

INSIDE = """
    127.0.0.1 127.1.2.3 0.0.0.0 10.1.2.3 172.16.0.1 192.168.1.1 169.254.169.254 100.64.0.1 192.0.2.1 224.0.0.1
    255.255.255.255 240.0.0.1 ::1 :: fe80::1 fe80::1%eth0 fc00::1 fd00:ec2::254 ff02::1 ::ffff:127.0.0.1
    ::ffff:10.0.0.1 64:ff9b::7f00:1 64:ff9b::a9fe:a9fe 2002:7f00:1:: 2001:db8::1
    fec0::1 fec0::1%eth0 feff:ffff::1 64:ff9b:1::7f00:1 ::7f00:1 2001:0:808:808::80ff:fffe
""".split()


def test_addresses_inside_are_refused(subtests):
    for address in INSIDE:
        with subtests.test(address=address):
            assert not address_allowed(address, [])


@pytest.mark.parametrize("address", ["8.8.8.8", "2606:4700::1111", "::ffff:8.8.8.8"])
def test_public_ones_are_not(address):
    assert address_allowed(address, [])


def test_an_operator_may_allow_a_network():
    allowed = [ipaddress.ip_network("10.4.0.0/16")]
    assert address_allowed("10.4.7.7", allowed)
    assert not address_allowed("10.5.7.7", allowed)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "2130706433", "0x7f.1", "127.1", "0177.0.0.1"])
def test_what_resolves_to_loopback_is_not_called(host):
    with http_server() as calls:
        port = calls.url.rpartition(":")[2]
        with pytest.raises((Refused, httpcore2.ConnectError)):
            call(f"http://{host}:{port}", body=b"{}", headers={})
        assert calls.taken == []


def test_a_name_with_one_address_inside_is_refused(monkeypatch):
    both = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, 80)) for address in ("8.8.8.8", "127.0.0.1")]
    monkeypatch.setattr(guarded.socket, "getaddrinfo", lambda *a, **k: both)
    with pytest.raises(Refused):
        call("http://both.example/", body=b"{}", headers={})


def test_a_resolver_that_hangs_holds_no_call_beyond_its_limit(monkeypatch):
    over = threading.Event()

    def hanging(*_, **__):
        over.wait(60)
        raise OSError("not known")

    monkeypatch.setattr(guarded.socket, "getaddrinfo", hanging)
    monkeypatch.setattr(guarded, "LIMIT_S", 0.2)
    monkeypatch.setattr(guarded, "_resolving", threading.BoundedSemaphore(2))
    try:
        for _ in range(4):
            with pytest.raises(httpcore2.ReadTimeout):
                call("http://hangs.example/", body=b"{}", headers={})
        assert sum(each.name == "resolve" for each in threading.enumerate()) <= 2, "those that hang are bounded"
    finally:
        over.set()


def test_a_name_that_cannot_be_spelled_is_not_known():
    with pytest.raises(httpcore2.ConnectError):
        call(f"http://{'a' * 70}.example/", body=b"{}", headers={})


def test_without_the_look_loopback_would_be_called(monkeypatch):
    monkeypatch.setattr(guarded, "address_allowed", lambda *_: True)
    with http_server() as calls:
        assert call(calls.url, body=b"{}", headers={}) == 200
        assert len(calls.taken) == 1


def test_a_head_without_end_is_not_read_on(monkeypatch):
    monkeypatch.setenv("BERTH_WEBHOOK_NETWORKS", "127.0.0.1/32")
    with http_server() as calls:
        calls.headers = {f"X-{n}": "y" * 60000 for n in range(4)}
        with pytest.raises((httpcore2.NetworkError, httpcore2.RemoteProtocolError)):
            call(calls.url, body=b"{}", headers={})


WRONG_URLS = [
    "",
    "x",
    "ftp://a.example/",
    "file:///etc/passwd",
    "http://",
    "http://a b/",
    "http://user:pw@a.example/",
    "http://a.example/#x",
    "http://a.example/\r\nX: y",
    "http://a.example:99999/",
    "http://" + "a" * 600,
    "http://[::1",
    "http://127.0.0.1/",
    "http://[::ffff:10.0.0.1]/",
    "http://169.254.169.254/latest/meta-data",
    "http://ä.example/",
]


def test_a_wrong_url_is_refused_at_once(subtests):
    for url in WRONG_URLS:
        with subtests.test(url=url):
            with pytest.raises(BerthError) as refused:
                url_check(url)
            assert refused.value.field == "url"


def test_a_right_one_is_taken():
    assert url_check(" https://hooks.example/berth?x=1 ") == "https://hooks.example/berth?x=1"
