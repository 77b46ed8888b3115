"""A real Slurm on loopback: one slurmctld and some slurmd of the account that runs the tests, without root, munge or systemd."""

import contextlib
import getpass
import os
import shutil
import socket
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.servers import stretched

PATH = f"{os.environ['PATH']}:/usr/sbin:/sbin"
GPUS, CORES, MEMORY_MIB = 4, 16, 64_000
CONFIGURATION = """\
ClusterName=berthtest
SlurmctldHost=localhost
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/none
CredType=cred/none
SlurmctldPort={port}
StateSaveLocation={at}/state
SlurmdSpoolDir={at}/spool/%n
SlurmctldPidFile={at}/run/slurmctld.pid
SlurmdPidFile={at}/run/slurmd-%n.pid
SlurmctldLogFile={at}/log/slurmctld.log
SlurmdLogFile={at}/log/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SwitchType=switch/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
ReturnToService=2
SlurmdParameters=config_overrides
GresTypes=gpu
KillWait=8
SchedulerParameters=batch_sched_delay=0
{nodes}
PartitionName=berth Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""
NODE = "NodeName={name} NodeHostname=localhost NodeAddr=127.0.0.1 Port={port} CPUs={cores} RealMemory={mib} Gres=gpu:a100:{gpus}"


def free_ports(count):
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


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
    for name in ("state", "spool", "log", "run", "dev"):
        (at / name).mkdir(parents=True)
    names, (port, *ports) = [f"n{each}" for each in range(1, nodes + 1)], free_ports(nodes + 1)
    lines = [
        NODE.format(name=name, port=each, cores=CORES, mib=MEMORY_MIB, gpus=GPUS)
        for name, each in zip(names, ports, strict=True)
    ]
    told = CONFIGURATION.format(user=getpass.getuser(), port=port, at=at, nodes="\n".join(lines))
    (at / "slurm.conf").write_text(told)
    gres = ["AutoDetect=off"]
    for name in names:
        for gpu in range(GPUS):
            (at / f"dev/{name}-gpu{gpu}").symlink_to("/dev/null")  # a plain file is refused
        gres.append(f"NodeName={name} Name=gpu Type=a100 File={at}/dev/{name}-gpu[0-{GPUS - 1}]")
    (at / "gres.conf").write_text("\n".join(gres) + "\n")
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
