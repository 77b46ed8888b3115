"""The portal's server in a process of its own, with shorter times and an application of its own.

usage: python -m tests.portal.launch.serving.stand_in JSON      prints its port; JSON: see `main`
"""

import asyncio
import json
import resource
import sys
from pathlib import Path

from uvicorn import Config

from portal.launch.serving.limits import Limits
from portal.launch.serving.protocols import BoundedSocket
from portal.launch.serving.server import PortalServer

PIECE = b"x" * 65_536
SERVERS = []
SENT = []


async def application(scope, receive, send):
    if scope["type"] == "lifespan":
        raise ValueError(scope["type"])
    if scope["type"] == "websocket":
        await echo(receive, send)
        return
    path, number = scope["path"], float(scope["query_string"] or 0)
    if path == "/late":  # a view that is slow to read what was sent
        await asyncio.sleep(number)
    body = b"" if path == "/unread" else await whole(receive)
    if path == "/wait":
        await asyncio.sleep(number)
    await send({"type": "http.response.start", "status": 200, "headers": []})
    for _ in range(int(number) if path == "/pieces" else 0):
        await send({"type": "http.response.body", "body": PIECE, "more_body": True})
    answers = {"/lump": PIECE * int(number), "/held": b"%d" % len(SERVERS[0].server_state.connections)}
    answers["/sent"] = b"%d" % len(SENT)
    caller = scope["client"][0] if scope["client"] else "within"
    await send({"type": "http.response.body", "body": answers.get(path, b"%d from %s" % (len(body), caller.encode()))})


async def whole(receive):
    body, more = b"", True
    while more:
        message = await receive()
        body, more = body + message.get("body", b""), message.get("more_body", False)
    return body


async def echo(receive, send):
    await receive()
    await send({"type": "websocket.accept"})
    while (message := await receive())["type"] == "websocket.receive":
        if message["text"] == "lump":
            await send({"type": "websocket.send", "bytes": PIECE * 128})
            SENT.append(1)
            continue
        for _ in range(int(message["text"])):
            await send({"type": "websocket.send", "bytes": PIECE})
        await send({"type": "websocket.send", "text": message["text"]})


class Told(PortalServer):
    async def main_loop(self):
        print(self.servers[-1].sockets[0].getsockname()[1], flush=True)
        await super().main_loop()


def main(asked):
    """`limits`: of `Limits`; `loop`, `proxies`, `certificate`, `key`, `private`, `most`, `soft`: as said, all may be absent."""
    config = Config(
        application,
        port=0,
        ws=BoundedSocket,
        loop=asked.get("loop", "auto"),
        log_level="warning",
        timeout_graceful_shutdown=1,
        proxy_headers="proxies" in asked,
        forwarded_allow_ips=asked.get("proxies", ""),
        ssl_certfile=asked.get("certificate"),
        ssl_keyfile=asked.get("key"),
    )
    private = Path(asked["private"]) if "private" in asked else None
    server = Told(config, private=private, limits=Limits(**asked["limits"]))
    if "most" in asked:
        server.outside.most, server.outside.of_one = asked["most"], asked["most"] // 2
    SERVERS.append(server)
    if "soft" in asked:
        resource.setrlimit(resource.RLIMIT_NOFILE, (asked["soft"], resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    server.run()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
