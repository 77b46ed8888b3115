"""A real Slurm on loopback: one slurmctld and some slurmd of the account that runs the tests, without root, munge or systemd."""

import contextlib
import os
import shutil
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from portal.launch.demo.slurm import PATH, free_ports, slurm_write
from tests.servers import stretched

GPUS, CORES, MEMORY_MIB = 4, 16, 64_000


@dataclass
class Slurm:
    """The cluster's commands, in its own configuration."""

    at: Path

    @property
    def environment(self):
        return {"PATH": PATH, "HOME": os.environ.get("HOME", "/"), "SLURM_CONF": str(self.at / "slurm.conf")}

    def run(self, *words, **more):
        done = subprocess.run(words, env=self.environment, capture_output=True, text=True, timeout=60, **more)
        assert done.returncode == 0, (words, done.stderr)
        return done.stdout.strip()

    def submit(self, script, *flags, **environment):
        """Submit a script of sh, which inherits no more than `environment`; return Slurm's number."""
        told = subprocess.run(
            ["sbatch", "--parsable", "--no-requeue", "--output", str(self.at / "log/job-%j.txt"), *flags],
            env=self.environment | environment,
            input=f"#!/bin/sh\n{script}\n",
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert told.returncode == 0, told.stderr
        return told.stdout.strip()

    def state(self, number):
        return self.run("squeue", "-h", "-t", "all", "-j", number, "-o", "%T")

    def output(self, number):
        path = self.at / f"log/job-{number}.txt"
        return path.read_text() if path.exists() else ""

    def clear(self, limit_s=30):
        """End all jobs, and wait for it."""
        until = time.monotonic() + stretched(limit_s)
        while numbers := self.run("squeue", "-h", "-o", "%A").split():
            subprocess.run(["scancel", *numbers], env=self.environment, capture_output=True)
            assert time.monotonic() < until, self.run("squeue")
            time.sleep(0.1)

    def controller_kill(self):
        pid = int((self.at / "run/slurmctld.pid").read_text())
        os.kill(pid, 9)
        until = time.monotonic() + stretched(10)
        while Path(f"/proc/{pid}").exists() and time.monotonic() < until:
            time.sleep(0.02)

    def controller_start(self):
        self.run("slurmctld", "-f", str(self.at / "slurm.conf"))

    def slurmd_kill(self, name):
        os.kill(int((self.at / f"run/slurmd-{name}.pid").read_text()), 9)

    def slurmd_start(self, name):
        self.run("slurmd", "-N", name, "-f", str(self.at / "slurm.conf"))

    def wait(self, number, *states, limit_s=30):
        until = time.monotonic() + stretched(limit_s)
        while (state := self.state(number)) not in states:
            assert time.monotonic() < until, f"{number} is {state}\n{self.output(number)}"
            time.sleep(0.1)


@contextlib.contextmanager
def slurm_started(at, *, nodes=1):
    """Start a cluster whose nodes n1, n2 ... have GPUS GPUs each; the files of these are /dev/null."""
    if not all(shutil.which(name, path=PATH) for name in ("slurmctld", "slurmd", "sbatch")):
        pytest.skip("SKIPPED LOUDLY: no Slurm on this machine (`apt install slurmctld slurmd slurm-client`)")
    names = [f"n{each}" for each in range(1, nodes + 1)]
    spool = Path(tempfile.mkdtemp(prefix="slurm-"))  # pytest's own folders have longer names than a Unix socket may
    slurm_write(at, names, spool, cluster="berthtest", partition="berth", gpus=GPUS, cores=CORES, mib=MEMORY_MIB)
    slurm = Slurm(at)
    try:
        for words in (["slurmctld"], *(["slurmd", "-N", name] for name in names)):
            slurm.run(*words, "-f", str(at / "slurm.conf"))
        until = time.monotonic() + stretched(60)
        while len(set(slurm.run("sinfo", "-h", "-N", "-t", "idle", "-o", "%N").split())) < nodes:
            assert time.monotonic() < until, (at / "log/slurmctld.log").read_text()[-2000:]
            time.sleep(0.05)
        yield slurm
    finally:
        for path in sorted((at / "run").glob("*.pid"), reverse=True):
            with contextlib.suppress(ProcessLookupError, ValueError):
                os.kill(int(path.read_text()), 9)
        shutil.rmtree(spool, ignore_errors=True)


__all__ = ["CORES", "GPUS", "MEMORY_MIB", "PATH", "Slurm", "free_ports", "slurm_started"]
