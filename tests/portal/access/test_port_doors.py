"""The origin of a job's port, with a node that is a few lines here: hostile servers of jobs, and the requests that count as use."""

import asyncio
import time

import pytest
from asgiref.testing import ApplicationCommunicator
from django.utils import timezone

from portal.pages.dashboard.ports import carrying, sockets, visits
from portal.pages.dashboard.terminal import traffic
from portal.people.accounts.models import SignIn
from portal.people.tenants.models import Membership
from portal.work.jobs.models import IdleWatch, Job
from tests.portal.access.test_sockets import _apart, asgi, run, world  # noqa: F401 - fixtures
from tests.portal.access.test_terminal_sockets import agent, frame, running  # noqa: F401
from workers.protocol.frames import Kind, pack, pack_end, unpack_object

PORT = 8888


class Person:
    """A browser of the owner, signed in at the port's origin."""

    def __init__(self, asgi, world, running):  # noqa: F811
        self.application = asgi.application
        visits.RIGHTS._asked.clear()
        job = running.attempt.job
        self.host = f"{job.number}-{PORT}.localhost".encode()
        key = world.clients["owner"].cookies["sessionid"].value
        user = world.users["owner"]
        row, _ = SignIn.objects.get_or_create(session_key=key, defaults={"user": user})
        cookie = visits.cookie_make(visits.Visit(row.pk, job.key, job.number, PORT))
        self.headers = [(b"host", self.host), (b"cookie", f"__Host-berth-port={cookie}".encode())]

    def begin(self, kind="http", *, method="GET", path="/", more=(), mode=b"cors"):
        origin = [(b"origin", b"http://" + self.host)] if kind == "websocket" else []
        fetched = [(b"sec-fetch-site", b"same-origin"), (b"sec-fetch-mode", mode)]
        scope = {
            "type": kind,
            "method": method,
            "path": path,
            "raw_path": path.encode(),
            "query_string": b"",
            "headers": [*self.headers, *origin, *fetched, *more],
            "scheme": "http" if kind == "http" else "ws",
            "subprotocols": [],
            "client": ("127.0.0.1", 1),
            "extensions": {"berth.cut": {"cut": lambda: self.cut(talk)}},
        }
        self.cuts = []
        talk = ApplicationCommunicator(self.application, scope)
        return talk

    def cut(self, talk):
        self.cuts.append(True)
        talk.output_queue.put_nowait({"type": "cut"})

    async def ask(self, node, answer, *, body=b"", **how):
        """Send a request, let the node answer with these bytes, and return (status, headers, body, the request as the server got it)."""
        talk = self.begin(**how)
        await talk.send_input({"type": "http.request", "body": body, "more_body": False})
        got = await served(node, answer)
        start = await talk.receive_output(10)
        said, more = b"", True
        while more and not self.cuts:
            part = await talk.receive_output(10)
            said, more = said + part.get("body", b""), part.get("more_body", False)
        await talk.wait(10)
        return start["status"], dict(start["headers"]), said, got


async def served(node, answer):
    """Be the node and the job's server for one stream: return the request, once `answer` is sent and the stream ended."""
    kind, number, asked = await frame(node)
    assert (kind, unpack_object(asked)["port"]) == (Kind.OPEN, PORT)
    await node.say_bytes(pack(Kind.OPENED, number))
    got = b""
    while b"\r\n\r\n" not in got:
        kind, at, body = await frame(node)
        assert (kind, at) == (Kind.DATA, number)
        got += body
    for at in range(0, len(answer), 8192):
        await node.say_bytes(pack(Kind.DATA, number, answer[at : at + 8192]))
    await node.say_bytes(pack(Kind.CLOSE, number, pack_end("ended", "The job has closed the connection.")))
    return got


@pytest.fixture
def person(asgi, world, running):  # noqa: F811
    return Person(asgi, world, running)


async def node_of(asgi, world, running):  # noqa: F811
    node = agent(asgi, world.bearers[running.node.name])
    assert await node.open() is None
    return node


def test_a_request_is_carried_and_the_job_learns_nothing_of_ours(asgi, world, running, person):  # noqa: F811
    async def talk():
        node = await node_of(asgi, world, running)
        answer = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"
        found = await person.ask(node, answer, path="/lab", more=[(b"x-forwarded-for", b"1.2.3.4")])
        await node.close()
        return found

    status, headers, body, got = run(talk())
    assert (status, body, headers) == (200, b"hello", {})
    assert got.startswith(b"GET /lab HTTP/1.1\r\nhost: localhost:8888\r\n")
    assert b"berth-port" not in got
    assert b"1.2.3.4" not in got


