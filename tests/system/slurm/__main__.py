"""Run the matrix of Slurm's troubles several times, then many jobs among troubles; the exit code is 1 when a job was lost or doubled."""

import argparse
import os
import subprocess
import sys

from portal.foundation.layout import SOURCE


def main():
    parser = argparse.ArgumentParser(prog="python -m tests.system.slurm", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="how often each line of the matrix is tried (default 5)")
    parser.add_argument("--jobs", type=int, default=500, help="how many jobs run among troubles (default 500)")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    told = os.environ | {"SLURM_TRIAL_JOBS": str(options.jobs), "SLURM_TRIAL_SEED": str(options.seed)}
    trials = ["test_matrix.py"] * options.rounds + (["many.py"] if options.jobs else [])
    bad = 0
    for name in trials:
        words = [sys.executable, "-m", "pytest", "-q", "-s", "-n", "0", f"tests/system/slurm/{name}"]
        bad |= subprocess.run(words, cwd=SOURCE, env=told).returncode
    return int(bool(bad))


if __name__ == "__main__":
    sys.exit(main())
