"""A Python that has PyTorch, and more, if this machine has one: Berth's own need not, and has not."""

import functools
import os
import subprocess
import sys

import pytest

from tests.workers.conftest import ROOT

INSTRUMENT = ROOT / "workers/instrument"


@functools.cache
def python_with(*modules):
    """An interpreter that finds these modules; None when there is none."""
    told = os.environ.get("BERTH_TEST_TORCH_PYTHON")
    for python in [told] if told else [sys.executable, "/usr/bin/python3"]:
        found = "import importlib.util, sys; sys.exit(not all(importlib.util.find_spec(each) for each in sys.argv[1:]))"
        if subprocess.run([python, "-c", found, *modules], capture_output=True).returncode == 0:
            return python
    return None


def torchrun_works():
    """PyTorch 1.13, Debian's, cannot start a process on Python 3.11 (`to_map`: 'NoneType' object has no attribute 'get')."""
    python = python_with("torch")
    if python is None:
        return False
    asked = [python, "-c", "from importlib.metadata import version; print(version('torch'))"]
    return int(subprocess.run(asked, capture_output=True, text=True, check=True).stdout.split(".")[0]) >= 2


def needs(*modules):
    """Skip, loudly, without them."""
    return pytest.mark.skipif(
        python_with(*modules) is None,
        reason=f"no Python here has {' and '.join(modules)}; set BERTH_TEST_TORCH_PYTHON to one that has",
    )


def environment(directory, **more):
    """What a job's process finds."""
    names = {key: os.environ[key] for key in ("PATH", "HOME", "LANG") if key in os.environ}
    return {
        **names,
        "PYTHONPATH": str(INSTRUMENT),
        "PYTHONDONTWRITEBYTECODE": "1",
        "BERTH_RECORDS_DIR": str(directory),
        "OMP_NUM_THREADS": "1",
        **more,
    }
