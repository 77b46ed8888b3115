"""The road of one job, on a whole Berth with virtual nodes: every state a job can come to, and what it left behind."""

import re
import sys
import time
from pathlib import Path

import pytest

from portal.foundation.layout import SOURCE
from tests.system.helpers.client import Tenant, leaks, rows
from tests.system.helpers.ledger import alive
from tests.workers.instrument.torches import python_with, torchrun_works

pytestmark = [pytest.mark.system, pytest.mark.xdist_group("shells")]

COUNTING = "i=0; while :; do i=$((i+1)); echo line $i; sleep 0.3; done"
GREEDY = (
    f'exec {sys.executable} -c "import time; held = bytearray(200 << 20); print(len(held), flush=True); time.sleep(60)"'
)


@pytest.fixture(scope="module")
def berth(berth_shared):
    """With the lease that Berth has by default: nothing here is to end by it."""
    return berth_shared


@pytest.fixture
def tenant(berth):
    return Tenant(berth)


def pid_in(berth, note: Path):
    berth.wait(lambda: note.exists() and note.read_text().strip(), what=f"a pid in {note.name}")
    return int(note.read_text())


def test_from_submission_to_completion_with_a_growing_log(tenant):
    number = tenant.submit("for i in 1 2 3 4 5 6 7 8; do echo line $i; sleep 0.5; done; echo bye >&2")
    tenant.wait_state(number, "RUNNING")
    tenant.wait_log(number, "line 1\n")
    before = tenant.log(number, stream="stdout")
    assert tenant.state(number) == "RUNNING", "the log is there while it runs"
    tenant.wait_log(number, "line 4\n")
    assert tenant.log(number, stream="stdout").startswith(before)
    job = tenant.wait_state(number, "COMPLETED")
    assert tenant.log(number, stream="stdout") == "".join(f"line {i}\n" for i in range(1, 9))
    assert tenant.wait_log(number, "bye", stream="stderr") == "bye\n"
    (attempt,) = job["attempts"]
    assert (job["exit_code"], attempt["state"], attempt["epoch"]) == (0, "COMPLETED", 1)
    assert attempt["created_at"] <= attempt["started_at"] <= attempt["ended_at"]
    kinds = [
        kind for (kind,) in rows(tenant.berth, "select kind from jobs_jobevent where job_id = ? order by id", job["id"])
    ]
    assert [kind for kind in kinds if kind in {"submitted", "starting", "placed", "started", "completed"}][
        -1
    ] == "completed"
    assert kinds.index("started") < kinds.index("completed")


def test_a_running_job_is_cancelled(berth, tenant, tmp_path):
    note = tmp_path / "pid"
    number = tenant.submit(f"echo $$ > {note}; exec sleep 600")
    pid = pid_in(berth, note)
    tenant.wait_state(number, "RUNNING")
    tenant.act(number, "cancel")
    tenant.wait_state(number, "CANCELLED")
    assert not alive(pid)


def test_a_waiting_job_is_cancelled_and_never_runs(tenant, tmp_path):
    first = tenant.submit("sleep 600")
    second = tenant.submit(f"touch {tmp_path}/ran", depends_on=[int(first)])
    assert tenant.state(second) == "PENDING"
    tenant.act(second, "cancel")
    assert tenant.state(second) == "CANCELLED"
    tenant.act(first, "cancel")
    tenant.wait_state(first, "CANCELLED")
    assert not (tmp_path / "ran").exists()


def test_a_job_ends_at_its_time_limit(tenant):
    number = tenant.submit(
        "echo on; sleep 600", time_limit_s=6
    )  # on a busy machine a shell says its first word after seconds
    job = tenant.wait_state(number, "TIMEOUT")
    assert "limit" in job["end_detail"]
    assert tenant.wait_log(number, "on") == "on\n"


def test_a_job_above_its_memory_is_ended(tenant):
    number = tenant.submit(GREEDY, memory_mib=100)
    job = tenant.wait_state(number, "OUT_OF_MEMORY")
    assert "MiB" in job["end_detail"]


def test_an_exit_code_is_kept_and_retried_as_often_as_asked(tenant):
    number = tenant.submit("exit 7", retries=1)
    job = tenant.wait_state(number, "FAILED")
    assert job["exit_code"] == 7
    assert [attempt["exit_code"] for attempt in job["attempts"]] == [7, 7]


def test_an_array_stays_under_its_cap(berth, tenant, tmp_path):
    """Each task notes its start and end itself; from those follows how many ran at once."""
    notes = tmp_path / "notes"
    command = f"echo +$BERTH_ARRAY_INDEX >> {notes}; sleep 0.7; echo -$BERTH_ARRAY_INDEX >> {notes}"
    array = tenant.submit(command, gpus=0, cores=1, array={"size": 12, "concurrency": 3})
    most = []

    def ended():
        states = [task["state"] for task in tenant.tasks(array)]
        most.append(sum(state in {"STARTING", "RUNNING"} for state in states))
        return tenant.state(array) == "COMPLETED"

    berth.wait(ended, limit_s=150, what="the array's end")
    assert max(most) <= 3
    live = peak = 0
    for line in notes.read_text().split():
        live += 1 if line[0] == "+" else -1
        peak = max(peak, live)
    assert 1 <= peak <= 3
    assert sorted(line for line in notes.read_text().split() if line[0] == "+") == sorted(f"+{i}" for i in range(12))
    assert {task["state"] for task in tenant.tasks(array)} == {"COMPLETED"}


