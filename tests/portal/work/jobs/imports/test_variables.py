"""What a batch script finds of Slurm's variables: what Berth gave the job in the end, not what the script once asked for."""

import subprocess

import pytest

from portal.foundation.errors import BerthError
from portal.work.jobs.imports import text_import
from portal.work.jobs.imports.sbatch import sbatch_import
from portal.work.jobs.imports.variables import used
from workers.controls.jobenv import job_environment

ONE_GPU_NODE = {"nodes": [{"name": "n1", "address": "n1"}], "port": 1, "gpus_total": 2}
TWO_NODES = {"nodes": [{"name": "n1", "address": "n1"}, {"name": "n2", "address": "n2"}], "port": 1, "gpus_total": 8}


def environment(tmp_path, *, gpus=(0, 1), cores=8, memory_mib=4096, world=ONE_GPU_NODE, rank=0, **given):
    """What a real shim gives a command on a node."""
    launch = {
        **dict.fromkeys(("job", "epoch", "attempt"), 9),
        **dict.fromkeys(("job_dir", "tmp_dir", "checkpoint_dir", "records_dir"), str(tmp_path)),
        "name": "a job",
        "epochs_before": 0,
        "tenant": "lab",
        "user": "ada",
        "mark": "m",
        "profile": False,
        "gpus": list(gpus),
        "gpu_uuids": [],
        "gpu_type": "A100",
        "virtual": False,
        "python": "python3",
        "cores": list(range(cores)),
        "memory_mib": memory_mib,
        "world": world,
        "rank": rank,
        "environment": given,
    }
    return job_environment(launch)


