"""What a part has on disk: sums compared with `du`, whatever a job puts there; and the shim that ends it above its limit."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.workers.conftest import wait_until
from tests.workers.controls.test_shim import shim  # noqa: F401 - a fixture
from workers.controls.diskuse import DEEPEST, DiskMeter

MIB = 2**20


def measured(*roots, pids=(), limit_mib=1000):
    meter = DiskMeter(list(roots), limit_mib, pids)
    for _ in meter.walk():
        pass
    return meter


def du(directory):
    """Bytes allocated below it, the directory itself left out, as `du` counts."""
    shown = subprocess.run(
        [shutil.which("du"), "-s", "--block-size=1", directory], capture_output=True, text=True, check=True
    )
    return int(shown.stdout.split()[0]) - os.lstat(directory).st_blocks * 512


TREES = st.recursive(st.integers(0, 40_000), lambda below: st.dictionaries(st.sampled_from("abcdé"), below, max_size=4))


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(tree=TREES, link=st.booleans())
def test_it_counts_what_du_counts(tmp_path, tree, link):
    directory = Path(tempfile.mkdtemp(dir=tmp_path))

    def make(path, below):
        if isinstance(below, int):
            path.write_bytes(b"x" * below)
        else:
            path.mkdir(exist_ok=True)
            for name, each in below.items():
                make(path / name, each)

    make(directory / "top", tree)
    if link and isinstance(tree, int):
        os.link(directory / "top", directory / "again")
    assert measured(directory).used_bytes == du(directory)


def test_holes_are_not_counted_and_a_file_with_two_names_once(tmp_path):
    with (tmp_path / "sparse").open("wb") as file:
        file.truncate(10**12)
    (tmp_path / "a").write_bytes(b"x" * MIB)
    os.link(tmp_path / "a", tmp_path / "b")
    assert MIB <= measured(tmp_path).used_bytes < 1.1 * MIB


def test_links_pipes_and_sockets_lead_nowhere(tmp_path):
    elsewhere, inside = tmp_path / "elsewhere", tmp_path / "inside"
    elsewhere.mkdir()
    inside.mkdir()
    (elsewhere / "big").write_bytes(b"x" * MIB)
    (inside / "link").symlink_to(elsewhere)
    (inside / "file").symlink_to(elsewhere / "big")
    (inside / "loop").symlink_to(".")
    os.mkfifo(inside / "pipe")
    assert measured(inside).used_bytes < 100_000
    (tmp_path / "root").symlink_to(elsewhere)
    assert measured(tmp_path / "root").used_bytes == 0, "not even where the root itself was swapped for a link"


def test_a_directory_its_owner_may_not_read_is_counted(tmp_path):
    hidden = tmp_path / "hidden"
    hidden.mkdir()
    (hidden / "big").write_bytes(b"x" * MIB)
    hidden.chmod(0)
    try:
        assert measured(tmp_path).used_bytes >= MIB
    finally:
        hidden.chmod(0o700)


def test_what_was_deleted_and_is_still_open_is_counted(tmp_path):
    with (tmp_path / "gone").open("wb") as file:
        file.write(b"x" * MIB)
        file.flush()
        (tmp_path / "gone").unlink()
        assert measured(tmp_path).used_bytes < MIB
        assert MIB <= measured(tmp_path, pids=[os.getpid()]).used_bytes < 1.1 * MIB


def test_too_deep_is_said_and_costs_no_descriptors(tmp_path):
    at = os.open(tmp_path, os.O_RDONLY)
    for _ in range(DEEPEST + 20):
        os.mkdir("d", dir_fd=at)
        below = os.open("d", os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = below
    os.close(at)
    before = len(os.listdir("/proc/self/fd"))
    meter = measured(tmp_path)
    assert meter.too_deep
    assert "more than 100 deep" in meter.over()
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_directory_that_goes_while_it_is_walked(tmp_path):
    for number in range(2000):
        (tmp_path / f"d{number}").mkdir()
    meter = DiskMeter([tmp_path], 1000)
    steps = meter._steps()
    for _ in range(10):
        next(steps)
    for entry in tmp_path.iterdir():
        entry.rmdir()
    assert list(steps) is not None


def test_a_hundred_thousand_files_cost_a_fiftieth_of_a_core(tmp_path):
    """The walk works for 20 ms and rests; the sum under way counts as soon as it is above the limit."""
    for folder in range(20):
        directory = tmp_path / str(folder)
        directory.mkdir()
        for number in range(1000):
            (directory / str(number)).touch()
    meter = DiskMeter([tmp_path], 1000)
    before = resource.getrusage(resource.RUSAGE_SELF)
    slices = sum(1 for _ in meter.walk())
    after = resource.getrusage(resource.RUSAGE_SELF)
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(f"20 000 files: {cpu_s:.3f} s of CPU in {slices + 1} slices")
    assert cpu_s < 2.0, "100 000 would take ten"
    assert slices >= 1, "it never holds the processor for long"


class TestShim:
    def test_a_job_that_writes_too_much_is_ended_with_the_figures(self, shim):  # noqa: F811
        command = "i=0; while :; do dd if=/dev/zero of=f$i bs=1M count=4 2>/dev/null; i=$((i+1)); sleep 0.1; done"
        result = shim.prepare(command=command, disk_mib=20).start().result(within_s=60)
        assert (result["reason"], result["signal"]) == ("disk_limit", signal.SIGKILL)
        used = int(result["detail"].split()[2])
        assert result["detail"] == f"it used {used} MiB of disk; its limit is 20 MiB (disk_gib)"
        assert used > 20

    @pytest.mark.parametrize(
        "where", ["$TMPDIR/f", "$BERTH_CHECKPOINT_DIR/f", "/dev/stdout"], ids=["tmp", "checkpoints", "log"]
    )
    def test_tmp_checkpoints_and_logs_count(self, shim, where):  # noqa: F811
        command = f"dd if=/dev/zero bs=1M count=30 2>/dev/null >> {where}; sleep 600"
        result = shim.prepare(command=command, disk_mib=20, log_limit_bytes=1 << 30).start().result(within_s=60)
        assert result["reason"] == "disk_limit"

    def test_deleted_files_that_are_still_open_count(self, shim):  # noqa: F811
        command = "exec 3> gone; rm gone; dd if=/dev/zero bs=1M count=30 >&3 2>/dev/null; sleep 600"
        assert shim.prepare(command=command, disk_mib=20).start().result(within_s=60)["reason"] == "disk_limit"

    def test_one_within_its_limit_ends_as_it_likes(self, shim):  # noqa: F811
        command = "dd if=/dev/zero of=f bs=1M count=10 2>/dev/null; sleep 3; exit 7"
        result = shim.prepare(command=command, disk_mib=20).start().result(within_s=60)
        assert (result["reason"], result["exit_code"]) == ("exit", 7)

    def test_without_a_limit_nothing_is_measured(self, shim):  # noqa: F811
        shim.prepare(command="sleep 600", disk_mib=None).start()
        pid = wait_until(lambda: shim.engine.shim(shim.directory), within_s=30).pid
        time.sleep(2)
        assert len(list(Path(f"/proc/{pid}/task").iterdir())) == 1
        shim.engine.stop(shim.directory, grace_s=0, detail="")
        shim.result(within_s=30)