def test_a_job_waits_for_the_one_it_depends_on(tenant):
    first = tenant.submit("sleep 2")
    second = tenant.submit("echo second", depends_on=[int(first)])
    broken = tenant.submit("exit 1", depends_on=[int(second)])
    stuck = tenant.submit("echo never", depends_on=[int(broken)])
    assert tenant.state(second) == "PENDING"
    ended = tenant.wait_state(second, "COMPLETED")
    assert tenant.job(first)["ended_at"] <= ended["attempts"][0]["created_at"]
    tenant.wait_state(broken, "FAILED")
    job = tenant.wait_state(stuck, "CANCELLED")
    assert broken in job["end_detail"]
    assert job["attempts"] == []


def test_section_2_an_instrumented_elastic_job_is_profiled_before_it_starts_and_is_placed_by_what_was_found(
    berth, tenant
):
    described = {
        "command": '"$BERTH_PYTHON" train.py --steps 1000000 --seconds ${BERTH_PROFILE:+6}2',  # 62 in a profile
        "files": {"train.py": (SOURCE / "examples/charlm/train.py").read_text()},
        "gpus": [1, 2],
        "gpu_types": ["RTX 3090"],
        "cores_per_gpu": 1,
        "model": "road",
        "instrumented": True,
    }
    number = tenant.submit(**described)
    reasons = set()

    def started():
        job = tenant.job(number)
        reasons.add((job["state"], job["reason"]))
        return job["attempts"]

    berth.wait(started, limit_s=90, what="its first attempt")
    assert ("PENDING", "profiling") in reasons
    job = tenant.wait_state(number, "COMPLETED")
    (profile,), (attempt,) = job["profiles"], job["attempts"]
    assert (profile["state"], profile["gpu_type"]) == ("COMPLETED", "RTX 3090")
    assert 10 <= profile["speed"]["iterations"] <= 50
    assert profile["ended_at"] <= attempt["created_at"], "what was found was there before it was placed"
    assert job["waited_s"] > 0
    again = tenant.wait_state(tenant.submit(**described), "COMPLETED")
    assert (again["profiles"], len(again["attempts"])) == ([], 1)


def test_a_held_job_does_not_start_until_released(tenant):
    first = tenant.submit("sleep 3")
    number = tenant.submit("echo released", depends_on=[int(first)])
    tenant.act(number, "hold")
    tenant.wait_state(first, "COMPLETED")
    time.sleep(2.0)
    assert tenant.job(number)["attempts"] == []
    assert tenant.state(number) == "HELD"
    tenant.act(number, "release")
    tenant.wait_state(number, "COMPLETED")


def test_an_elastic_training_resumes_from_its_checkpoint(tenant):
    """The example that people are told to copy: stopped in the middle, it goes on and does not begin again."""
    script = (SOURCE / "examples/charlm/train.py").read_text()
    number = tenant.submit(
        '"$BERTH_PYTHON" train.py --steps 100000',
        gpus=[1, 2],
        files={"train.py": script},
        checkpointable=True,
        batch_per_gpu=16,
        learning_rate={"at": 1, "value": 0.2, "rule": "sqrt"},
        memory_mib=4096,
    )
    tenant.wait_log(number, "chars/s", limit_s=40)
    tenant.act(number, "requeue")
    first = tenant.wait_log(number, "asked to stop: saved at step ", limit_s=40, attempt=1)
    second = tenant.wait_log(number, "from step ", limit_s=40, attempt=2)
    saved = int(re.search(r"saved at step (\d+)", first).group(1))
    resumed = int(re.search(r"from step (\d+)", second).group(1))
    assert resumed == saved > 0
    job = tenant.job(number)
    assert [attempt["epoch"] for attempt in job["attempts"]] == [2, 1]
    assert job["preemptions"] == 1
    speeds = lambda: [attempt["speed"] for attempt in tenant.job(number)["attempts"]]  # noqa: E731
    timed = lambda: all(speeds()) and speeds()[0]["samples_per_s"]  # noqa: E731
    tenant.berth.wait(timed, limit_s=60, what="what both attempts recorded of their iterations")
    assert [speed["dropped"] for speed in speeds()] == [0, 0]
    assert speeds()[1]["predicted_source"] == "assumed"  # nothing was known before the first
    assert tenant.job(number)["progress"]["fraction"] > 0
    tenant.act(number, "cancel")
    tenant.wait_state(number, "CANCELLED")


