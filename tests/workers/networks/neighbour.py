"""A job's program: listens on all kinds of ports and says which (`serve`), or says which of such a list it reaches (`try`)."""

import contextlib
import json
import os
import socket
import sys
import time
from concurrent.futures import ThreadPoolExecutor


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


def hear(groups):
    """Take what is sent to all; print the account's number of each sender."""
    waiting = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    waiting.bind(("", 0))
    for group in groups:
        waiting.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, socket.inet_aton(group) + bytes(4))
    print(json.dumps([waiting.getsockname()[1]]), flush=True)
    while True:
        print(waiting.recv(16).decode(), flush=True)


def reached(family, kind, host, port, source="", device=""):
    with socket.socket(getattr(socket, family), getattr(socket, kind)) as wire, contextlib.suppress(OSError):
        wire.settimeout(2)
        if source:
            wire.bind((source, 0))
        if device:
            wire.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, device.encode())
        if family != "AF_UNIX":
            wire.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
        wire.connect(f"\0{port}" if family == "AF_UNIX" else socket.getaddrinfo(host, port)[0][4])
        if kind == "SOCK_DGRAM":
            wire.settimeout(0.1)
            for _ in range(4):
                wire.send(str(os.getuid()).encode())
                with contextlib.suppress(TimeoutError):
                    return wire.recv(16) == b"here"
            return False
        return wire.recv(16) == b"here"
    return False


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve(sys.argv[2:])
    elif sys.argv[1] == "hear":
        hear(sys.argv[2:])
    else:
        there = json.loads(sys.argv[2])
        with ThreadPoolExecutor(64) as pool:
            said = list(pool.map(lambda each: reached(*each), there))
        print(json.dumps([each for each, well in zip(there, said, strict=True) if well]), flush=True)
