"""The line that makes the same job: the real command line reads it, and gives the description that the job was made with."""

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth_client.cli import parser_make, split
from berth_client.cli.description import describe
from portal.pages.dashboard.jobs.ran.command import MOST_CHARS, submit_line
from portal.work.jobs.description import description_parse

PLAIN = {"command": "python3 train.py --epochs 30 && echo 'done; $HOME'", "gpus": 1}
CASES = {
    "a plain one": PLAIN,
    "many lines": {"command": "set -e\npython3 a.py\n-x", "gpus": 0, "cores": 2},
    "sizes": PLAIN | {"gpus": [1, 2, 4], "gpu_types": ["A100", "RTX 3090"], "checkpointable": True},
    "a range": PLAIN | {"gpus": {"min": 1, "max": 8}, "checkpointable": True},
    "one size in a list": PLAIN | {"gpus": [2]},
    "times and amounts": PLAIN
    | {"time_limit_s": 5400, "grace_s": 120, "memory_mib": 513, "disk_gib": 2, "expected_duration_s": 61.5},
    "half a GiB": PLAIN | {"disk_gib": 0.5},
    "switches": PLAIN | {"instrumented": True, "restartable": False, "pipelined": True},
    "variables": PLAIN
    | {"environment": {"A": "x=y z'", "B": "-1", "C": ""}, "labels": {"team": "cv", "old": ""}, "secrets": {"T": "hf"}},
    "no empty variable": PLAIN | {"environment": {"A": "x=y z'", "B": "\u00e4 b\n"}},
    "a learning rate": PLAIN | {"learning_rate": 0.0003, "batch_per_gpu": 32, "priority": -5},
    "a rule of it": PLAIN
    | {"gpus": [1, 2], "checkpointable": True, "learning_rate": {"at": 1, "value": 1e-4, "rule": "sqrt"}},
    "an array": PLAIN | {"array": {"size": 100, "concurrency": 8}},
    "a small array": PLAIN | {"array": {"size": 3}},
    "after others": PLAIN | {"depends_on": [41, {"job": 42, "kind": "any"}]},
    "an image": PLAIN | {"software": {"image": "docker.io/pytorch/pytorch:2.4.0"}},
    "requirements as text": PLAIN | {"software": {"requirements": "numpy==1.26.4\n"}},
    "null and no value": PLAIN | {"name": "-odd name", "model": None, "software": {}},
    "code": PLAIN
    | {
        "code": {"git": "https://git.example.org/vision/aerial.git", "ref": "main", "secret": "tok", "submodules": True}
    },
    "an upload": PLAIN | {"upload": "ab" * 32},
    "results and inputs": PLAIN
    | {"artefacts": ["out/*.pt", "-x"], "inputs": [{"job": "41", "path": "model/last.pt"}], "log_matches": ["loss *"]},
    "a share": PLAIN | {"shareable": True, "gpu_compute": 0.5, "gpu_memory_mib": 4096, "latency_class": "latency"},
    "at night": PLAIN | {"start_after": "2026-12-01T08:00:00+01:00"},
}


def made_by(line):
    words = shlex.split(line)
    assert words[0] == "berth"
    own, command = split(words[1:])
    asked = parser_make().parse_args(own)
    asked.command = command
    return describe(asked, None)


@pytest.mark.parametrize("name", CASES)
def test_the_command_line_makes_the_same_job_of_it(name):
    assert description_parse(made_by(submit_line(CASES[name]))) == description_parse(CASES[name])


def test_files_come_from_the_folder_where_they_lie(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    files = {"train.py": "print('h\u00e4')\n", "configs/a b.yaml": "x: 1\n", "requirements.txt": "timm==1.0\n"}
    (tmp_path / "configs").mkdir()
    for path, text in files.items():
        (tmp_path / path).write_text(text)
    (tmp_path / "data.bin").write_bytes(b"\xff\0")
    asked = PLAIN | {"files": files | {"data.bin": {"base64": "/wA="}}, "software": {"requirements": "timm==1.0\n"}}
    line = submit_line(asked)
    assert "--requirements=requirements.txt" in line
    assert "timm==" not in line
    assert made_by(line) == asked


@given(st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=80))
def test_any_text_is_kept(text):
    asked = {"command": f"x {text}", "name": f"n{text}", "environment": {"A": text}, "labels": {"a": text}, "gpus": 1}
    assert made_by(submit_line(asked)) == asked


def test_a_line_too_long_to_paste_is_not_offered():
    assert submit_line({"command": "x" * MOST_CHARS}) is None
