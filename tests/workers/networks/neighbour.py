"""A job's program: listens on all kinds of ports and says which (`serve`), or says which of such a list it reaches (`try`)."""

import contextlib
import json
import socket
import sys
import time


def serve(hosts):
    told, kept = [], []
    for host in hosts:
        for kind in ("SOCK_STREAM", "SOCK_DGRAM"):
            family = "AF_INET6" if ":" in host else "AF_INET"
            with contextlib.suppress(OSError):
                waiting = socket.socket(getattr(socket, family), getattr(socket, kind))
                waiting.bind((host, 0))
                kept.append(waiting)
                told.append([family, kind, host, waiting.getsockname()[1]])
    name = f"berth-neighbour-{time.monotonic_ns()}"
    waiting = socket.socket(socket.AF_UNIX)
    waiting.bind(f"\0{name}")
    kept.append(waiting)
    told.append(["AF_UNIX", "SOCK_STREAM", "", name])
    for each in kept:
        if each.type == socket.SOCK_STREAM:
            each.listen(16)
    print(json.dumps(told), flush=True)
    while True:  # a datagram is answered, a stream greeted
        for each in kept:
            each.settimeout(0.01)
            with contextlib.suppress(OSError):
                if each.type == socket.SOCK_STREAM:
                    each.accept()[0].sendall(b"here")
                else:
                    each.sendto(b"here", each.recvfrom(16)[1])


def reached(family, kind, host, port, source=""):
    with socket.socket(getattr(socket, family), getattr(socket, kind)) as wire, contextlib.suppress(OSError):
        wire.settimeout(2)
        if source:
            wire.bind((source, 0))
        wire.connect(f"\0{port}" if family == "AF_UNIX" else (host, port))
        if kind == "SOCK_DGRAM":
            wire.settimeout(0.5)
            for _ in range(4):
                wire.send(b"x")
                with contextlib.suppress(TimeoutError):
                    return wire.recv(16) == b"here"
            return False
        return wire.recv(16) == b"here"
    return False


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve(sys.argv[2:])
    else:
        there = json.loads(sys.argv[2])
        print(json.dumps([each for each in there if reached(*each)]), flush=True)
