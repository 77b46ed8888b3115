"""Runs as a job: holds its job's file and its GPUs' files, and writes what happened into the ledger.

python ledger_job.py DIRECTORY SECONDS [--until FILE] [--stubborn]

A lock that is taken already is a violation: another process runs this job, or has this GPU, at this moment. Jobs that have a
part of a GPU share its lock, which is a violation beside one that has it alone. The kernel drops the locks when the process ends, however it ends. `--stubborn` ignores SIGTERM.
"""

import fcntl
import json
import os
import signal
import sys
import time
from pathlib import Path

DIRECTORY, SECONDS = Path(sys.argv[1]), float(sys.argv[2])
UNTIL = Path(sys.argv[sys.argv.index("--until") + 1]) if "--until" in sys.argv else None
JOB, EPOCH, RANK = (os.environ[name] for name in ("BERTH_JOB_ID", "BERTH_EPOCH", "BERTH_RANK"))
NODE = Path(os.environ["BERTH_JOB_DIR"]).parents[2].name  # DIR/nodes/NAME/parts/PART/work
GPUS = [index for index in os.environ["CUDA_VISIBLE_DEVICES"].split(",") if index]
held = []


def note(what, **more):
    """One line, one write: lines of many processes do not mix."""
    entry = {"what": what, "job": int(JOB), "epoch": int(EPOCH), "rank": int(RANK), "node": NODE, "gpus": GPUS}
    entry |= {"pid": os.getpid(), "at": time.time(), **more}
    descriptor = os.open(DIRECTORY / "ledger", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(descriptor, (json.dumps(entry) + "\n").encode())
    os.close(descriptor)


def hold(name, kind=fcntl.LOCK_EX):
    descriptor = os.open(DIRECTORY / name, os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        note("violation", lock=name)
    held.append(descriptor)


def terminated(*_):
    note("stopped")
    os._exit(143)


signal.signal(signal.SIGTERM, signal.SIG_IGN if "--stubborn" in sys.argv else terminated)
hold(f"job-{JOB}-{RANK}")
for gpu in GPUS:
    hold(f"gpu-{NODE}-{gpu}", fcntl.LOCK_SH if os.environ.get("BERTH_GPU_COMPUTE") else fcntl.LOCK_EX)
note("start")
print("started", flush=True)
end = time.monotonic() + SECONDS
while time.monotonic() < end and not (UNTIL and UNTIL.exists()):
    time.sleep(min(0.3, max(0.01, end - time.monotonic())))  # a dozen of them wait for minutes
note("done")
print("done", flush=True)
