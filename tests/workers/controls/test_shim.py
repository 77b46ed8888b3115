"""One shim at a time, without an agent: what a job is given, and which limits end it."""

from __future__ import annotations

import base64
import json
import os
import pwd
import secrets
import signal
import subprocess
import sys
import time

import psutil
import pytest

from tests.remains import groups_remove, kill_all_of, processes_of
from tests.smalldisk import small_disk
from tests.workers.conftest import ROOT, wait_until
from tests.workers.specs import spec_make
from workers.controls.cores import cores_map
from workers.controls.partfiles import EXIT_LOCKED, EXIT_USED, limit_now
from workers.controls.spawn import AUTOGROUP
from workers.engines.process import ProcessEngine
from workers.parts.contents import SpecError
from workers.parts.workspace import Rooms, Workplace, part_prepare
from workers.system.landlock import landlock_version
from workers.system.procs import boot_id, boottime

DEAF = "python3 -c 'import signal, time; signal.signal(15, signal.SIG_IGN); time.sleep(60)'"
PART = {"attempt": 5, "job": 9, "job_key": "9", "epoch": 2, "name": "train", "epochs_before": 1}


class ShimRun:
    """A prepared part in its own directory."""

    def __init__(self, root) -> None:
        self.root, self.directory, self.job = root, root / "parts/5-2-0", root / "jobs/5-2-0"
        self.directory.mkdir(parents=True)
        self.engine, self.mark = ProcessEngine(), secrets.token_hex(8)  # its own: `end` kills whoever has it

    def prepare(
        self,
        *,
        walls=None,
        version=None,
        virtual=True,
        grace_s=1.0,
        lease_s=None,
        nice=0,
        pids_limit=None,
        accounts=False,
        view=None,
        devices=None,
        programs=None,
        allocation=False,
        **spec,
    ) -> ShimRun:
        kept = {
            "pids_limit": pids_limit,
            "accounts": accounts,
            "view": view,
            "devices": devices,
            "programs": programs,
            "allocation": allocation,
            "walls": walls,
            "landlock": version or landlock_version(),
            "virtual": virtual,
            "virtual_pace": None,
            "nice": nice,
            "boot_id": boot_id(),
            "node_grace_s": grace_s,
            "lease_grace_s": 3.0,
        }
        place = Workplace(self.root / "storage", **kept)
        rooms = Rooms(self.directory, self.job, mark=self.mark)
        part_prepare(rooms, spec_make(**{**PART, **spec}), {"lease_s": lease_s}, place)
        return self

    def start(self, network: int | None = None) -> ShimRun:
        self.engine.start(self.directory, network=network)
        return self

    def result(self, *, within_s: float = 60.0) -> dict:
        wait_until(lambda: self.life() in {"ended", "lost"}, within_s=within_s)
        return self.engine.result(self.directory)

    def life(self) -> str:
        try:
            return self.engine.life(self.directory)
        except PermissionError:
            return "closed"  # by its job: an ordinary account reads nothing until the shim opens it again

    def end(self) -> None:
        """Leave nothing of it behind."""
        kill_all_of(self.directory)
        self.engine.reap()
        groups_remove(self.root)

    def stdout(self) -> str:
        return (self.directory / "stdout").read_text()


@pytest.fixture
def shim(tmp_path):
    run = ShimRun(tmp_path)
    yield run
    run.end()


def environment_of(shim: ShimRun) -> dict[str, str]:
    assert shim.start().result()["exit_code"] == 0
    return dict(line.split("=", 1) for line in shim.stdout().split("\0") if line)


COMMAND = "exec /usr/bin/env -0"