def test_a_job_over_two_nodes_starts_together_and_finds_its_partners(tenant):
    shown = "MASTER_ADDR MASTER_PORT NNODES NODE_RANK NPROC_PER_NODE WORLD_SIZE PET_NNODES CUDA_VISIBLE_DEVICES"
    command = f"date +at=%s.%N; for n in {shown}; do eval echo $n=\\$$n; done; sleep 2"
    number = tenant.submit(command, gpus=12, gpu_types=["A100 80 GB"])
    job = tenant.wait_state(number, "COMPLETED")
    parts = {part["rank"]: part for part in job["attempts"][0]["parts"]}
    told = {rank: dict(line.split("=", 1) for line in tenant.log(number, rank=rank).splitlines()) for rank in parts}
    assert set(told) == {0, 1}
    assert {parts[rank]["node"] for rank in parts} == {"a100-01", "a100-02"}
    assert sum(len(part["gpus"]) for part in parts.values()) == 12
    for rank, values in told.items():
        assert values["NODE_RANK"] == str(rank)
        assert (values["NNODES"], values["PET_NNODES"], values["WORLD_SIZE"]) == ("2", "2", "12")
        assert (
            int(values["NPROC_PER_NODE"]) == len(parts[rank]["gpus"]) == len(values["CUDA_VISIBLE_DEVICES"].split(","))
        )
    assert told[0]["MASTER_ADDR"] == told[1]["MASTER_ADDR"] != ""
    assert told[0]["MASTER_PORT"] == told[1]["MASTER_PORT"] != ""
    assert abs(float(told[0]["at"]) - float(told[1]["at"])) < 5.0


REDUCE = """
import torch
from torch import distributed
distributed.init_process_group("gloo")
told = torch.ones(1) * (distributed.get_rank() + 1)
distributed.all_reduce(told)
print("world", distributed.get_world_size(), "sum", int(told.item()), flush=True)
"""


@pytest.mark.skipif(
    not torchrun_works(), reason="no Python here has PyTorch 2; set BERTH_TEST_TORCH_PYTHON to one that has"
)
def test_torchrun_finds_its_partner_on_the_other_node(tenant, tmp_path):
    """By the variables that Berth gives, over two nodes; one process a node, for each takes seconds to begin here."""
    script = tmp_path / "reduce.py"
    script.write_text(REDUCE)
    run = f"exec {python_with('torch')} -m torch.distributed.run --nproc_per_node=1 {script}"
    number = tenant.submit(run, gpus=12, gpu_types=["A100 80 GB"])
    tenant.wait_state(number, "COMPLETED", limit_s=240)
    for rank in (0, 1):
        assert tenant.log(number, rank=rank, stream="stdout") == "world 2 sum 3\n"


def test_nothing_is_left_held(berth):
    assert leaks(berth) == []
    live = "select count(*) from jobs_attempt where ended_at is null"
    berth.wait(lambda: rows(berth, live) == [(0,)], what="the end of the links' probe, if one runs")


def test_what_a_job_writes_is_kept_while_it_runs_and_after(berth, tenant, tmp_path):
    go = tmp_path / "go"
    number = tenant.submit(
        "mkdir -p $BERTH_ARTEFACTS/out; echo first > $BERTH_ARTEFACTS/a.txt; ln -s /etc/passwd $BERTH_ARTEFACTS/link; "
        f"mkfifo $BERTH_ARTEFACTS/pipe; while [ ! -e {go} ]; do sleep 0.1; done; "
        "head -c 5000000 /dev/urandom > $BERTH_ARTEFACTS/out/b.bin; sha256sum < $BERTH_ARTEFACTS/out/b.bin; "
        "mkdir curves; echo {} > curves/metrics.jsonl; echo no > curves/other",
        artefacts=["curves/*.jsonl"],
    )

    def kept():
        status, found = berth.request(f"/api/v1/jobs/{number}/artefacts", token=tenant.token)
        assert status == 200, found
        return {row["path"]: row["sha256"] for row in found["results"] if row["state"] == "kept"}, found

    berth.wait(lambda: "a.txt" in kept()[0], what="the first file, while the job runs")
    assert tenant.state(number) == "RUNNING"
    go.touch()
    tenant.wait_state(number, "COMPLETED")
    berth.wait(lambda: kept()[1]["state"] == "complete", what="all files")
    files, found = kept()
    assert files["out/b.bin"] == tenant.log(number, stream="stdout").split()[0]
    assert sorted(note["path"] for note in found["notes"]) == ["link", "pipe"]
    assert set(files) == {"a.txt", "out/b.bin", "curves/metrics.jsonl"}
    later = tenant.submit(
        "sha256sum < start.bin", inputs=[{"job": int(number), "path": "out/b.bin", "as": "start.bin"}]
    )
    tenant.wait_state(later, "COMPLETED")
    assert tenant.log(later, stream="stdout").split()[0] == files["out/b.bin"]
