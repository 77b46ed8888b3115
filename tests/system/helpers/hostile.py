"""What a hostile job does: one script for each kind of harm, to every directory and process that it can name.

Each runs as `python hostile.py NAME`, with nothing but the standard library. It looks for the agent's control files beside
the job's own directory, and where docs/node-files.md says that they lie: what is documented is no secret. Each act is tried on its own, and whatever is refused is left.
"""

# ruff: noqa: PTH102, PTH108, PTH211

import contextlib
import ctypes
import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import time
from pathlib import Path

SECRET = "the-secret-key-of-the-portal"
STREAMS = ("stdout", "stderr")
CONTROL = (
    "part.json",
    "launch.json",
    "shim.json",
    "job.json",
    "lease.json",
    "stop.json",
    "maintenance.json",
    "result.json",
    "usage",
    "processes",
    "lock",
    "shim.log",
)


def own():
    return Path(os.environ["BERTH_JOB_DIR"])


def control():
    """Control directories of this part that exist and can be named."""
    job = own().parent
    return [p for p in (job, job.parent.parent / "parts" / job.name) if p.name]


def secret():
    return own().parents[3] / "secret-key"


def act(function, *arguments):
    """Try it; a refusal is what the defender wants."""
    with contextlib.suppress(OSError, RecursionError, shutil.Error):
        return function(*arguments)
    return None


def clear(path):
    if path.is_dir() and not path.is_symlink():
        act(shutil.rmtree, path)
    else:
        act(os.unlink, path)


def each(names):
    for directory in control():
        for name in names:
            yield directory / name


def fifo():
    for path in each(STREAMS):
        clear(path)
        act(os.mkfifo, path)


def fifo_everywhere():
    for path in each((*CONTROL, *STREAMS)):
        clear(path)
        act(os.mkfifo, path)


def link():
    for path in each(STREAMS):
        clear(path)
        act(os.symlink, secret(), path)


def hard_link():
    for path in each(STREAMS):
        clear(path)
        act(os.link, secret(), path)


def device():
    for path in each(STREAMS):
        clear(path)
        act(os.mknod, path, stat.S_IFCHR | 0o666, os.makedev(1, 5))  # /dev/zero
        act(os.symlink, "/dev/zero", path)


def directory():
    for path in each((*CONTROL, *STREAMS)):
        clear(path)
        act(os.mkdir, path)


def broken_records():
    for path in each(CONTROL):
        act(path.write_bytes, b'{"attempt": [[[' + b"\xff" * 100)


def foreign_records():
    for path in each(CONTROL):
        act(path.write_bytes, b'{"attempt": "other", "until": "never", "pid": "me", "grace_s": [], "usage": 1e999}')


def huge_records():
    for path in each((*CONTROL, *STREAMS)):
        act(os.truncate, path, 10 << 30)


def closed():
    for path in [own(), own().parent, *control()]:
        act(os.chmod, path, 0)


def all_gone():
    for path in [*own().parent.iterdir(), own().parent, *control()]:
        clear(path)


def records():
    """What stands in for the iterations' records, one after the other."""
    room = Path(os.environ["BERTH_RECORDS_DIR"])
    acts = [
        lambda: os.mkfifo(room / "0"),
        lambda: os.symlink(secret(), room / "0"),
        lambda: os.symlink("/dev/zero", room / "0"),
        lambda: os.link(secret(), room / "0"),
        lambda: os.mkdir(room / "0"),
        lambda: (room / "0").write_bytes(b"x" * 50_000_000),
        lambda: (os.close(os.open(room / "0", os.O_CREAT | os.O_WRONLY)), os.truncate(room / "0", 10 << 30)),
        lambda: [(room / str(n)).touch() for n in range(3000)],
        lambda: [
            os.close(os.open(os.fsencode(room) + b"/" + n, os.O_CREAT)) for n in (b"a\nb", b"\xff\xfe", b"\x01" * 200)
        ],
        lambda: (room / "0").write_text("[" * 5000 + "\n" + '{"iterations": 1e400}\n' * 1000),
        lambda: (shutil.rmtree(room), os.symlink("/dev", room)),
        lambda: (os.unlink(room), os.mkfifo(room)),
        lambda: (os.unlink(room), room.write_text("no directory")),
        lambda: os.unlink(room),
    ]
    for one in acts:
        clear(room / "0")
        act(one)
        time.sleep(0.3)


def deep():
    """A tree deeper than any stack, with closed directories and names that are no text."""
    act(os.chdir, own())
    for depth in range(3000):
        os.mkdir("d")
        os.chdir("d")
        if depth % 500 == 0:
            os.close(os.open(b"\xff\n\xfe", os.O_CREAT))
    for name in (b"new\nline", b"\xff\xfe", b"-rf"):
        act(os.mkdir, name)
        act(os.chmod, name, 0)


def flood():
    """As much output as it can, and what a shell would do to what is behind its descriptors."""
    for descriptor in (1, 2):
        act(os.ftruncate, descriptor, 10 << 30)
        act(os.lseek, descriptor, 10 << 30, os.SEEK_SET)
    data = b"y\n" * 32768
    end = time.monotonic() + 6
    while time.monotonic() < end:
        os.write(1, data)


def outputs_closed():
    os.close(0)
    os.close(1)
    os.close(2)
    time.sleep(2)


def forks():
    """Processes without end, not more than some hundred at once: the machine is others' too."""
    end = time.monotonic() + 5
    while time.monotonic() < end:
        subprocess.Popen(["/bin/sh", "-c", "for i in 1 2 3 4 5 6 7 8; do sleep 3 & done; wait"])
        time.sleep(0.05)


def environment():
    """Go on under an empty environment, in a session of its own, without descriptors, hidden and not to be stopped."""
    for _ in range(2):
        if os.fork():
            return
        os.setsid()
    for sig in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(sig, signal.SIG_IGN)
    libc = ctypes.CDLL(None)
    libc.prctl(4, 0, 0, 0, 0)  # not dumpable
    libc.prctl(1, 0, 0, 0, 0)  # no death signal
    os.closerange(0, 1024)
    os.execve("/bin/sleep", ["sleep", "391"], {})


def _others():
    """(pid, command line) of agents and shims."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            line = act((entry / "cmdline").read_bytes) or b""
            if b"workers.agent" in line or b"shim.py" in line:
                yield int(entry.name), line


def signals():
    """SIGSTOP and SIGKILL for the agent and every shim of this node, as far as the account may."""
    mine = str(own().parents[2]).encode()
    for sig in (signal.SIGSTOP, signal.SIGKILL):
        for pid, line in list(_others()):
            if mine in line and act(os.kill, pid, sig) is None:
                with contextlib.suppress(OSError):
                    os.kill(pid, 0)
    time.sleep(1)


def peeks():
    """Print whatever can be read of other processes and of Berth's files: none of it may be in a log."""
    for pid, _ in list(_others()):
        for name in ("environ", "mem", "maps", "cwd", "root"):
            found = act(lambda p=pid, n=name: Path(f"/proc/{p}/{n}").read_bytes()[:65536])
            print(pid, name, found)
    base = own().parents[3]
    for path in sorted(base.rglob("*")) if act(os.listdir, base) else [base / "secret-key", base / "node/node.json"]:
        if path.is_file():
            print(path, act(path.read_bytes))
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as plug:
        plug.connect(str(base / "redis.sock"))
    print("peeked", flush=True)


if __name__ == "__main__":
    globals()[sys.argv[1]]()