def told(directives, names, own, tmp_path, arguments=()):
    """Run the script's command as a node does; return the variables, None of what is not set."""
    body = "".join(f'echo "${{SLURM_{name}-unset}}"\n' for name in names)
    script = "#!/bin/sh\n" + "".join(f"#SBATCH {each}\n" for each in directives.split("\n")) + body
    found = sbatch_import(script, gpu_types=("A100 80 GB",), arguments=arguments)
    (tmp_path / "job.sbatch").write_text(script)
    command = ["/bin/sh", "-c", found.description["command"]]
    done = subprocess.run(command, env=own, cwd="/", capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return dict(zip(names, (None if line == "unset" else line for line in done.stdout.splitlines()), strict=True))


ASKED = "-n 2\n--gres=gpu:2\n-c 4\n--mem=4G"
NAMES = ("GPUS", "GPUS_ON_NODE", "JOB_GPUS", "STEP_GPUS", "NTASKS", "CPUS_PER_TASK", "MEM_PER_NODE")


def test_what_was_asked_for_and_given_is_said(tmp_path):
    assert told(ASKED, NAMES, environment(tmp_path), tmp_path) == {
        "GPUS": "2",
        "GPUS_ON_NODE": "2",
        "JOB_GPUS": "0,1",
        "STEP_GPUS": "0,1",
        "NTASKS": "2",
        "CPUS_PER_TASK": "4",
        "MEM_PER_NODE": "4096",
    }


def test_what_was_changed_after_the_script_was_read_is_said_as_it_is(tmp_path):
    """As by `berth submit --gpus 4 --memory 8G --cores-per-gpu 3 x.sbatch`, or on the form."""
    four = {**ONE_GPU_NODE, "gpus_total": 4}
    own = environment(tmp_path, gpus=(0, 1, 2, 3), cores=12, memory_mib=8192, world=four)
    found = told(ASKED, NAMES, own, tmp_path)
    assert (found["GPUS"], found["GPUS_ON_NODE"], found["JOB_GPUS"]) == ("4", "4", "0,1,2,3")
    assert (found["CPUS_PER_TASK"], found["MEM_PER_NODE"]) == ("6", "8192")


@pytest.mark.parametrize(
    ("directives", "names"),
    [
        ("--gpus-per-node=2\n--ntasks-per-node=2\n--cpus-per-gpu=4", {"GPUS_PER_NODE": "4", "CPUS_PER_GPU": "3"}),
        ("--gpus-per-node=2\n--ntasks-per-node=2", {"NTASKS": "4", "NTASKS_PER_NODE": "4", "TASKS_PER_NODE": "4"}),
        ("--gpus=2\n--ntasks-per-gpu=2", {"NTASKS": "8", "NTASKS_PER_GPU": "2", "NPROCS": "8"}),
        ("-n 2\n--gpus-per-task=1", {"NTASKS": "2", "GPUS_PER_TASK": "2"}),
        ("--gpus-per-task=1", {"NTASKS": "4", "GPUS_PER_TASK": "1"}),
        ("--gpus=2\n--mem-per-gpu=2G", {"MEM_PER_GPU": "2048", "MEM_PER_NODE": None}),
        ("--gpus=2\n-c 4\n--mem-per-cpu=1G", {"MEM_PER_CPU": "682"}),
        ("--gpus=2\n--mem=0", {"MEM_PER_NODE": None}),
    ],
)
def test_four_gpus_in_place_of_two(tmp_path, directives, names):
    own = environment(tmp_path, gpus=(0, 1, 2, 3), cores=12, memory_mib=8192, world={**ONE_GPU_NODE, "gpus_total": 4})
    assert told(directives, names, own, tmp_path) == names


def test_a_job_that_was_given_no_gpus_says_nothing_of_them(tmp_path):
    names = ("GPUS_PER_NODE", "CPUS_PER_GPU", "MEM_PER_GPU", "NTASKS_PER_GPU", "JOB_GPUS", "STEP_GPUS")
    directives = "--gpus-per-node=2\n--cpus-per-gpu=2\n--mem-per-gpu=1G\n--ntasks-per-gpu=1"
    own = environment(tmp_path, gpus=(), world={**ONE_GPU_NODE, "gpus_total": 0})
    assert told(directives, names, own, tmp_path) == dict.fromkeys(names)


def test_several_nodes_are_named_and_lists_that_a_part_does_not_know_are_not_invented(tmp_path):
    names = ("JOB_NODELIST", "NODELIST", "NNODES", "NODEID", "PROCID", "NTASKS", "NTASKS_PER_NODE", "CPUS_PER_TASK")
    unset = ("JOB_CPUS_PER_NODE", "TASKS_PER_NODE", "JOB_PARTITION", "CLUSTER_NAME")
    own = environment(tmp_path, gpus=range(4), cores=16, world=TWO_NODES, rank=1)
    found = told("-N 2\n--gres=gpu:4\n--ntasks-per-node=4\n-c 4", (*names, *unset), own, tmp_path)
    said = ("n1,n2", "n1,n2", "2", "1", "1", "8", "4", "4")
    assert found == dict(zip(names, said, strict=True)) | dict.fromkeys(unset)
    assert own["BERTH_NODE_NAME"] == "n2"


def test_a_job_without_gpus_counts_its_cores(tmp_path):
    own = environment(tmp_path, gpus=(), cores=8, world={**ONE_GPU_NODE, "gpus_total": 0})
    names = ("NTASKS", "CPUS_PER_TASK", "CPUS_ON_NODE", "JOB_CPUS_PER_NODE", "JOB_NODELIST", "JOB_GPUS")
    said = ("2", "4", "8", "8", "n1", None)
    assert told("-n 2 -c 4", names, own, tmp_path) == dict(zip(names, said, strict=True))


ARRAY = ("ARRAY_TASK_ID", "ARRAY_TASK_COUNT", "ARRAY_TASK_MIN", "ARRAY_TASK_MAX", "ARRAY_TASK_STEP")


@pytest.mark.parametrize(
    ("directives", "index", "size", "said"),
    [
        ("--array=1-10:2%3", 4, 5, ("9", "5", "1", "9", "2")),
        ("--array=1-10:2%3", 6, 8, ("13", "8", "1", "15", "2")),
        ("--array=1,3,7", 2, 3, ("7", "3", "1", "7", "1")),
        ("--array=1,3,7", 5, 9, ("5", "9", "0", "8", "1")),
        ("-n 1", 3, 4, ("3", "4", "0", "3", "1")),
        ("--array=0-3", None, None, (None,) * 5),
    ],
)
def test_an_array_is_the_one_that_it_became(tmp_path, directives, index, size, said):
    own = environment(tmp_path)
    if index is not None:
        own |= {"BERTH_ARRAY_INDEX": str(index), "BERTH_ARRAY_SIZE": str(size), "BERTH_ARRAY_JOB_ID": "5"}
    assert told(directives, ARRAY, own, tmp_path) == dict(zip(ARRAY, said, strict=True))


def test_arguments_reach_the_script(tmp_path):
    script = '#!/bin/sh\n#SBATCH --array=1,3\nprintf \'%s|\' "$#" "$@"\n'
    given = ["a b", "$HOME", "it's", "", "--flag=1"]
    found = text_import(script, arguments=given)
    (tmp_path / "job.sbatch").write_text(script)
    own = environment(tmp_path) | {"BERTH_ARRAY_INDEX": "1", "BERTH_ARRAY_SIZE": "2"}
    command = ["/bin/sh", "-c", found.description["command"]]
    done = subprocess.run(command, env=own, cwd="/", capture_output=True, text=True, check=True)
    assert done.stdout == "|".join(["5", *given, ""])


def test_a_wrapped_command_finds_them_too(tmp_path):
    found = sbatch_import("#!/bin/sh\n#SBATCH --wrap='echo $SLURM_JOB_ID; exit 3' --gpus=2\n")
    assert "files" not in found.description
    command = ["/bin/sh", "-c", found.description["command"]]
    done = subprocess.run(command, env=environment(tmp_path), capture_output=True, text=True, check=False)
    assert (done.stdout, done.returncode) == ("9\n", 3)


@pytest.mark.parametrize(
    ("text", "code"), [("#!/bin/sh\n#SBATCH --wrap=true\n", "wrap"), ("command: true\ngpus: 0\n", "not_a_script")]
)
def test_arguments_of_what_takes_none_are_refused(text, code):
    with pytest.raises(BerthError) as raised:
        text_import(text, arguments=["a"])
    assert (raised.value.code, raised.value.field) == (code, "arguments")


def test_what_has_no_meaning_here_is_told():
    script = "#!/bin/sh\n#SBATCH -p gpu\necho $SLURM_JOB_PARTITION $SLURM_JOB_NODELIST $SLURM_TOPOLOGY_ADDR\n"
    told = {line.text for line in sbatch_import(script).lines if line.text in used(script)}
    assert told == {"SLURM_JOB_PARTITION", "SLURM_TOPOLOGY_ADDR"}
