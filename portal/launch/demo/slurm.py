"""A Slurm of the demo's own, below the data directory: a controller, two nodes, a bridge, and an admin with jobs of his own.

It runs on loopback, without root, munge or accounting. Its GPUs are links to /dev/null, so pilots' nodes are virtual.
"""

from __future__ import annotations

import contextlib
import getpass
import os
import random
import shutil
import socket
import subprocess
import sys
import time
from typing import TYPE_CHECKING

from portal.foundation.errors import LaunchError
from portal.foundation.layout import SOURCE
from portal.launch.processes.children import Program

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from portal.foundation.layout import Layout

BRIDGE = "bridge"
"""The bridge's name among the programs, and where join tokens are made."""
ROLE, ASKING = "engine", "bridge"
"""The roles of Slurm's daemons, and of the programs that ask them for jobs: these end first."""
NAMES, GPUS, CORES, MEMORY_MIB = ("gn-01", "gn-02"), 4, 32, 256_000
CLUSTER, PARTITION, GPU_TYPE, VIRTUAL = "atlas", "gpu", "a100", "A100 40 GB"
PILOT_GPUS, PILOTS_GPUS = 2, 6
PATH = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
MISSING = "Install it (`apt install slurmctld slurmd slurm-client`), or leave --engine out."
CONFIGURATION = """\
ClusterName={cluster}
SlurmctldHost=localhost
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/none
CredType=cred/none
SlurmctldPort={port}
StateSaveLocation={at}/state
SlurmdSpoolDir={spool}/%n
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
PartitionName={partition} Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""
NODE = "NodeName={name} NodeHostname=localhost NodeAddr=127.0.0.1 Port={port} "
NODE += "CPUs={cores} RealMemory={mib} Gres=gpu:{kind}:{gpus}"
"""The machine has fewer cores: `config_overrides` lets Slurm count these."""
SPOOL_BYTES = 75
WORK_S, DRAIN_S = (40, 160), (60, 120)


def slurm_write(
    at: Path, names: Sequence[str], spool: Path, *, cluster: str, partition: str, gpus: int, cores: int, mib: int
) -> None:
    """Write the configuration of a cluster with these nodes, for the account that runs this. Raises LaunchError.

    `spool`: where the daemons make Unix sockets, whose paths the kernel limits.
    """
    if len(os.fsencode(spool)) > SPOOL_BYTES:
        remedy = f"Choose a --data whose path has at most {SPOOL_BYTES - len('/slurm/spool')} bytes."
        raise LaunchError(f"{spool} is too long a path for Slurm's sockets.", remedy)
    for program in ("slurmctld", "slurmd", "sbatch"):
        if shutil.which(program, path=PATH) is None:
            raise LaunchError(f"There is no {program} on this machine.", MISSING)
    for path in (*(at / name for name in ("state", "log", "run", "dev")), spool):
        path.mkdir(parents=True, exist_ok=True)
    port, *ports = free_ports(len(names) + 1)
    lines = [
        NODE.format(name=name, port=each, cores=cores, mib=mib, kind=GPU_TYPE, gpus=gpus)
        for name, each in zip(names, ports, strict=True)
    ]
    values = {
        "cluster": cluster,
        "partition": partition,
        "user": getpass.getuser(),
        "port": port,
        "at": at,
        "spool": spool,
    }
    (at / "slurm.conf").write_text(CONFIGURATION.format(nodes="\n".join(lines), **values))
    gres = ["AutoDetect=off"]
    for name in names:
        for gpu in range(gpus):
            (at / f"dev/{name}-gpu{gpu}").symlink_to("/dev/null")  # Slurm refuses a plain file
        gres.append(f"NodeName={name} Name=gpu Type={GPU_TYPE} File={at}/dev/{name}-gpu[0-{gpus - 1}]")
    (at / "gres.conf").write_text("\n".join(gres) + "\n")


def free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


def slurm_environment(at: Path) -> dict[str, str]:
    kept = {name: os.environ[name] for name in ("HOME", "USER", "LOGNAME", "LANG", "TMPDIR") if name in os.environ}
    return {**kept, "PATH": PATH, "SLURM_CONF": str(at / "slurm.conf"), "PYTHONUNBUFFERED": "1"}


def place(layout: Layout) -> Path:
    return layout.root / "slurm"


def is_attached(layout: Layout) -> bool:
    return (place(layout) / BRIDGE / "private" / "bridge.json").exists()


def programs(layout: Layout, *, url: str, join_token: str | None) -> list[Program]:
    """Return the cluster's daemons, the bridge, and the admin. The configuration is written once."""
    at = place(layout)
    if not (at / "slurm.conf").exists():
        slurm_write(
            at, NAMES, at / "spool", cluster=CLUSTER, partition=PARTITION, gpus=GPUS, cores=CORES, mib=MEMORY_MIB
        )
    environment, configuration = slurm_environment(at), str(at / "slurm.conf")
    daemons = {"slurmctld": ["slurmctld", "-D"]} | {f"slurmd-{name}": ["slurmd", "-D", "-N", name] for name in NAMES}
    python = [sys.executable, "-P", "-m"]
    node = (
        f"--virtual 'gpus={PILOT_GPUS},type={VIRTUAL},gpu-memory-mib=40960,cores=16,memory-mib=128000,core-percent=3'"
    )
    node += f" --closed '{layout.root}' --storage-domain demo --storage-dir '{layout.storage}'"
    bridge = [*python, "workers.bridge", "slurm", "--join", url, "--partition", PARTITION, "--dir", str(at / BRIDGE)]
    bridge += ["--gpus-per-pilot", str(PILOT_GPUS), "--gpus-max", str(PILOTS_GPUS), "--hours", "12", "--idle-s", "120"]
    bridge += ["--leave-s", "5", "--node-dir", str(at / "nodes"), "--node-flags", node]
    own = environment | {"PYTHONPATH": str(SOURCE)}
    token = {"BERTH_BRIDGE_TOKEN": join_token} if join_token else {}
    return [
        *(
            Program(name, ROLE, [*words, "-f", configuration], environment, spares_group=True)
            for name, words in daemons.items()
        ),
        Program(BRIDGE, ASKING, bridge, own | token, signs=True),
        Program(
            "slurm-admin", ASKING, [*python, "portal.launch.demo.slurm"], own | {"BERTH_DATA_DIR": str(layout.root)}
        ),
    ]


