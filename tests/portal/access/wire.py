"""HTTP and WebSocket as an ASGI server speaks them to the portal's application."""

from __future__ import annotations

import json

from asgiref.testing import ApplicationCommunicator

PATIENCE_S = 10


async def http(application, method, path, headers):
    """One request; (status, body)."""
    path, _, query = path.partition("?")
    scope = {
        "type": "http",
        "http_version": "1.1",
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "headers": headers,
        "root_path": "",
        "scheme": "http",
        "server": ("testserver", 80),
        "client": ("127.0.0.1", 1),
    }
    talk = ApplicationCommunicator(application, scope)
    await talk.send_input({"type": "http.request", "body": b"", "more_body": False})
    start = await talk.receive_output(PATIENCE_S)
    body, more = b"", True
    while more:
        part = await talk.receive_output(PATIENCE_S)
        body, more = body + part.get("body", b""), part.get("more_body", False)
    await talk.wait(PATIENCE_S)
    return start["status"], body


class Socket:
    """A page's live socket."""

    def __init__(self, application, headers, path="/ws/live"):
        path, _, query = path.partition("?")
        scope = {
            "type": "websocket",
            "path": path,
            "raw_path": path.encode(),
            "query_string": query.encode(),
            "headers": headers,
            "root_path": "",
            "scheme": "ws",
            "subprotocols": [],
            "client": ("127.0.0.1", 1),
        }
        self.talk = ApplicationCommunicator(application, scope)

    async def open(self):
        """None when it was accepted, else the code it was closed with (before accepting: uvicorn answers 403)."""
        await self.talk.send_input({"type": "websocket.connect"})
        answer = await self.talk.receive_output(PATIENCE_S)
        return None if answer["type"] == "websocket.accept" else answer.get("code", 1000)

    async def say(self, value):
        text = value if isinstance(value, str) else json.dumps(value)
        await self.talk.send_input({"type": "websocket.receive", "text": text})

    async def say_bytes(self, value):
        await self.talk.send_input({"type": "websocket.receive", "bytes": value})

    async def hear(self, patience_s=PATIENCE_S):
        answer = await self.talk.receive_output(patience_s)
        assert answer["type"] == "websocket.send", answer
        return json.loads(answer["text"])

    async def close(self):
        await self.talk.send_input({"type": "websocket.disconnect", "code": 1000})
        await self.talk.wait(PATIENCE_S)
