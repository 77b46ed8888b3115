"""A batch script for sbatch: what it asks for, what became of each directive, and a job that the portal takes."""

import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from portal.foundation.errors import BerthError
from portal.work.jobs.description import description_parse
from portal.work.jobs.imports import text_import
from portal.work.jobs.imports.options import OPTIONS
from portal.work.jobs.imports.sbatch import sbatch_import
from tests.portal.work.jobs.imports.scripts import SCRIPTS

TYPES = ("A100 80 GB", "H100", "RTX 3090")


def script_of(directives, body="python3 train.py\n"):
    return "#!/bin/bash\n" + "".join(f"#SBATCH {line}\n" for line in directives.split("\n")) + "\n" + body


def read(directives, body="python3 train.py\n"):
    return sbatch_import(script_of(directives, body), gpu_types=TYPES)


def test_a_script_becomes_what_it_asks_for(subtests):
    for name, directives, wanted, refused in SCRIPTS:
        with subtests.test(name):
            found = read(directives)
            assert {field: found.description.get(field) for field in wanted} == wanted
            told = [line.text.removeprefix("#SBATCH ") for line in found.lines if line.verdict == "refused"]
            assert told == list(refused)
            assert all(line.detail for line in found.lines), "each line says what became of it"
            assert len(found.lines) >= len(directives.split("\n"))
            description_parse(found.description)


def test_each_option_has_an_answer():
    """None is known by its name and then neither mapped nor explained."""
    values = {"none": "", "perhaps": "", "value": "=1"}
    for option in OPTIONS.values():
        spelled = option.name if option.name in {"hetjob", "packjob"} else f"--{option.name}{values[option.has]}"
        (line, *_) = read(spelled).lines
        assert line.detail.endswith("."), (spelled, line)


def test_lines_are_told_with_their_numbers_and_late_ones_are_not_read():
    text = "#!/bin/bash\n\n# a comment\n##SBATCH --time=1\n#SBATCH --time=10\n# SBATCH --mem=1G\n\nset -e\n#SBATCH --mem=2G\n#SBATCHX\n"
    found = sbatch_import(text)
    assert [(line.line, line.verdict) for line in found.lines] == [
        (4, "ignored"),
        (5, "mapped"),
        (6, "ignored"),
        (9, "ignored"),
        (10, "ignored"),
    ]
    assert "below the first command" in found.lines[3].detail
    assert "memory_mib" not in found.description


def test_a_signal_that_is_none_of_ours_is_told():
    (line,) = read("--signal=B:USR1@90").lines
    assert (line.verdict, line.field) == ("mapped", "grace_s")
    assert "The signal is SIGTERM here, not USR1" in line.detail


def test_amounts_are_told_in_words():
    told = {line.text: line.detail for line in read("--gres=gpu:a100:4\n--nodes=2\n--mem=64G\n--time=1-02:00:00").lines}
    assert {text.partition("=")[0].removeprefix("#SBATCH "): detail for text, detail in told.items()} == {
        "--gres": "8 GPUs of A100 80 GB in all.",
        "--nodes": "The job's GPUs and cores are counted from it. On how many nodes they lie is Berth's choice.",
        "--mem": "128 GiB in all: 64 GiB for each of 2 nodes.",
        "--time": "It may run for 1 d 2 h: a limit, no expected duration.",
    }
    assert [line.detail for line in read("--gpus=1\n--mem=512M\n--time=90").lines] == [
        "1 GPU in all.",
        "0.5 GiB in all.",
        "It may run for 1 h 30 min: a limit, no expected duration.",
    ]


def test_what_the_script_calls_and_reads_beside_its_directives():
    body = "module load cuda\necho $SLURM_GTIDS $SLURM_JOB_ID\nsrun python3 x.py\n"
    notes = {line.text: line for line in read("--gpus=1", body).lines}
    assert notes["SLURM_GTIDS"].line == 5
    assert [line.line for line in read("--gpus=1", body).lines] == [2, 4, 5, 6]
    assert "SLURM_JOB_ID" not in notes
    assert {"module load cuda", "srun python3 x.py"} <= notes.keys()


