"""A TCP proxy that resets connections where a test says: before an answer, in the middle of one, between two messages."""

import selectors
import socket
import struct
import threading

WHOLE = 1 << 60


class Flaky:
    """Listens on a free port of this machine. `plan(n)` says of connection n, from 0, after how many bytes to the server and
    from it the connection is reset. `begun` holds the first bytes of each, and `cuts` counts the resets.
    """

    def __init__(self, port, plan):
        self.port, self.plan = port, plan
        self.begun, self.cuts = [], 0
        self._listening = socket.create_server(("127.0.0.1", 0), backlog=200)
        self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()

    def _accept(self):
        number = 0
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:  # closed: the test is over
                return
            threading.Thread(target=self._serve, args=(client, self.plan(number)), daemon=True).start()
            number += 1

    def _serve(self, client, limits):
        try:
            server = socket.create_connection(("127.0.0.1", self.port), timeout=30)
        except OSError:  # the portal is being started again
            client.close()
            return
        with client, server, selectors.DefaultSelector() as waits:
            left = {client: limits[0], server: limits[1]}
            for source, target in ((client, server), (server, client)):
                waits.register(source, selectors.EVENT_READ, target)
            try:
                self._pass(waits, left, client)
            except OSError:  # one side is gone, and so is the connection
                return

    def _pass(self, waits, left, client):
        told = False
        while True:
            for key, _ in waits.select():
                data = key.fileobj.recv(4096)
                if not data:
                    return
                if key.fileobj is client and not told:
                    told = True
                    self.begun.append(data[:40])
                part = data[: left[key.fileobj]]
                left[key.fileobj] -= len(part)
                key.data.sendall(part)
                if left[key.fileobj] <= 0:
                    self.cuts += 1
                    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # reset, not ended
                    return
