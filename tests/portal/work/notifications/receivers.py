"""Real receivers of what Berth sends: a mail server and an HTTP server, on loopback."""

import contextlib
import json
import threading
from email import message_from_bytes, policy
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from aiosmtpd.controller import Controller


class Mails:
    """What a mail server took. `refuse`: an SMTP answer for all."""

    def __init__(self):
        self.taken, self.refuse = [], None

    async def handle_DATA(self, server, session, envelope):  # noqa: N802 - aiosmtpd calls it so
        if self.refuse:
            return self.refuse
        self.taken.append((envelope.rcpt_tos, message_from_bytes(envelope.content, policy=policy.default)))
        return "250 OK"


class OnFreePort(Controller):
    """On a port that the system chose: aiosmtpd asks it for a first word at the port it was given."""

    def _trigger_server(self):
        self.port = self.server.sockets[0].getsockname()[1]
        super()._trigger_server()


@contextlib.contextmanager
def mail_server():
    mails = Mails()
    controller = OnFreePort(mails, hostname="127.0.0.1", port=0)
    controller.start()
    mails.port = controller.port
    try:
        yield mails
    finally:
        controller.stop()


class Calls:
    def __init__(self):
        self.taken, self.status, self.headers, self.trickle = [], 200, {}, threading.Event()

    def bodies(self):
        return [json.loads(body) for _, _, body in self.taken]


@contextlib.contextmanager
def http_server(*, slow=False):
    """An HTTP server that keeps what it is sent. `slow`: it answers a byte now and then, and never ends its head."""
    calls = Calls()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            calls.taken.append((self.path, dict(self.headers), body))
            if slow:
                with contextlib.suppress(OSError):
                    self.wfile.write(b"HTTP/1.1 200 OK\r\n")
                    while not calls.trickle.wait(0.2):
                        self.wfile.write(b"x")
                        self.wfile.flush()
                return
            self.send_response(calls.status)
            for name, value in calls.headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(b"what the receiver says")

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    calls.url = f"http://127.0.0.1:{server.server_address[1]}/hook"
    try:
        yield calls
    finally:
        calls.trickle.set()
        server.shutdown()
        server.server_close()