def run(found, tmp_path, **environment):
    """Run a description's command as a node does; return what it prints."""
    (tmp_path / "job.sbatch").write_text(found.description["files"]["job.sbatch"])
    own = {"BERTH_JOB_DIR": str(tmp_path), "PATH": "/usr/bin:/bin", **environment}
    done = subprocess.run(
        ["/bin/sh", "-c", found.description["command"]], env=own, cwd="/", capture_output=True, text=True, check=True
    )
    return done.stdout


@pytest.mark.parametrize(
    ("array", "index", "number"), [("0-15", 3, 3), ("10-100:10", 2, 30), ("1,3,5-7", 3, 6), ("7", 0, 7)]
)
def test_a_task_finds_the_number_that_it_had(tmp_path, array, index, number):
    body = 'echo "$SLURM_ARRAY_TASK_ID of $SLURM_ARRAY_TASK_COUNT, $# arguments, job $SLURM_JOB_ID"\n'
    found = read(f"--array={array}", body)
    size = found.description["array"]["size"]
    told = run(found, tmp_path, BERTH_ARRAY_INDEX=str(index), BERTH_ARRAY_SIZE=str(size), BERTH_JOB_ID="9")
    assert told == f"{number} of {size}, 0 arguments, job 9\n"


def test_a_program_that_the_script_calls_finds_slurms_variables(tmp_path):
    names = ("ARRAY_TASK_ID", "CPUS_PER_TASK", "NTASKS", "MEM_PER_NODE", "PROCID", "LOCALID", "RESTART_COUNT")
    (tmp_path / "task.py").write_text(f"import os\nprint(*[os.environ['SLURM_' + name] for name in {names}])\n")
    found = read("--array=3-5\n-N2\n--ntasks-per-node=2\n-c 6\n--gres=gpu:2\n--mem=2G", f"python3 {tmp_path}/task.py\n")
    own = {"BERTH_ARRAY_INDEX": "1", "BERTH_NODES": "2", "BERTH_RANK": "1", "BERTH_EPOCHS_BEFORE": "4"}
    assert run(found, tmp_path, **own) == "4 6 4 2048 1 0 4\n"


def test_a_script_runs_by_its_own_program(tmp_path):
    bash = "x=(1 2 3); echo ${x[1]} $SLURM_JOB_NAME\n"
    assert run(read("-n 1", bash), tmp_path, BERTH_JOB_NAME="a 'b'") == "2 a 'b'\n"
    python = sbatch_import("#!/usr/bin/env python3\n#SBATCH -n 1\nprint(6 * 7)\n")
    assert run(python, tmp_path) == "42\n"
    assert run(sbatch_import("#SBATCH -n 1\necho plain\n"), tmp_path) == "plain\n"


def test_line_ends_of_windows_and_a_mark_at_the_beginning(tmp_path):
    found = sbatch_import("\ufeff#!/bin/bash\r\n#SBATCH --time=10\r\necho done\r\n")
    assert found.description["time_limit_s"] == 600
    assert run(found, tmp_path) == "done\n"


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", "blank"),
        (" \n", "blank"),
        ("#!/bin/sh\n" + "x" * 2**20, "too_long"),
        ("#SBATCH -n 1\n" * 501, "too_many"),
        ("#!/bin/sh\n" + "\n" * 2**19, "too_many"),
    ],
)
def test_what_is_no_script_is_refused(text, code):
    with pytest.raises(BerthError) as raised:
        text_import(text, format="sbatch")
    assert (raised.value.code, raised.value.field) == (code, "text")


WORDS = st.sampled_from(
    [f"--{name}" for name in OPTIONS]
    + ["-N", "-n4", "=", "gpu:", "1-", ":", "%", "'", '"', "\\", "#", "$(x)", "\x00", "é", "9" * 40]
) | st.text(max_size=6)