HOSTILE = {
    "nothing": b"",
    "no HTTP": b"SSH-2.0-OpenSSH\r\n\r\n",
    "a head without an end": b"HTTP/1.1 200 OK\r\nX: " + b"x" * 60_000,
    "two lengths": b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxx",
    "a line in a header": b"HTTP/1.1 200 OK\r\nX: a\nSet-Cookie: b\r\n\r\n"[:24] + b"\x00\r\n\r\n",
    "many headers": b"HTTP/1.1 200 OK\r\n" + b"".join(b"X-%d: 1\r\n" % each for each in range(300)) + b"\r\n",
    "only early answers": b"HTTP/1.1 103 Early\r\n\r\n" * 200,
    "early answers without end": b"HTTP/1.1 103 Early\r\n\r\n" * 2500,
    "a status that the web server cannot send": b"HTTP/1.1 999 Odd\r\nContent-Length: 0\r\n\r\n",
    "a control character": b"HTTP/1.1 200 OK\r\nX: a\x01b\r\nContent-Length: 0\r\n\r\n",
    "another protocol": b"HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\nx",
    "a line of spaces": b"HTTP/1.1 200 OK\r\nX:" + b" " * 30_000 + b"\x00\r\n\r\n",
}
PROCESSOR_S = 6.0
"""Many times what reading all of `HOSTILE` takes; a regular expression took twice as long for only the line of spaces."""


def test_an_answer_that_is_none_is_told_in_words(asgi, world, running, person, subtests):  # noqa: F811
    async def talk():
        node = await node_of(asgi, world, running)
        found = {name: await person.ask(node, answer) for name, answer in HOSTILE.items()}
        await node.close()
        return found

    begun = time.process_time()
    answers = run(talk())
    assert time.process_time() - begun < PROCESSOR_S
    for name, (status, _, body, _) in answers.items():
        with subtests.test(name):
            assert status == 502
            assert body.startswith((b"The job", b"The connection"))


def test_an_answer_that_stops_does_not_look_whole(asgi, world, running, person):  # noqa: F811
    async def talk():
        node = await node_of(asgi, world, running)
        found = await person.ask(node, b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")
        await node.close()
        return found

    status, _, body, _ = run(talk())
    assert (status, body, person.cuts) == (200, b"half", [True])


def test_lengths_that_contradict_are_not_passed_on(asgi, world, running, person):  # noqa: F811
    """The web server refuses such a request before; here it would come from a server in front that does not."""

    async def talk():
        node = await node_of(asgi, world, running)
        both = [(b"content-length", b"4"), (b"transfer-encoding", b"chunked")]
        answer = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
        found = await person.ask(
            node, answer, method="POST", more=both, body=b"0\r\n\r\nGET /smuggled HTTP/1.1\r\n\r\n"
        )
        await node.close()
        return found[3]

    got = run(talk())
    assert b"content-length" not in got.lower()
    assert b"transfer-encoding: chunked" in got


def test_what_counts_as_use(asgi, world, running, person):  # noqa: F811
    Job.objects.filter(pk=running.attempt.job_id).update(idle_timeout_s=3600)
    watch = IdleWatch.objects.create(attempt=running.attempt, frame=0, used_at=timezone.now())
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"

    async def uses(node, **how):
        carrying._used_at.clear()
        before = (await IdleWatch.objects.aget(pk=watch.pk)).uses
        await person.ask(node, answer, **how)
        return (await IdleWatch.objects.aget(pk=watch.pk)).uses - before

    async def talk():
        node = await node_of(asgi, world, running)
        found = [
            await uses(node),
            await uses(node, mode=b"navigate"),
            await uses(node, mode=b"navigate", more=[(b"sec-fetch-user", b"?1")]),
            await uses(node, method="POST"),
            await uses(node, method="HEAD"),
        ]
        await node.close()
        return found

    assert run(talk()) == [0, 0, 1, 1, 0]


def test_a_right_that_ends_cuts_what_is_under_way(asgi, world, running, person, monkeypatch):  # noqa: F811
    monkeypatch.setattr(visits, "FRESH_S", 0.2)

    async def talk():
        node = await node_of(asgi, world, running)
        request = person.begin()
        await request.send_input({"type": "http.request", "body": b"", "more_body": False})
        _, number, _ = await frame(node)
        await node.say_bytes(pack(Kind.OPENED, number))
        await node.say_bytes(pack(Kind.DATA, number, b"HTTP/1.1 200 OK\r\n\r\nfirst"))
        first = [await request.receive_output(10), await request.receive_output(10)]
        await Membership.objects.filter(user=world.users["owner"]).aupdate(role=Membership.Role.VIEWER)
        await request.wait(20)
        cuts, again = person.cuts, person.begin()
        await again.send_input({"type": "http.request", "body": b"", "more_body": False})
        refused = await again.receive_output(10)
        await again.wait(10)
        await node.close()
        return first[1]["body"], cuts, refused["status"]

    assert run(talk()) == (b"first", [True], 403)


def test_connections_beyond_the_most_are_refused_in_words(asgi, world, running, person, monkeypatch):  # noqa: F811
    monkeypatch.setattr(traffic, "OF_PERSON", 0)

    async def talk():
        request = person.begin()
        await request.send_input({"type": "http.request", "body": b"", "more_body": False})
        start, body = await request.receive_output(10), await request.receive_output(10)
        await request.wait(10)
        return start["status"], body["body"]

    status, body = run(talk())
    assert (status, b"which is the most" in body) == (429, True)


def test_traffic_waits_at_its_rate_and_a_small_piece_is_no_gift(monkeypatch):
    monkeypatch.setenv("BERTH_JOBS_MIB_S", "1")

    async def took(sizes):
        made, loop = traffic.Traffic(), asyncio.get_running_loop()
        begun = loop.time()
        for size in sizes:
            assert made.take(1, 1) is None
            await made.move(1, size)
            made.give(1, 1)  # the debt outlives the connection
        return loop.time() - begun

    assert 0.2 < run(took([2**18] * 6)) < 3.0
    assert 0.2 < run(took([1] * 168)) < 3.0


def test_of_one_tenant_one_piece_is_read_at_a_time_and_others_do_not_wait_for_it():
    made, order = traffic.Traffic(), []

    async def read(tenant_id, name):
        async with made.turn(tenant_id):
            order.append(name)
            made.count(tenant_id, 2**40)

    async def both():
        waiting = [asyncio.ensure_future(read(1, each)) for each in range(3)]
        await read(2, "other")
        for _ in range(20):
            await asyncio.sleep(0)
        for each in waiting:
            each.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)

    run(both())
    assert set(order) == {0, "other"}