def test_environment_is_exactly_what_is_promised(shim, monkeypatch):
    monkeypatch.setenv("SECRET_OF_THE_AGENT", "x")
    world = {
        "nodes": [{"name": "n1", "address": "10.0.0.1"}, {"name": "n2", "address": "10.0.0.2"}],
        "port": 29400,
        "gpus_total": 4,
    }
    shim.prepare(
        command=COMMAND,
        gpus=[3, 5],
        gpu_type="A100",
        cores=[0, 1, 2],
        memory_mib=512,
        world=world,
        environment={"MINE": "a=b c", "LANG": "de_DE.UTF-8", "CUDA_VISIBLE_DEVICES": "0,1,2,3", "MASTER_PORT": "1"},
    )
    work = str(shim.job / "work")
    assert environment_of(shim) == {
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "HOME": work,
        "USER": pwd.getpwuid(os.getuid()).pw_name,
        "LANG": "de_DE.UTF-8",
        "TMPDIR": str(shim.job / "tmp"),
        "PWD": work,  # the shell's own
        "MINE": "a=b c",
        "CUDA_VISIBLE_DEVICES": "3,5",
        "BERTH_ATTEMPT": "5",
        "BERTH_CHECKPOINT_DIR": str(shim.root / "storage/checkpoints/9"),
        "BERTH_CORES": "3",
        "BERTH_CORES_FILE": str(shim.job / "cores"),
        "BERTH_EPOCH": "2",
        "BERTH_EPOCHS_BEFORE": "1",
        "BERTH_GPUS": "2",
        "BERTH_GPUS_TOTAL": "4",
        "BERTH_GPU_TYPE": "A100",
        "BERTH_INSTRUMENT_PATH": str(ROOT / "workers/instrument"),
        "BERTH_ARTEFACTS": str(shim.job / "artefacts"),
        "BERTH_RECORDS_DIR": str(shim.job / "records"),
        "BERTH_JOB_DIR": work,
        "BERTH_JOB_ID": "9",
        "BERTH_JOB_NAME": "train",
        "BERTH_MEMORY_MIB": "512",
        "BERTH_NODES": "2",
        "BERTH_NODE_NAME": "n1",
        "BERTH_NODE_NAMES": "n1,n2",
        "BERTH_GPU_INDICES": "3,5",
        "BERTH_MARK": shim.mark,
        "BERTH_PYTHON": sys.executable,
        "BERTH_RANK": "0",
        "BERTH_TENANT": "acme",
        "BERTH_USER": "ada",
        "MASTER_ADDR": "10.0.0.1",
        "MASTER_PORT": "29400",
        "NNODES": "2",
        "NODE_RANK": "0",
        "NPROC_PER_NODE": "2",
        "WORLD_SIZE": "4",
        "PET_MASTER_ADDR": "10.0.0.1",
        "PET_MASTER_PORT": "29400",
        "PET_NNODES": "2",
        "PET_NODE_RANK": "0",
        "PET_NPROC_PER_NODE": "2",
    }


@pytest.mark.parametrize(
    ("virtual", "gpus", "uuids", "visible"),
    [
        pytest.param(False, [0, 1], ["GPU-a", "GPU-b"], "GPU-a,GPU-b", id="real GPUs by uuid"),
        pytest.param(True, [6, 7], ["VIRTUAL-6", "VIRTUAL-7"], "6,7", id="virtual GPUs by index"),
        pytest.param(False, [], [], "", id="a CPU job sees none"),
    ],
)
def test_visible_devices(shim, virtual, gpus, uuids, visible):
    shim.prepare(command=COMMAND, virtual=virtual, gpus=gpus, gpu_uuids=uuids)
    assert environment_of(shim)["CUDA_VISIBLE_DEVICES"] == visible


def test_files_lie_in_the_working_directory_and_checkpoints_stay(shim):
    text = base64.b64encode(b"print(open('data/in.txt').read())").decode()
    data = base64.b64encode("\u00e4\n".encode()).decode()
    command = '"$BERTH_PYTHON" ../main.py >"$BERTH_CHECKPOINT_DIR/out" && pwd'
    shim.prepare(command=command, files={"main.py": text, "sub/data/in.txt": data}, working_directory="sub")
    assert shim.start().result()["exit_code"] == 0
    assert shim.stdout() == f"{shim.job}/work/sub\n"
    assert (shim.root / "storage/checkpoints/9/out").read_text() == "\u00e4\n\n"


@pytest.mark.parametrize("name", ["../x", "/etc/x", "a/../../x", "", "."])
def test_file_names_that_lead_out_are_refused(shim, name):
    with pytest.raises(SpecError, match="file"):
        shim.prepare(files={name: ""})