@given(st.lists(st.lists(WORDS, max_size=5).map(" ".join), max_size=6))
def test_no_text_breaks_it_and_what_it_makes_is_a_description(lines):
    text = "#!/bin/bash\n" + "".join(f"#SBATCH {line}\n" for line in lines) + "true\n"
    found = sbatch_import(text, gpu_types=TYPES)
    assert all(line.verdict in {"mapped", "looser", "ignored", "refused"} and line.detail for line in found.lines)
    assert found.description["command"]


def test_a_script_made_to_be_slow_is_read():
    """A pattern that tried its text again and again would not come to an end on a MiB of these."""
    part = ("1-2:" * 1000)[:4000]
    options = "".join(
        f"#SBATCH --{name}={part}\n" for name in ("time", "array", "gres", "signal", "mem", "dependency", "gpus")
    )
    text = f"#!/bin/bash\n{options}" + "SLURM_" * 70_000 + "\n" + "$SLURM_A" * 70_000 + "\n#SBATCH\n"
    found = sbatch_import(text, gpu_types=TYPES)
    assert [line.verdict for line in found.lines[:7]] == ["refused"] * 7


WHOLE = "NVIDIA A100-SXM4-80GB"
SLICED = (
    WHOLE,
    f"{WHOLE} MIG 1g.10gb",
    f"{WHOLE} MIG 1g.10gb+me",
    f"{WHOLE} MIG 3g.40gb",
    "NVIDIA H100 NVL MIG 1g.10gb",
)


def test_a_slice_is_that_slice_and_a_model_is_none(subtests):
    for asked, types in [
        ("--gres=gpu:1g.10gb:1", [SLICED[1], SLICED[4]]),
        ("--gres=gpu:1g.10gb+me:1", [SLICED[2]]),
        ("--gres=gpu:a100_1g.10gb:1", [SLICED[1]]),
        ("--gres=gpu:a100_1g.10gb", [SLICED[1]]),
        ("--gpus=nvidia_a100_3g.40gb:1", [SLICED[3]]),
        ("--gres=gpu:nvidia_a100-sxm4-80gb_mig_1g.10gb:1", [SLICED[1]]),
        ("--gpus-per-node=A100_MIG_3G.40GB:1", [SLICED[3]]),
        ("--gpus=1\n-C 3g.40gb", [SLICED[3]]),
        ("--gres=gpu:a100:1", [WHOLE]),
        ("--gres=gpu:a100_80gb:1", [WHOLE]),
        ("--gres=gpu:a100:2", [WHOLE]),
    ]:
        with subtests.test(asked=asked, types=types):
            found = sbatch_import(script_of(asked), gpu_types=SLICED)
            assert found.description["gpu_types"] == types
            assert {line.verdict for line in found.lines} == {"mapped"}


@pytest.mark.parametrize(
    "asked", ["--gres=gpu:1g.5gb:1", "--gres=gpu:h100_3g.40gb:1", "--gres=gpu:2g.20gb:1", "--gpus=a30_1g.6gb:1"]
)
def test_a_slice_that_is_not_there_is_no_other(asked):
    found = sbatch_import(script_of(asked), gpu_types=SLICED)
    assert found.description["gpus"] == 0
    assert [line.verdict for line in found.lines] == ["refused"]


@pytest.mark.parametrize(
    "asked",
    [
        "--gres=gpu:a100_1g.10gb:2",
        "--nodes=2\n--gres=gpu:3g.40gb:1",
        "-n 4\n--gpus-per-task=1g.10gb:1",
        "--gpus=2\n-C 1g.10gb",
    ],
)
def test_several_instances_for_a_job_are_refused_with_words(asked):
    found = sbatch_import(script_of(asked), gpu_types=SLICED)
    assert (found.description["gpus"], "gpu_types" in found.description) == (0, False)
    refused = [each.detail for each in found.lines if each.verdict == "refused"]
    assert any("each takes jobs of one GPU" in each for each in refused)
