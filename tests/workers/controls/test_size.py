"""A shim stands beside each running part for the part's life: it is small under each Python that Berth runs with."""

from __future__ import annotations

import subprocess
import sys
from shutil import which

import pytest

from tests.workers.conftest import ROOT, wait_until
from tests.workers.controls.test_shim import ShimRun
from workers.system.procs import stat

SHIM_MIB = 15.0
LOADED = "import sys; sys.path.insert(0, sys.argv[1]); import workers.controls.shim; print(*sys.modules)"


@pytest.fixture(params=["", "python3.11", "python3.12", "python3.13", "python3.14"])
def python(request):
    found = which(request.param) if request.param else sys.executable
    if found is None or subprocess.run([found, "-c", ""], capture_output=True, check=False).returncode:
        pytest.skip(f"{request.param} is not here")
    return found


def test_its_memory(python, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "executable", python)
    run = ShimRun(tmp_path)
    try:
        run.prepare(command="sleep 60").start()
        wait_until((run.directory / "usage").exists)  # it has measured once, so all is loaded
        assert stat(run.engine.shim(run.directory).pid).rss_mib < SHIM_MIB
    finally:
        run.end()


def test_it_loads_no_dataclasses(python):
    done = subprocess.run([python, "-I", "-S", "-c", LOADED, str(ROOT)], capture_output=True, text=True, check=True)
    assert not {"dataclasses", "inspect", "threading"} & set(done.stdout.split())
