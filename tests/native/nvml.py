"""Builds the stub of NVIDIA's management library, which the real pynvml then loads."""

import shutil
import subprocess
from pathlib import Path

import pytest

SOURCE = Path(__file__).with_name("nvml_stub.c")


def built(tmp_path_factory, *flags):
    """Return the directory with the stub, as NVML's library."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("SKIPPED LOUDLY: no C compiler here, so nothing drove the real pynvml; install gcc to test NVML")
    directory = tmp_path_factory.mktemp("nvml")
    subprocess.run(
        [compiler, *flags, "-shared", "-fPIC", "-Wall", "-o", directory / "libnvidia-ml.so.1", SOURCE], check=True
    )
    return directory
