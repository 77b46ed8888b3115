"""What answers in the portal's place, such as a proxy with a page or JSON of its own: the agent takes the portal for away."""

import asyncio
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from workers.portal_client import Portal, PortalAwayError, PortalRefusedError

PART = {"attempt": "a", "epoch": 1, "rank": 0}
CALLS = {
    "register": lambda portal: portal.register({}),
    "hello": lambda portal: portal.hello({}),
    "sync": lambda portal: portal.sync(revision=0, wait_s=0),
    "spec": lambda portal: portal.spec("a"),
    "secrets": lambda portal: portal.secrets("a"),
    "report": lambda portal: portal.report({}),
    "records": lambda portal: portal.records({}),
    "artefacts": lambda portal: portal.artefacts({}),
    "piece": lambda portal: portal.artefact_piece({"size": 0}, b""),
    "logs": lambda portal: portal.logs(PART, stream="stdout", offset=0, data=b""),
    "together": lambda portal: portal.logs_together({}),
}
BODIES = (b"", b"null", b"[]", b"0", b'"ok"', b"<html>", b"\xff", b"[" * 100_000, b"{" * 100_000)
OBJECTS = (
    b"{}",
    b'{"error": null}',
    b'{"error": {"code": "offset_mismatch"}}',
    b'{"error": {"code": "offset_mismatch", "next_offset": "x"}, "next_offset": null}',
    b'{"revision": "1", "attempts": {}, "files": null, "parts": 5, "pieces": "", "next_offset": "x", "name": 3, "leases": 1}',
)


@pytest.fixture
def answered():
    """Call the portal, where `body` is the answer to all; return what was raised, and whether it counted as an answer."""
    told = {"status": 200, "body": b""}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            self.send_response(told["status"])
            self.send_header("Content-Length", str(len(told["body"])))
            self.end_headers()
            self.wfile.write(told["body"])

        do_POST = do_GET  # noqa: N815 - as above

        def log_message(self, *_):
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()

    async def called(name):
        portal, successes = Portal(f"http://127.0.0.1:{server.server_port}", token="t", verify=False), []
        portal.on_success = lambda: successes.append(name)
        try:
            await CALLS[name](portal)
        except (PortalAwayError, PortalRefusedError) as error:
            return type(error), successes
        finally:
            await portal.close()
        return None, successes

    def call(name, body, status=200):
        told.update(status=status, body=body)
        return asyncio.run(called(name))

    yield call
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize("name", CALLS)
def test_an_answer_that_is_not_the_portals_is_none(answered, name):
    bodies = BODIES if name in {"spec", "secrets"} else (*BODIES, *OBJECTS)
    for body in bodies:
        assert answered(name, body) == (PortalAwayError, []), body[:40]


@pytest.mark.parametrize("name", CALLS)
def test_a_refusal_in_odd_words_is_a_refusal(answered, name):
    for body in (*BODIES, *OBJECTS):
        for status in (400, 409):
            assert answered(name, body, status)[0] is PortalRefusedError, (status, body[:40])