def jobs_end(layout: Layout) -> None:
    """End all jobs of the demo's Slurm, and wait until they have ended."""
    environment = slurm_environment(place(layout))
    until = time.monotonic() + 20
    while time.monotonic() < until:
        listed = _run(environment, "squeue", "-h", "-o", "%A").split()
        if not listed:
            return
        _run(environment, "scancel", *listed)
        time.sleep(0.5)


def _run(environment: dict[str, str], *words: str, text: str = "") -> str:
    done = subprocess.run(  # noqa: S603 - our own words
        words, env=environment, input=text, capture_output=True, text=True, timeout=30, check=False
    )
    return done.stdout


def main() -> None:
    """Be the admin: jobs of his own come and go, and now and then a node is drained for a while."""
    dice, environment = random.Random(), dict(os.environ)  # noqa: S311 - a play
    while True:
        time.sleep(dice.uniform(*WORK_S))
        seconds = round(dice.uniform(*WORK_S))
        asked = ["--gres=gpu:1", "--mem=1000", "--time=5", "--output=/dev/null", "--chdir=/", "-J", "preprocess"]
        _run(environment, "sbatch", *asked, text=f"#!/bin/sh\nsleep {seconds}\n")
        if dice.random() < 0.1:
            name = dice.choice(NAMES)
            _run(environment, "scontrol", "update", f"NodeName={name}", "State=DRAIN", "Reason=fan")
            time.sleep(dice.uniform(*DRAIN_S))
            _run(environment, "scontrol", "update", f"NodeName={name}", "State=RESUME")


if __name__ == "__main__":
    main()
