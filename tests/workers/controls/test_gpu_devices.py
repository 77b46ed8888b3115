"""A job opens the device files of its own GPUs and of no other's, as root's nodes run it; two of the kernel's own files stand for GPUs."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from tests.workers.controls.test_shim import ShimRun
from workers.agent.isolation import program_of
from workers.agent.trying import try_limits
from workers.system.gpus import Devices
from workers.system.view import View

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="SKIPPED LOUDLY: accounts for tenants need root"),
]
GPUS = Devices({"GPU-a": "/dev/full", "GPU-b": "/dev/zero"}, ("/dev/full", "/dev/zero", "/dev/nvidia-is-not-here"))
CLOSED = {wall["name"]: wall["by"] for wall in try_limits()}["devices"]
TRY = """
for name in full zero; do
  if head -c 1 /dev/$name > /dev/null 2>&1; then echo $name; fi
done
if mknod ./made c 1 5 2> /dev/null && head -c 1 ./made > /dev/null 2>&1; then echo made; fi
chmod 666 /dev/zero 2> /dev/null; if head -c 1 /dev/zero > /dev/null 2>&1; then echo opened; fi
umount /dev/zero 2> /dev/null && echo uncovered
echo end
"""


def opened_by(shim: ShimRun, *uuids: str, view: bool, accounts: bool = True) -> list[str]:
    kept = View((shim.root,), program_of(shim.root)) if view else None
    gpus = {"gpus": list(range(len(uuids))), "gpu_uuids": list(uuids), "gpu_type": "Test GPU"}
    shim.prepare(command=TRY, devices=GPUS, view=kept, accounts=accounts, **gpus).start()
    assert shim.result()["exit_code"] == 0
    return shim.stdout().split()


@pytest.fixture
def shim():
    """Where an account may go: pytest's own directories are root's."""
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="berth-test-") as directory:
        Path(directory).chmod(0o755)
        run = ShimRun(Path(directory).resolve())
        yield run
        run.end()


@pytest.mark.parametrize(
    ("uuids", "open_to_it"), [(("GPU-a",), ["full"]), (("GPU-a", "GPU-b"), ["full", "zero"]), ((), [])]
)
def test_with_a_view_of_files_its_own_gpus_alone_can_be_opened(shim, uuids, open_to_it):
    said = opened_by(shim, *uuids, view=True)
    assert [word for word in said if word not in {"end", "opened"}] == open_to_it
    assert ("opened" in said) == ("GPU-b" in uuids)


@pytest.mark.skipif(not CLOSED, reason="SKIPPED LOUDLY: no control group of devices can be made here")
def test_by_the_control_group_too_where_root_may_not_mount(shim):
    assert opened_by(shim, "GPU-a", view=False, accounts=False) == ["full", "end"]
