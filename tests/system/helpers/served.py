"""A job's server in tests: `python served.py PORT`. It notes each request, so that a test sees those that reached it.

`/seen` tells the requests so far, `/cookies` sets some, `/slow` sends a line each tenth of a second, `/big?N` N bytes, and
`/socket` is a WebSocket that repeats what it hears, and closes with 4321 when it hears `close`.
"""

import base64
import contextlib
import hashlib
import http.server
import json
import sys
import time

from websockets.frames import Opcode
from websockets.protocol import SERVER, Protocol

COOKIES = ("own=1; Path=/", "wide=1; Domain=localhost; Path=/", "__Host-berth-port=forged; Path=/; Secure")
OUTLIVES = {"Strict-Transport-Security": "max-age=60", "Clear-Site-Data": '"cookies"', "Alt-Svc": 'h2="evil:443"'}
seen = []


class Served(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        path, _, query = self.path.partition("?")
        if self.headers.get("Upgrade") == "websocket":
            with contextlib.suppress(OSError):
                self.repeat()
        elif path == "/seen":
            self.answer(json.dumps(seen).encode())
        elif path == "/slow":
            self.slowly()
        elif path == "/big":
            self.note()
            self.answer(b"x" * int(query))
        elif path == "/there":
            self.answer(b"", 302, Location=f"http://localhost:{sys.argv[1]}/seen")
        else:
            self.note()
            self.answer(b"<h1>served by the job</h1>", cookies=COOKIES if path == "/cookies" else ())

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.note()
        self.answer(str(len(body)).encode())

    def note(self):
        seen.append({"method": self.command, "path": self.path, "headers": dict(self.headers.items())})

    def answer(self, body, status=200, *, cookies=(), **headers):
        self.send_response(status)
        for name, value in {"Content-Type": "text/html", **headers, **(OUTLIVES if cookies else {})}.items():
            self.send_header(name, value)
        for cookie in cookies:
            self.send_header("Set-Cookie", cookie)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def slowly(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        self.close_connection = True
        for count in range(1000):
            self.wfile.write(f"data: {count}\n\n".encode())
            self.wfile.flush()
            time.sleep(0.1)

    def repeat(self):
        """Be a WebSocket; the library speaks it from the handshake on."""
        self.note()
        self.close_connection = True
        key = hashlib.sha1(f"{self.headers['Sec-WebSocket-Key']}258EAFA5-E914-47DA-95CA-C5AB0DC85B11".encode()).digest()
        self.send_response(101)
        asked = [each.strip() for each in self.headers.get("Sec-WebSocket-Protocol", "").split(",")]
        own = {"Sec-WebSocket-Protocol": "second"} if "second" in asked else {}
        answer = {
            "Upgrade": "websocket",
            "Connection": "Upgrade",
            "Sec-WebSocket-Accept": base64.b64encode(key).decode(),
        }
        for name, value in {**answer, **own}.items():
            self.send_header(name, value)
        self.end_headers()
        talk = Protocol(SERVER, max_size=2**24)
        while data := self.connection.recv(65_536):
            talk.receive_data(data)
            for event in talk.events_received():
                if bytes(event.data) == b"close":
                    talk.send_close(4321, "as asked")
                elif event.opcode in {Opcode.TEXT, Opcode.BINARY}:
                    talk.send_text(event.data) if event.opcode is Opcode.TEXT else talk.send_binary(event.data)
            self.connection.sendall(b"".join(talk.data_to_send()))

    def log_message(self, *_):
        pass


class Server(http.server.ThreadingHTTPServer):
    request_queue_size = 64


if __name__ == "__main__":
    Server(("127.0.0.1", int(sys.argv[1])), Served).serve_forever()