def test_messages_that_never_end_are_bounded_for_a_tenant():
    made = traffic.Traffic()
    assert made.hold(1, traffic.HELD_BYTES)
    assert not made.hold(1, 1)
    assert made.hold(2, 1)
    assert made.hold(1, -1 - traffic.HELD_BYTES)


def test_a_server_that_opens_no_socket_or_breaks_its_rules(asgi, world, running, person):  # noqa: F811
    async def refused(node, answer):
        talk = person.begin("websocket", path="/socket")
        await talk.send_input({"type": "websocket.connect"})
        await served(node, answer)
        start, body = await talk.receive_output(10), await talk.receive_output(10)
        await talk.wait(10)
        return start["status"], body["body"]

    async def talk():
        node = await node_of(asgi, world, running)
        found = [
            await refused(node, b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n"),
            await refused(node, b"HTTP/1.1 101 Switching\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n"),
            await refused(node, b"x" * 20_000 + b"\r\n\r\n"),
            await refused(node, b""),
        ]
        await node.close()
        return found

    (first, second, third, fourth) = run(talk())
    assert (first[0], b"it answered 403" in first[1]) == (502, True)
    assert (second[0], third[0], fourth[0]) == (502, 502, 502)
    assert b"no right answer" in second[1]


def test_another_jobs_page_opens_no_socket(asgi, world, running, person):  # noqa: F811
    async def tried(headers):
        person.headers, kept = [*person.headers, *headers], person.headers
        scope = person.begin("websocket").scope
        person.headers = kept
        scope["headers"] = [each for each in scope["headers"] if each != (b"origin", b"http://" + person.host)]
        talk = ApplicationCommunicator(asgi.application, scope)
        await talk.send_input({"type": "websocket.connect"})
        answer = await talk.receive_output(10)
        await talk.receive_output(10)
        await talk.wait(10)
        return answer["status"]

    async def talk():
        return [
            await tried(headers) for headers in ([], [(b"origin", b"http://42-80.localhost")], [(b"origin", b"null")])
        ]

    assert run(talk()) == [403, 403, 403]


def test_slices_are_small():
    assert [len(each) for each in sockets._slices(b"x" * (2 * sockets.SLICE + 1))] == [sockets.SLICE, sockets.SLICE, 1]