def test_affinity_and_niceness(shim):
    real = sorted(os.sched_getaffinity(0))
    command = "exec \"$BERTH_PYTHON\" -c 'import os; print(sorted(os.sched_getaffinity(0)), os.nice(0))'"
    shim.prepare(command=command, cores=[len(real) * 3], nice=5).start().result()
    assert shim.stdout() == f"[{real[0]}] {min(19, os.nice(0) + 5)}\n"  # whoever runs the tests may be nice already


@pytest.mark.skipif(not AUTOGROUP.exists(), reason="a kernel without autogroups")
def test_its_session_is_as_nice_as_it_is(shim):
    """Where cores are shared by session first, the niceness of the processes alone would be worth nothing."""
    shim.prepare(command="cat /proc/self/autogroup", nice=5).start().result()
    assert shim.stdout().endswith(" nice 5\n")


def test_declared_cores_map_onto_real_ones():
    assert cores_map([0, 1, 2, 3], [4, 5]) == {4, 5}
    assert cores_map([6], [4, 5]) == {4}
    assert cores_map([], [4, 5]) == {4, 5}


def test_no_signal_is_ignored_and_no_descriptor_is_inherited(shim):
    command = "grep SigIgn /proc/self/status; ls /proc/self/fd | wc -l; ps -o sid= -p $$ | tr -d ' '; echo $$"
    shim.prepare(command=command).start().result()
    ignored, descriptors, session, pid = shim.stdout().split("\n")[:4]
    assert int(ignored.split()[1], 16) == 0
    assert int(descriptors) == 4  # 0, 1, 2 and the one that ls itself reads with
    assert session == pid


def test_time_limit_asks_then_kills(shim):
    shim.prepare(command="trap 'echo asked' TERM; sleep 20 & wait; wait; sleep 20", time_limit_s=0.5, grace_s=0.5)
    result = shim.start().result()
    assert (result["reason"], result["signal"]) == ("time_limit", signal.SIGKILL)
    assert shim.stdout() == "asked\n"
    assert 0.9 < result["ran_s"] < 15, "it asked for 40 s"


def test_a_job_that_saves_when_asked_keeps_its_exit_code(shim):
    shim.prepare(command="trap 'echo saved; exit 7' TERM; sleep 20 & wait", time_limit_s=0.3, grace_s=5)
    result = shim.start().result()
    assert (result["reason"], result["exit_code"], shim.stdout()) == ("time_limit", 7, "saved\n")


def test_children_get_the_grace_that_their_shell_does_not_wait_for(shim):
    """SIGTERM ends the shell at once; the program it ran still has its time to write a checkpoint."""
    script = "import signal,time,sys\ndef end(*_):\n time.sleep(0.7); print('saved', flush=True); sys.exit(0)\nsignal.signal(15, end)\nprint('up', flush=True)\ntime.sleep(30)"
    shim.prepare(
        command='"$BERTH_PYTHON" main.py; true', files={"main.py": base64.b64encode(script.encode()).decode()}
    ).start()
    wait_until(lambda: (shim.directory / "stdout").exists() and shim.stdout() == "up\n")
    shim.engine.stop(shim.directory, grace_s=5, detail="cancel")
    assert shim.result()["reason"] == "stopped"
    assert shim.stdout() == "up\nsaved\n"


STUBBORN = "trap '' TERM; echo up; while :; do sleep 0.05; done"
"""It is not ended by SIGTERM."""


@pytest.mark.parametrize(
    ("command", "graces", "overran"),
    [
        (STUBBORN, [0.3], True),
        (STUBBORN, [0.0], False),
        (STUBBORN, [60.0, 0.0], False),
        ("trap 'exit 7' TERM; echo up; while :; do sleep 0.05; done", [60.0], False),
    ],
    ids=["outlived", "killed at once", "cut short", "in time"],
)
def test_a_stop_tells_whether_the_job_outlived_its_grace(shim, command, graces, overran):
    """Only one that had the whole grace that it was given, and still ran, has overrun it."""
    shim.prepare(command=command).start()
    wait_until(lambda: (shim.directory / "stdout").exists() and shim.stdout() == "up\n")
    for grace_s in graces:
        shim.engine.stop(shim.directory, grace_s=grace_s, detail="preempt")
    result = shim.result()
    assert (result["reason"], result["overran"]) == ("stopped", overran)


