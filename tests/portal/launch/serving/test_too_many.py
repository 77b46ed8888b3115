"""A caller that opens connections and finishes nothing keeps nobody out: real servers, thousands of sockets."""

import contextlib
import resource
import signal
import stat
import time

import pytest

from portal.foundation.layout import Layout
from portal.launch import health
from portal.launch.tls import certificate_ensure
from tests.portal.launch.serving.standing import GET, KEY, POST, UPGRADE, dropped, everything, is_closed, serving, until

pytestmark = pytest.mark.impure  # processes of their own

FLOOD = 3_000


@pytest.fixture
def many_files():
    """Room for a flood in this process; skipped where the account has none."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if 0 <= hard < FLOOD + 500:
        pytest.skip(f"needs {FLOOD + 500} open files; the hard limit is {hard}")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, FLOOD + 500), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def flooded(server, sent, *, plain=False):
    """Open this number, ask again and again meanwhile; return when only those remain that one address may have."""
    with contextlib.ExitStack() as opened:
        held = []
        for number in range(FLOOD):
            held.append(opened.enter_context(server.connect(sent, plain=plain)))
            if number % 100 == 0:
                assert server.get("/") == b"0 from 127.0.0.1"
        until(lambda: sum(map(is_closed, held)) >= FLOOD - 500)
        assert server.get("/") == b"0 from 127.0.0.1"


KINDS = {"nothing": b"", "heads": b"GET / HTTP/1.1\r\nX: ", "bodies": POST % (b"/", 10), "handshakes": UPGRADE}


@pytest.mark.parametrize("kind", KINDS)
def test_three_thousand_unfinished_requests_keep_nobody_out(many_files, kind):
    with serving() as server:
        flooded(server, KINDS[kind])


LONG = b"\x82\xff" + (1 << 20).to_bytes(8, "big") + b"\0" * 4
"""The head of a frame of a MiB, which masks nothing."""


def test_messages_without_end_are_bounded_and_others_go_on():
    with serving(limits={"parts_bytes": 200_000}) as server, contextlib.ExitStack() as opened:
        first, second, third = (opened.enter_context(upgraded(server)) for _ in range(3))
        first.sendall(LONG + b"x" * 150_000)
        second.sendall(LONG)
        assert server.get("/sent") == b"0"  # it has read the others meanwhile
        dropped(second, b"x" * 10_000)
        third.sendall(b"\x81\x81\0\0\0\0" + b"0")
        assert third.recv(1000) == b"\x81\x010"


def upgraded(server):
    plug = server.connect(UPGRADE + KEY)
    assert plug.recv(1000).startswith(b"HTTP/1.1 101")
    return plug


def test_a_message_counts_as_sent_when_it_is_read():
    with serving() as server, upgraded(server) as plug:
        plug.sendall(b"\x81\x84\0\0\0\0lump")
        assert plug.recv(1000)
        assert server.get("/sent") == b"0"
        left = (1 << 23) - 1000
        while left > 0:
            left -= len(plug.recv(1 << 20))
        until(lambda: server.get("/sent") == b"1")


@pytest.mark.parametrize("loop", ["uvloop", "asyncio"])
def test_three_thousand_silent_handshakes_keep_nobody_out(many_files, tmp_path, loop):
    tls = certificate_ensure(Layout(tmp_path), "127.0.0.1")
    with serving(loop=loop, certificate=str(tls.certificate), key=str(tls.key)) as server:
        flooded(server, b"", plain=True)


def test_the_oldest_go_when_there_is_room_for_no_more():
    with serving(limits={"stand_s": 600}, most=40) as server, contextlib.ExitStack() as opened:
        held = [opened.enter_context(server.connect(b"GET /")) for _ in range(30)]
        assert server.get("/") == b"0 from 127.0.0.1"
        until(lambda: sum(map(is_closed, held)) == 11)
        assert [is_closed(one) for one in held] == [True] * 11 + [False] * 19


def test_who_has_a_whole_request_stays_and_the_supervisor_gets_in_nevertheless(tmp_path):
    private = tmp_path / "portal.sock"
    with serving(most=8, private=str(private)) as server, contextlib.ExitStack() as opened:
        held = [opened.enter_context(server.connect(GET % b"/wait?600")) for _ in range(4)]
        with server.connect() as refused:
            assert everything(refused) == b""
        health.life_ask(None, None, private, 20)
        assert stat.S_IMODE(private.stat().st_mode) == 0o600
        assert not any(map(is_closed, held))
    assert not private.exists(), "a directory of data is copied: a socket cannot be"


def test_what_came_while_the_server_itself_stood_still_is_read_first():
    """Two connections of three may stay, and the server stops for longer than anybody may stand."""
    with serving(limits={"stand_s": 2, "look_s": 0.5, "heads": [2, 1000]}) as server, contextlib.ExitStack() as opened:
        assert server.get("/") == b"0 from 127.0.0.1"
        server.process.send_signal(signal.SIGSTOP)
        held = [opened.enter_context(server.connect(GET % b"/")) for _ in range(3)]
        time.sleep(2.5)
        server.process.send_signal(signal.SIGCONT)
        assert all(b"200" in one.recv(1000) for one in held)


def test_callers_behind_a_trusted_proxy_count_each_for_themselves():
    limits = {"stand_s": 600, "look_s": 0.1, "heads": [3, 1000], "bodies": [3, 1000]}
    with serving(limits=limits, proxies="127.0.0.1") as server, contextlib.ExitStack() as opened:

        def opens(count, sent):
            return [opened.enter_context(server.connect(sent)) for _ in range(count)]

        heads = opens(10, b"GET / HTTP/1.1\r\nHo")
        half = (POST % (b"/", 10)).replace(b"\r\n\r\n", b"\r\nX-Forwarded-For: 192.0.2.%d\r\n\r\n")
        bodies, others = opens(10, half % 1), opens(3, half % 2)
        until(lambda: sum(map(is_closed, bodies)) == 7)
        assert not any(map(is_closed, heads + others + bodies[7:]))


def test_requests_in_a_row_are_answered_in_their_order():
    with (
        serving() as server,
        server.connect((GET % b"/wait?0.3") + POST % (b"/", 3) + b"abc" + GET % b"/lump?0") as plug,
    ):
        found = b""
        while found.count(b"\r\n0\r\n\r\n") < 3:
            found += plug.recv(10_000)
    assert found.index(b"0 from") < found.index(b"3 from")


@pytest.mark.parametrize(
    "sent",
    [GET % b"/wait?600" + GET % b"/" * 2_000, b"GET / HTTP/1.1\r\nX: " + b"x" * 2_000_000],
    ids=["requests", "head"],
)
def test_neither_requests_in_a_row_nor_a_head_are_endless(sent):
    with serving() as server:
        with contextlib.suppress(ConnectionError), server.connect(sent) as plug:
            assert b" 200 " not in everything(plug)
        server.until_held(0)


def test_the_server_may_open_as_many_files_as_its_account():
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with serving(soft=300) as server:
        assert resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE) == (hard, hard)
