"""A script of an old cluster (story 11): the portal reads it, the command line comes first, refusals stop it, all is told."""

import io
from types import SimpleNamespace

import pytest
import yaml

from portal.jobs.models import Job

pytestmark = pytest.mark.django_db
SCRIPT = "#!/bin/bash\n#SBATCH -J train\n#SBATCH --gres=gpu:2\n#SBATCH --mail-type=END\n#SBATCH --export=A=1\ntrue\n"


@pytest.fixture
def script(tmp_path):
    def write(text=SCRIPT, name="train.sbatch"):
        (tmp_path / name).write_text(text)
        return tmp_path / name

    return write


def test_a_script_is_submitted_and_what_became_nothing_is_told(cli, script):
    done = cli("submit", script(), "--gpus", "1", "--env", "B=2", "-o", "json")
    assert (done.json["name"], done.json["gpus"], done.json["environment"]) == ("train", [1], {"A": "1", "B": "2"})
    (line,) = done.err.splitlines()
    assert line.startswith(
        "line 4: #SBATCH --mail-type=END: ignored: Which mails you get is chosen on your account page"
    )


def test_a_refused_directive_stops_it(cli, script):
    path = script(SCRIPT.replace("true", "#SBATCH --hold\ntrue"))
    refused = cli("submit", path, code=2).err
    assert "line 6: #SBATCH --hold: refused: A submission cannot be held" in refused
    assert "cannot be had here (line 6); nothing was submitted" in refused
    assert not Job.objects.exists()
    cli("submit", path, "--without-refused")
    assert Job.objects.get().name == "train"


def test_print_submits_nothing_and_tells_every_line(cli, script):
    done = cli("submit", script(), "--print")
    assert yaml.safe_load(done.out)["files"] == {"job.sbatch": SCRIPT}
    assert [line.split(": ")[2] for line in done.err.splitlines()] == ["mapped", "mapped", "ignored", "mapped"]
    again = cli("submit", script(done.out, "again.yaml"), "-o", "json")
    assert again.json["gpus"] == [2]
    assert Job.objects.count() == 1


def test_from_standard_input_and_planned(cli, monkeypatch):
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(SCRIPT.encode())))
    assert "would start" in cli("plan", "-").out
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(b"\xff")))
    assert "- is not UTF-8 text" in cli("plan", "-", code=2).err


def test_what_is_no_yaml_is_told_with_its_line(cli, script):
    assert "/x.yaml: The text" in cli("submit", script("command: x\ngpus: [1\n", "x.yaml"), code=2).err
    assert "(line 3" in cli("submit", script("command: x\ngpus: [1\n", "x.yaml"), code=2).err
    assert not Job.objects.exists()
