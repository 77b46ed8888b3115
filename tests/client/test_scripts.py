"""A script of an old cluster (story 11): the portal reads it, the command line comes first, refusals stop it, and each is printed."""

import base64
import io
import time
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest
import yaml

from portal.cluster.models import GpuType
from portal.work.jobs.models import Job
from tests.portal.given import node_make

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
    assert "this Berth does not have (line 6); nothing was submitted" in refused
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


def test_begin_is_start_after_in_a_script_and_on_the_command_line(cli, script, monkeypatch):
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    path = script(SCRIPT.replace("true", "#SBATCH --begin=2099-12-01T08:00\ntrue"))
    assert "looser: It does not start before 2099-12-01 08:00:00 UTC." in cli("submit", path).err
    made = cli("submit", path, "--begin=2099-12-01T08:00", "-o", "json")
    assert made.json["start_after"] == "2099-12-01T07:00:00Z"
    before = datetime.now(UTC)
    for text in ("now+2hours", "now+7200"):
        at = datetime.fromisoformat(cli("submit", "--begin", text, "-o", "json", "--", "true").json["start_after"])
        assert timedelta(hours=2) <= at - before < timedelta(hours=2, minutes=5)
    for text in ("0:00", "23:59"):
        made = cli("submit", "--begin", text, "-o", "json", "--", "true").json
        assert timedelta(0) < datetime.fromisoformat(made["start_after"]) - before <= timedelta(days=1, minutes=5)
    refused = cli("submit", "--begin=teatime", "--", "true", code=2).err
    assert "--start-after/--begin: 'teatime' is no time; write 2026-12-01T08:00, 16:00 or now+2h" in refused
    monkeypatch.undo()
    time.tzset()


def test_from_standard_input_and_planned(cli, monkeypatch):
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(SCRIPT.encode())))
    assert "would start" in cli("plan", "-").out
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(b"\xff")))
    assert "standard input is not UTF-8 text" in cli("plan", "-", code=2).err


def test_what_is_no_yaml_is_told_with_its_line(cli, script):
    assert "/x.yaml: The text" in cli("submit", script("command: x\ngpus: [1\n", "x.yaml"), code=2).err
    assert "(line 3" in cli("submit", script("command: x\ngpus: [1\n", "x.yaml"), code=2).err
    assert not Job.objects.exists()


@pytest.mark.parametrize(
    "words",
    [
        ("{}", "a b", "c"),
        ("--gpus", "1", "{}", "a b", "c"),
        ("{}", "--gpus", "1", "a b", "c"),
        ("{}", "a b", "--", "c"),
    ],
)
def test_words_behind_a_script_are_its_arguments(cli, script, words):
    done = cli("submit", *(word.format(script()) for word in words), "--print" if "--" not in words else "c")
    if "--" in words:
        command = Job.objects.get().payload.command
        assert command.endswith("""/bin/bash "$BERTH_JOB_DIR/job.sbatch" 'a b' c c""")
    else:
        assert yaml.safe_load(done.out)["command"].endswith("""/bin/bash "$BERTH_JOB_DIR/job.sbatch" 'a b' c""")


def test_arguments_that_begin_with_a_dash_stand_behind_two(cli, script):
    cli("submit", script(), "--", "--epochs", "3")
    assert Job.objects.get().payload.command.endswith('job.sbatch" --epochs 3')
    assert "submit knows no --epochs" in cli("submit", script(), "a", "--epochs", "3", code=2).err


def test_yaml_takes_no_arguments(cli, script):
    path = script("command: echo x\ngpus: 0\n", "x.yaml")
    assert "a job in YAML takes no arguments" in cli("submit", path, "a", code=2).err
    assert not Job.objects.exists()
    cli("submit", path, "--", "echo", "y")
    assert Job.objects.get().payload.command == "echo y"


def test_a_looser_type_is_told(cli, script):
    node_make("n9", gpu_type=GpuType.objects.create(name="H100"))
    done = cli("submit", script(SCRIPT.replace("gpu:2", "gpu:h100_80gb:2")), "-o", "json")
    (line, _) = done.err.splitlines()
    assert line.startswith(
        "line 3: #SBATCH --gres=gpu:h100_80gb:2: looser: 2 GPUs of H100 in all. This match is a looser one"
    )


def test_no_other_file_takes_the_scripts_place(cli, script, tmp_path):
    other = script("#!/bin/sh\necho other\n", "job.sbatch")
    for named in (("--file", other), ("--folder", tmp_path)):
        assert "in the job the batch script itself is job.sbatch" in cli("submit", script(), *named, code=2).err
    assert not Job.objects.exists()
    cli("submit", other, "--folder", tmp_path)
    assert base64.b64decode(Job.objects.get().payload.files["job.sbatch"]) == b"#!/bin/sh\necho other\n"
