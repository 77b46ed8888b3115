"""The cause of a failed job, from the output of real programs; an error that is not known, or is not the last, names none."""

import subprocess
import sys

import pytest

from portal.work.jobs.failing.causes import CHARS, LINES, Cause, Kind, cause_of
from portal.work.jobs.failing.packages import distribution_of, imports_of
from portal.work.jobs.models import Job
from tests.portal.work.jobs.failing.files import encoded

TORCH = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 22.00 MiB. GPU 0 has a total capacity of 23.65 GiB of which "
    "11.06 MiB is free. Including non-PyTorch memory, this process has 23.60 GiB memory in use."
)


def run(*argv, cwd=None):
    done = subprocess.run(argv, capture_output=True, text=True, check=False, cwd=cwd)
    return done.returncode, done.stderr.rstrip("\n").split("\n")


def cause(code, lines, **fields):
    return cause_of(Job(state="FAILED", exit_code=code, **fields), lines)


def test_a_package_that_its_python_lacks_is_named_with_the_file_that_imports_it(tmp_path):
    (tmp_path / "train.py").write_text("import os\nfrom sklearnx.deep import fit\n")
    (tmp_path / "wraps.py").write_text("import train\n")
    for name in ("train.py", "wraps.py"):
        code, lines = run(sys.executable, str(tmp_path / name))
        found = cause(code, lines)
        assert found == Cause(Kind.PACKAGE, "sklearnx", "sklearnx", "train.py", len(lines) - 1)
    code, lines = run(sys.executable, "-m", "nothere_at_all")
    assert cause(code, lines).name == "nothere_at_all"
    code, lines = run(sys.executable, "-c", "import cv2_not, nothing")
    assert (cause(code, lines).name, cause(code, lines).by) == ("cv2_not", "")


def test_a_module_that_no_package_has_is_no_package(tmp_path):
    (tmp_path / "train.py").write_text("import utils\n")
    code, lines = run(sys.executable, str(tmp_path / "train.py"))
    assert (cause(code, lines).kind, cause(code, lines).package) == (Kind.MODULE, "")
    code, lines = run(sys.executable, "-c", "import json.nothere")
    assert cause(code, lines).kind is Kind.MODULE
    odd = (
        "_x",
        "\u0430ttrs",
        "na\u00efve",
        "a" * 80,
        "a-b",
        "a/b",
        "--index-url=https://x",
        "-r x",
        "pip; rm -r .",
        "a @ git+https://x",
    )
    for name in odd:
        for line in (f"ModuleNotFoundError: No module named '{name}'", f"python3: No module named {name}"):
            found = cause(1, [line])
            assert found is None or found.package == "", line


def test_a_command_that_is_not_there_is_named(tmp_path):
    script = tmp_path / "run.sh"
    script.write_text("true\nnosuchthing --x\nexit $?\n")
    for argv in (["sh", "-c", "nosuchthing x"], ["bash", "-c", "nosuchthing x"], ["bash", str(script)]):
        code, lines = run(*argv)
        assert code == 127
        assert (cause(code, lines).kind, cause(code, lines).name) == (Kind.COMMAND, "nosuchthing"), lines
        assert cause(1, lines) is None, "another exit code tells of another cause"
    assert cause(127, ["sh: 1: nosuchthing: Permission denied"]).name == "nosuchthing", (
        "a folder of PATH may not be read"
    )
    # Where a folder of PATH may not be read, env ends with 126: it cannot tell "not there" from "not to be run".
    code, lines = run("/usr/bin/env", "PATH=/usr/bin:/bin", "nosuchthing")
    assert (code, cause(code, lines).name) == (127, "nosuchthing"), lines


@pytest.mark.parametrize("line", [TORCH, TORCH.replace("torch.Out", "torch.cuda.Out"), f"[rank3]: {TORCH}"])
def test_gpu_memory_is_told_from_what_torch_prints_also_under_its_launcher(line):
    launcher = ["torch.distributed.elastic.multiprocessing.errors.ChildFailedError: ", "====", "train.py FAILED"]
    found = cause(1, ["epoch 1", line, *launcher])
    assert (found.kind, found.line) == (Kind.GPU_MEMORY, 1)


def test_a_disk_that_is_full_is_told():
    code, lines = run(
        sys.executable, "-c", "import errno, os; raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), 'x')"
    )
    assert cause(code, lines).kind is Kind.NODE_DISK


def test_a_line_that_a_later_error_follows_names_no_cause():
    """A module that the program did without, and an error of its own afterwards."""
    code, lines = run(
        sys.executable,
        "-c",
        "import sys, traceback\ntry:\n  import apexx\nexcept ImportError:\n  traceback.print_exc()\nraise ValueError('bad')",
    )
    assert "No module named" in "\n".join(lines)
    assert cause(code, lines) is None
    code, lines = run("bash", "-c", f"{sys.executable} -c 'import apexx' ; kill -11 $$")
    assert "No module named" in "\n".join(lines)
    assert (cause(None, lines, signal=11), cause(139, lines)) == (None, None), "it crashed later, of something else"


def test_an_end_that_the_node_told_wins_over_lines():
    missing = ["ModuleNotFoundError: No module named 'timm'"]
    for state, detail, kind in (
        ("OUT_OF_MEMORY", "", Kind.MEMORY),
        ("OUT_OF_MEMORY", "used (gpu_memory_mib)", Kind.GPU_MEMORY),
        ("TIMEOUT", "", Kind.TIME),
        ("TIMEOUT", "nobody used it for 5 min, its idle time-out", Kind.IDLE),
        ("NODE_FAIL", "", Kind.NODE),
        ("FAILED", "it used 1 MiB of disk; its limit is 1 MiB (disk_gib)", Kind.DISK),
        ("CANCELLED", "job 4 did not complete", Kind.DEPENDENCY),
    ):
        assert cause_of(Job(state=state, end_detail=detail), missing).kind is kind
    assert cause_of(Job(state="CANCELLED"), missing) is None
    assert cause_of(Job(state="COMPLETED"), missing) is None


@pytest.mark.parametrize("part", ["No module named ", "a: ", "'", "[rank", "env: ", 'File "', "Error", "ImportError: "])
def test_of_lines_of_any_bytes_only_the_beginnings_of_the_last_ones_are_looked_at(part):
    for code in (1, 127):
        cause(code, [part * 20_000] * 2_000)
        assert cause(code, [*["x"] * (LINES - 1), "x" * CHARS + TORCH]) is None
        assert cause(code, [TORCH, *["x"] * LINES]) is None


def test_modules_are_named_as_their_packages():
    named = {"cv2": "opencv-python-headless", "sklearn": "scikit-learn", "PIL": "pillow", "yaml": "pyyaml"}
    assert {module: distribution_of(module) for module in named} == named
    assert [distribution_of(name) for name in ("timm", "_x", "a\u00e9", "-r", "a b", "")] == ["timm", *[None] * 5]


def test_the_packages_that_a_job_s_files_import_are_found_by_line():
    train = "import os, numpy as np\nfrom torch.utils import data\n  import wandb  # later\nfrom .own import x\nimport model\n"
    files = encoded(
        {"train.py": train, "model.py": "import train", "note.txt": "import secret", "b.py": b"\xff\xfe import x"}
    )
    assert imports_of(files) == {"numpy", "torch", "wandb"}
    assert len(imports_of(encoded({"a.py": "import " + "a, " * 100_000}))) <= 1
