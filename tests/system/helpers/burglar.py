"""A job on the portal's machine that wants to become the operator: `python burglar.py DIR PORT` prints what it got.

DIR is the portal's data directory. For each try
"done", or the system's words for the refusal.
"""

import ctypes
import json
import os
import socket
import sys
import urllib.request
from pathlib import Path

DATA, PORT = Path(sys.argv[1]), int(sys.argv[2])


def outcome(act, *arguments):
    try:
        value = act(*arguments)
    except OSError as error:
        return error.strerror or str(error)
    return "done" if value is None else value


def read(path):
    with open(path, "rb") as file:
        file.read(1)


def listed(path):
    os.listdir(path)


def processes():
    """(what, pid) of Berth's processes that serve this data directory."""
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if str(DATA) not in line:
            continue
        for what in ("workers.agent", "shim.py", "portal.launch.serving", "celery"):
            if what in line:
                yield what, int(entry.name)


def truncate(path):
    if ctypes.CDLL(None, use_errno=True).truncate(str(path).encode(), 0):
        raise OSError(ctypes.get_errno(), "truncate refused")


def broker():
    with socket.socket(socket.AF_UNIX) as plug:
        plug.connect(str(DATA / "run/redis.sock"))
        plug.sendall(b"PING\r\n")
        return plug.recv(100).decode().split()[0]


def portal():
    with urllib.request.urlopen(f"http://127.0.0.1:{PORT}/login", timeout=30) as answer:
        return answer.status


names = [
    "operator.json",
    "secret-key",
    "metrics-token",
    "berth.sqlite3",
    "launch.json",
    "demo-users.json",
    "demo-tokens.json",
    "redis/password",
    "redis/server.conf",
    "run/state.json",
    "logs/portal.log",
    "nodes/a100-01/node.json",
    "nodes/a100-02/node.json",
]
found = {
    "files": {name: outcome(read, DATA / name) for name in names},
    "lists": {
        name: outcome(listed, DATA / name)
        for name in (".", "nodes", "nodes/a100-01/jobs", "nodes/a100-02/jobs", "storage/checkpoints")
    },
    "writes": {
        name: outcome(lambda n=name: (DATA / n).open("a").close()) for name in ("berth.sqlite3", "run/stop.json", "new")
    },
    "truncate": outcome(truncate, DATA / "berth.sqlite3"),
    "looks": {
        f"{what} {name}": outcome(read, f"/proc/{pid}/{name}")
        for what, pid in processes()
        for name in ("environ", "mem", "maps")
    },
    "signals": {f"{what} {pid}": outcome(os.kill, pid, 0) for what, pid in processes()},
    "broker": outcome(broker),
    "portal": outcome(portal),
    "others": sorted({what for what, _ in processes()}),
}
print(json.dumps(found))
