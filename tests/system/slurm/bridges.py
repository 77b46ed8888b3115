"""The bridge as a process that tests kill and start again, and stand-ins for sbatch that lose answers."""

import re
import signal
import subprocess
import sys

from portal.foundation.layout import SOURCE

ONE_CORE = {"cores_per_gpu": 1, "cores_exactly": True, "gpu_types": ["NVIDIA H100 80GB HBM3"]}


class Bridge:
    """The program `python -m workers.bridge`, which is killed and started again at will."""

    def __init__(self, berth, slurm, stub, at):
        self.berth, self.slurm, self.at = berth, slurm, at
        token = re.search(r"berthjoin_\S+", berth.command("manage", "join_token").stdout)[0]
        self.words = [sys.executable, "-m", "workers.bridge", "slurm", "--join", berth.url, "--token", token]
        self.words += ["--partition", "berth", "--dir", str(at), "--gpus-per-pilot", "2", "--gpus-max", "6"]
        self.words += ["--idle-s", "10", "--leave-s", "5", "--node-dir", str(at / "nodes")]
        self.words += [f"--sbatch=--export=LD_LIBRARY_PATH={stub},NVML_STUB_COUNT=4"]
        self.process = None

    def start(self, path=""):
        environment = self.slurm.environment | {"PYTHONPATH": str(SOURCE)}
        environment["PATH"] = f"{path}:{environment['PATH']}" if path else environment["PATH"]
        with (self.at.parent / "bridge.log").open("ab") as log:
            self.process = subprocess.Popen(self.words, env=environment, cwd=SOURCE, stdout=log, stderr=log)

    def kill(self, number=signal.SIGKILL):
        self.process.send_signal(number)
        self.process.wait(20)

    @property
    def log(self):
        return (self.at.parent / "bridge.log").read_text()

    def pilots(self):
        """Slurm's numbers of the pilots that are listed and have not ended."""
        lines = self.slurm.run("squeue", "-h", "-o", "%i|%j").split()
        return [number for number, name in (line.split("|") for line in lines) if name.startswith("berth-pilot-")]


def nodes_of_pilots(berth, tenant):
    found = berth.request("/api/v1/nodes", token=tenant.token)[1]["results"]
    return [each["name"] for each in found if "-g" in each["name"]]
