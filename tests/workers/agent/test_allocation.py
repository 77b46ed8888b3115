"""An allocation's variables: its GPUs among those that NVML shows, its memory, its end; and refusals."""

import stat

import pytest

from workers.agent.allocation import Allocation, allocation_read, end_ask, kill_wait_ask
from workers.agent.settings import SettingError
from workers.telemetry.sampler import GpuFound

JOB = {"SLURM_JOB_ID": "71", "SLURM_CPUS_ON_NODE": "8", "SLURM_MEM_PER_NODE": "32000"}


def shown(*numbers, minors=None):
    """GPUs as NVML shows them."""
    minors = minors or numbers
    return [GpuFound(n, f"GPU-{n}b2c", "H100", 81_920, minor=m) for n, m in zip(numbers, minors, strict=True)]


def indices(found, **variables):
    return allocation_read("slurm", JOB | variables).indices(found)


def test_it_is_off_unless_asked_for_and_needs_a_job():
    assert allocation_read("off", JOB) is None
    with pytest.raises(SettingError, match="SLURM_JOB_ID is not set"):
        allocation_read("slurm", {})


@pytest.mark.parametrize(
    ("variables", "mine"),
    [
        ({"SLURM_GPUS_ON_NODE": "2", "SLURM_JOB_GPUS": "1,2", "CUDA_VISIBLE_DEVICES": "1,2"}, {1, 2}),
        ({"SLURM_GPUS_ON_NODE": "1", "SLURM_STEP_GPUS": "3", "SLURM_JOB_GPUS": "2,3"}, {3}),
        ({"SLURM_GPUS_ON_NODE": "1", "CUDA_VISIBLE_DEVICES": "GPU-2b2c"}, {2}),
        ({"SLURM_GPUS_ON_NODE": "4", "SLURM_JOB_GPUS": "4,5,6,7", "CUDA_VISIBLE_DEVICES": "0,1,2,3"}, {0, 1, 2, 3}),
        ({"SLURM_JOB_GPUS": "0"}, {0}),
        ({}, set()),
        ({"CUDA_VISIBLE_DEVICES": "NoDevFiles"}, set()),
        ({"SLURM_GPUS_ON_NODE": "0", "CUDA_VISIBLE_DEVICES": "0,1,2,3"}, set()),
    ],
)
def test_its_gpus_are_those_that_slurm_names(variables, mine):
    assert indices(shown(0, 1, 2, 3), **variables) == mine


def test_numbers_are_those_of_the_device_files():
    found = shown(0, 1, 2, minors=(2, 1, 0))
    assert indices(found, SLURM_GPUS_ON_NODE="1", SLURM_JOB_GPUS="0") == {2}


@pytest.mark.parametrize(
    "variables",
    [
        {"SLURM_GPUS_ON_NODE": "2", "SLURM_JOB_GPUS": "2,3", "CUDA_VISIBLE_DEVICES": "0,1"},
        {"SLURM_GPUS_ON_NODE": "2", "SLURM_JOB_GPUS": "2,9"},
        {"SLURM_GPUS_ON_NODE": "2"},
        {"SLURM_GPUS_ON_NODE": "2", "CUDA_VISIBLE_DEVICES": "GPU-1b2c"},
    ],
)
def test_what_does_not_add_up_is_refused_in_words(variables):
    with pytest.raises(SettingError, match=r"it has 2 GPUs, and \d of the 4 that NVML shows"):
        indices(shown(0, 1, 2, 3), **variables)


def test_of_another_system_the_visible_ones_are_its_own():
    found = shown(0, 1, 2, 3)
    assert allocation_read("other", {}).indices(found) == {0, 1, 2, 3}
    assert allocation_read("other", {"CUDA_VISIBLE_DEVICES": "1,3"}).indices(found) == {1, 3}
    assert allocation_read("other", {"CUDA_VISIBLE_DEVICES": ""}).indices(found) == set()


@pytest.mark.parametrize(
    ("variables", "mib"),
    [
        ({"SLURM_MEM_PER_NODE": "32000"}, 32_000),
        ({"SLURM_MEM_PER_CPU": "2000"}, 16_000),
        ({"SLURM_MEM_PER_GPU": "7000", "SLURM_JOB_GPUS": "0,1"}, 14_000),
        ({"SLURM_MEM_PER_NODE": "0"}, None),
        ({}, None),
    ],
)
def test_memory_is_said_by_node_by_core_or_by_gpu(variables, mib):
    told = {"SLURM_JOB_ID": "71", "SLURM_CPUS_ON_NODE": "8"} | variables
    found = allocation_read("slurm", told)
    assert (found.cores, found.memory_mib) == (8, mib)


@pytest.mark.parametrize(
    ("says", "end"), [("4000000000", 4e9), ("Unknown", None), ("NONE", None), ("", None), ("12", None)]
)
def test_the_end_is_what_squeue_says(says, end, tmp_path, monkeypatch):
    fake = tmp_path / "squeue"
    fake.write_text(f'#!/bin/sh\n[ "$*" = "--noheader --jobs=71 --format=%e" ] && echo "{says}"\n')
    fake.chmod(fake.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert end_ask("71") == end


def test_slurm_says_how_long_it_waits_before_it_kills(tmp_path, monkeypatch):
    fake = tmp_path / "scontrol"
    fake.write_text("#!/bin/sh\nprintf 'KillOnBadExit           = 0\\nKillWait                = 30 sec\\n'\n")
    fake.chmod(fake.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert kill_wait_ask() == 30.0
    fake.unlink()
    assert kill_wait_ask() is None


def test_without_slurm_or_while_its_controller_is_away_no_end_is_known(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert end_ask("71") is None
    fake = tmp_path / "squeue"
    fake.write_text("#!/bin/sh\necho 'Unable to contact slurm controller' >&2\nexit 1\n")
    fake.chmod(fake.stat().st_mode | stat.S_IXUSR)
    assert end_ask("71") is None


def test_no_gpus_of_none_shown():
    assert Allocation(gpus=0).indices([]) == set()