def test_a_time_limit_is_no_order_to_stop(shim):
    result = shim.prepare(command=STUBBORN, time_limit_s=0.3, grace_s=0.3).start().result()
    assert (result["reason"], result["overran"]) == ("time_limit", False)


def test_memory_of_all_processes_counts(shim):
    """Three processes of some 60 MiB each stay under 100 MiB one by one, not together."""
    hold = "b=bytearray(60<<20); import time; time.sleep(20)"
    command = f'for i in 1 2 3; do "$BERTH_PYTHON" -S -c "{hold}" & done; wait'
    result = shim.prepare(command=command, memory_mib=100).start().result()
    assert (result["reason"], result["signal"]) == ("out_of_memory", signal.SIGKILL)
    used, told = int(result["detail"].split()[2]), "; its limit is 100 MiB"
    # The kernel stops it at its limit where it can; else the shim finds it above.
    assert result["detail"] in {f"it used {used} MiB of memory{more}{told}" for more in ("", " and asked for more")}
    assert 99 <= used < 260
    assert processes_of(shim.directory) == []


def test_shared_memory_counts_once(shim):
    """Four forks share 60 MiB: their resident sizes add up to 240, their proportional sizes to 60."""
    hold = "b=bytearray(60<<20); import os,time; os.fork(); os.fork(); time.sleep(2.5)"
    result = shim.prepare(command=f'exec "$BERTH_PYTHON" -S -c "{hold}"', memory_mib=120).start().result()
    assert (result["reason"], result["exit_code"]) == ("exit", 0)
    assert 55 < result["peak_memory_mib"] < 110


def test_lease_of_another_boot_or_none_does_not_start(shim):
    shim.prepare(command="touch started", lease_s=10)
    assert shim.start().result()["reason"] == "lease"
    assert not (shim.job / "work/started").exists()


def test_lease_ends_the_job(shim):
    shim.prepare(command="sleep 20", lease_s=10)
    shim.engine.lease(shim.directory, until=boottime() + 0.7)
    assert shim.start().result()["reason"] == "lease"


def test_background_processes_end_with_the_command(shim):
    shim.prepare(command="(setsid sh -c \"trap '' TERM; while :; do sleep 341; done\" &) ; sleep 0.2; exit 5")
    result = shim.start().result()
    assert (result["reason"], result["exit_code"]) == ("exit", 5)
    assert processes_of(shim.directory) == []


def test_a_directory_starts_once(shim):
    shim.prepare(command='echo once >> "$BERTH_CHECKPOINT_DIR/starts"; sleep 0.7').start()
    wait_until(lambda: shim.engine.job(shim.directory))
    again = [sys.executable, "-I", "-S", "workers/shim.py", str(shim.directory)]
    assert subprocess.run(again, check=False).returncode == EXIT_LOCKED
    shim.result()
    assert subprocess.run(again, check=False).returncode == EXIT_USED
    assert (shim.root / "storage/checkpoints/9/starts").read_text() == "once\n"


def test_a_void_directory_never_starts(shim):
    shim.prepare(command="touch started")
    assert shim.engine.void(shim.directory)
    shim.start()
    wait_until(lambda: shim.engine.reap() or not shim.engine._children)
    assert shim.engine.life(shim.directory) == "void"
    assert not (shim.job / "work/started").exists()


def test_what_cannot_start_names_the_step(shim):
    shim.prepare(command="true")
    launch = json.loads((shim.directory / "launch.json").read_text())
    (shim.directory / "launch.json").write_text(json.dumps({**launch, "cwd": "/nowhere"}))
    result = shim.start().result()
    assert result["reason"] == "start_failed"
    assert "working directory /nowhere" in result["detail"]


def test_shim_is_told_by_signal_too(shim):
    shim.prepare(command="sleep 20").start()
    wait_until(lambda: shim.engine.job(shim.directory))
    shim.engine.shim(shim.directory).signal(signal.SIGTERM)
    assert shim.result()["reason"] == "stopped"


