"""What a job of one tenant tries against another's on the same node, against the agent and the shim: each act is told.

Run as `python intruder.py PLACES`, PLACES being JSON; with nothing but the standard library. Prints JSON: what came of each.
"""

# ruff: noqa: PLW0108, PTH102, PTH104, PTH108, PTH118, SIM115

import ctypes
import json
import os
import socket
import sys
import time
from pathlib import Path

PTRACE_SEIZE = 0x4206


def outcome(act):
    try:
        act()
    except (OSError, ValueError) as error:
        return type(error).__name__
    return "done"


def put(path, text="own"):
    with open(path, "w") as file:
        file.write(text)


def change(path):
    """Open a file that is there for writing. Nothing is written: without any walls it would be changed for good."""
    os.close(os.open(path, os.O_WRONLY))


def make(directory):
    path = os.path.join(directory, "new")
    put(path)
    os.unlink(path)


def move(path):
    os.rename(path, path + "2")
    os.rename(path + "2", path)


def listed(path):
    """An empty directory is as good as none: what is not shown is not there."""
    if not os.listdir(path):
        raise FileNotFoundError(path)


def trace(pid):
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.ptrace(PTRACE_SEIZE, pid, None, None) != 0:
        raise OSError(ctypes.get_errno(), "ptrace")


def shared_memory(key):
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.shmget(key, 0, 0) < 0:
        raise OSError(ctypes.get_errno(), "shmget")


def acts(at):
    node, job, control, own = (Path(at[name]) for name in ("node", "job", "control", "own_control"))
    victim, shim, agent = at["pid"], at["shim"], at["agent"]
    refused = {
        "read its file": lambda: (job / "work/secret").read_text(),
        "list its directory": lambda: listed(job / "work"),
        "write into it": lambda: make(job / "work"),
        "read its checkpoint": lambda: (Path(at["checkpoints"]) / "secret").read_text(),
        "read its temporary file": lambda: Path("/tmp/berth-secret").read_text(),
        "read its shared memory": lambda: Path("/dev/shm/berth-secret").read_text(),
        "read its segment": lambda: shared_memory(at["segment"]),
        "read its environment": lambda: Path(f"/proc/{victim}/environ").read_bytes(),
        "read its memory": lambda: Path(f"/proc/{victim}/mem").open("rb"),
        "enter its root": lambda: listed(f"/proc/{victim}/root/"),
        "read its descriptors": lambda: os.listdir(f"/proc/{victim}/fd"),
        "trace it": lambda: trace(victim),
        "signal it": lambda: os.kill(victim, 0),
        "signal its shim": lambda: os.kill(shim, 0),
        "signal the agent": lambda: os.kill(agent, 0),
        "read the shim's environment": lambda: Path(f"/proc/{shim}/environ").read_bytes(),
        "read the agent's memory": lambda: Path(f"/proc/{agent}/mem").open("rb"),
        "read the token": lambda: (node / "node.json").read_text(),
        "list the node's directory": lambda: os.listdir(node / "parts"),
        "read its launch": lambda: (control / "launch.json").read_text(),
        "forge its usage": lambda: change(control / "usage"),
        "write beside it": lambda: make(control),
        "forge own usage": lambda: change(own / "usage"),
        "forge own result": lambda: make(own),
        "change own launch": lambda: change(own / "launch.json"),
        "forge own number of cores": lambda: change(os.environ["BERTH_CORES_FILE"]),
        "move own directory": lambda: move(os.environ["BERTH_JOB_DIR"]),
        "write the log": lambda: change(own / "stdout"),
        "change the instrument": lambda: change(Path(os.environ["BERTH_INSTRUMENT_PATH"]) / "berth_instrument.py"),
        "change the interpreter": lambda: change(os.__file__),
        "leave the group": lambda: put(at["group"] + "/cgroup.procs", "0"),
        "lift its limit": lambda: put(at["group"] + "/pids.max", "max"),
        "become root": lambda: os.setuid(0),
        "take a group": lambda: os.setgroups([0]),
        "make a device": lambda: os.mknod("device", 0o020666, os.makedev(1, 3)),
        "become the other": lambda: os.setuid(at["uid"]),  # the last one: without any walls it would be
    }
    allowed = {
        "own file": lambda: put("own"),
        "own directory": lambda: os.mkdir("below"),
        "own checkpoint": lambda: put(os.path.join(os.environ["BERTH_CHECKPOINT_DIR"], "own")),
        "own record": lambda: put(os.path.join(os.environ["BERTH_RECORDS_DIR"], "0"), ""),
        "own temporary file": lambda: put(os.path.join(os.environ["TMPDIR"], "own")),
        "/tmp": lambda: put("/tmp/own"),
        "shared memory": lambda: put("/dev/shm/own"),
        "standard error by name": lambda: put("/dev/stderr", ""),
        "instrument": lambda: listed(os.environ["BERTH_INSTRUMENT_PATH"]),
        "own environment": lambda: Path("/proc/self/environ").read_bytes(),
        "own signal": lambda: os.kill(os.getpid(), 0),
        "null": lambda: put("/dev/null"),
        "socket": lambda: socket.socket().bind(("127.0.0.1", 0)),
    }
    return {"refused": refused, "allowed": allowed}


def bomb(most=300):
    """A fork bomb that ends: where nothing holds it, the test fails and the machine lives."""
    refused = 0
    for _ in range(most):
        try:
            if os.fork() == 0:
                time.sleep(60)
                os._exit(0)
        except BlockingIOError:
            refused += 1
    return refused


def main():
    at = json.loads(sys.argv[1])
    told = {kind: {name: outcome(act) for name, act in each.items()} for kind, each in acts(at).items()}
    status = dict(line.split(":\t", 1) for line in Path("/proc/self/status").read_text().splitlines() if ":\t" in line)
    told["status"] = {name: status[name].split() for name in ("Uid", "Gid", "Groups", "NoNewPrivs", "CapEff", "CapPrm")}
    told["processes"] = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    sys.stdout.write(json.dumps(told) + "\n")


if __name__ == "__main__":
    main()