def test_a_command_that_a_batch_system_ended_before_its_shim_looked_was_stopped(shim):
    """Slurm signals all processes of a job at once; one that saves and ends with 0 has not completed."""
    shim.prepare(command="trap 'exit 0' TERM; while :; do sleep 0.05; done").start()
    wait_until(lambda: shim.engine.job(shim.directory))
    own = shim.engine.shim(shim.directory)
    command = psutil.Process(shim.engine.job(shim.directory)["pid"])
    own.signal(signal.SIGSTOP)
    own.signal(signal.SIGTERM)
    command.terminate()
    wait_until(lambda: command.status() == psutil.STATUS_ZOMBIE)
    own.signal(signal.SIGCONT)
    assert shim.result()["reason"] == "stopped"


@pytest.mark.parametrize(
    ("command", "code"), [("exec sleep 60", None), (f"{DEAF} & exec sleep 60", None), ("exit 3", 3)]
)
def test_in_an_allocation_a_command_may_be_signalled_before_its_shim(shim, command, code):
    shim.prepare(command=command, allocation=True).start()
    if code is None:
        wait_until(lambda: shim.engine.job(shim.directory))
        psutil.Process(shim.engine.job(shim.directory)["pid"]).terminate()
        time.sleep(0.1)
        shim.engine.shim(shim.directory).signal(signal.SIGTERM)
    result = shim.result()
    assert (result["reason"], result["exit_code"]) == (("exit", code) if code else ("stopped", None))


def test_usage_counts_processor_time(shim):
    shim.prepare(command="timeout 2 sh -c 'while :; do :; done'").start().result()
    usage = shim.engine.usage(shim.directory)
    assert 0.5 < usage.cpu_s + usage.wait_s < 6


def test_a_removed_directory_is_made_again_for_the_result(shim):
    """The job takes its control files away; its shim still says how it ended, and ends."""
    shim.prepare(command=f"rm -rf {shim.directory}; exit 3").start()
    path = shim.directory / "result.json"
    wait_until(lambda: path.exists() and json.loads(path.read_text())["exit_code"] == 3)
    wait_until(lambda: shim.engine.reap() or not shim.engine._children)


def test_what_is_closed_is_opened_again_by_the_shim(shim):
    shim.prepare(command=f"chmod 000 {shim.directory}; exit 3").start()
    assert shim.result(within_s=40)["exit_code"] == 3


SHIM_AFTER = """
import os, pathlib, sys, time
from workers.controls import shim
spawn = shim.command_spawn
def until_full(launch, *others):
    pid = spawn(launch, *others)
    while os.statvfs(sys.argv[1]).f_bavail:
        time.sleep(0.01)
    return pid
shim.command_spawn = until_full
sys.exit(shim.main(pathlib.Path(sys.argv[1])))
"""
"""A shim that comes to write `job.json` only when its job has filled the disk, as happens on a busy node."""


@pytest.mark.system  # needs the right to mount
def test_a_job_that_fills_the_disk_before_anything_of_it_is_written_still_reports_its_end():
    with small_disk(32) as disk:
        run = ShimRun(disk.path / "node").prepare(command="cat /dev/zero > big 2>/dev/null; sleep 600", disk_mib=8)
        command = [sys.executable, "-c", SHIM_AFTER, str(run.directory)]
        ran = subprocess.run(command, cwd=ROOT, timeout=60, check=False, capture_output=True)
        assert (ran.returncode, ran.stderr) == (0, b"")
        result, job = (json.loads((run.directory / f"{name}.json").read_text()) for name in ("result", "job"))
        assert (result["reason"], result["pid"]) == ("disk_limit", job["pid"])
        assert disk.free_mib() > 16, "what was too much is gone"


def test_a_longer_time_limit_holds(shim):
    shim.prepare(command="sleep 2; echo done", time_limit_s=0.5)
    shim.engine.limit(shim.directory, limit_s=600)
    result = shim.start().result()
    assert (result["reason"], shim.stdout()) == ("exit", "done\n")


def test_a_shorter_one_changes_nothing(shim):
    shim.prepare(command="true", time_limit_s=600)
    shim.engine.limit(shim.directory, limit_s=5)
    assert limit_now(shim.directory, {"time_limit_s": 600}) == 600
    assert limit_now(shim.directory, {"time_limit_s": None}) is None
