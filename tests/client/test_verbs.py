"""Each verb against the REST API: its effect, its output in each form, and its exit code."""

import json
import re
from datetime import timedelta

import pytest
import yaml
from django.utils import timezone

from berth_client.cli import parser_make
from berth_client.cli.job_words import QUEUES, place_words
from berth_client.cli.jobs import RETRIED
from portal.cluster.models import GpuType, Node
from portal.planning.rounds.planning.run import planning_run
from portal.work.jobs import states
from portal.work.jobs.models import Job
from scheduler.explaining.places import QUEUES as PORTAL_QUEUES

pytestmark = pytest.mark.django_db


def test_submit_sends_what_its_flags_say(cli, tmp_path):
    (tmp_path / "train.py").write_text("print('é')\n")
    (tmp_path / "w.bin").write_bytes(b"\xff\0")
    (tmp_path / "requirements.txt").write_text("numpy==2.4.6\n")
    flags = (
        "--name hello --gpus 1,2,4 --gpu-type A100 --cores-per-gpu 2 --memory 24G --disk 1.5G --time 1:30:00 --grace 90 "
        "--expected 2h --workdir src --category cv --model m --batch-per-gpu 8 --samples 100 --learning-rate 4e-4 --retries 2 "
        "--priority -5 --checkpointable --instrumented --env A=b=c --label team=x --label plain --set max_requeues=3"
    ).split()
    files = ["--file", tmp_path / "train.py", "--file", f"{tmp_path}/w.bin:data/w.bin"]
    software = ["--requirements", tmp_path / "requirements.txt"]
    Node.objects.update(software={"installer": "uv"})
    made = cli("submit", *flags, *files, *software, "-o", "json", "--", "python3", "train.py", "a b").json
    assert made["command"] == "python3 train.py 'a b'"
    assert [each["name"] for each in made["files"]] == ["train.py", "data/w.bin"]
    assert [each["bytes"] for each in made["files"]] == [12, 2]
    wanted = {
        "name": "hello",
        "gpus": [1, 2, 4],
        "gpu_types": ["A100"],
        "cores_per_gpu": 2,
        "memory_mib": 24576,
        "disk_gib": 1.5,
        "time_limit_s": 5400,
        "grace_s": 90,
        "expected_duration_s": 7200.0,
        "working_directory": "src",
        "category": "cv",
        "model": "m",
        "batch_per_gpu": 8,
        "samples": 100,
        "retries": 2,
        "max_requeues": 3,
        "priority": -5,
        "checkpointable": True,
        "restartable": False,
        "instrumented": True,
        "environment": {"A": "b=c"},
        "labels": {"team": "x", "plain": ""},
        "software": {"requirements": "numpy==2.4.6\n"},
    }
    assert {name: made[name] for name in wanted} == wanted


def test_submit_asks_for_a_part_of_a_gpu(cli):
    flags = "--gpus 1 --shareable --gpu-compute 0.25 --gpu-memory 4G --latency-class latency -o json".split()
    made = cli("submit", *flags, "--", "python3", "serve.py").json
    asked = {name: made[name] for name in ("shareable", "gpu_compute", "gpu_memory_mib", "latency_class")}
    assert asked == {"shareable": True, "gpu_compute": 0.25, "gpu_memory_mib": 4096, "latency_class": "latency"}
    assert "gpu_compute" in cli("submit", *flags[:3], "--", "true", code=2).err


def test_what_submit_prints(cli):
    assert cli("submit", "--parsable", "--", "true").out.strip() == str(Job.objects.last().pk)
    number = Job.objects.last().pk
    assert cli("submit", "--", "true").out == f"job {number + 1} is submitted\n"
    assert cli("submit", "-o", "name", "--array", "20%4", "--after", number, "--", "a; b").out == f"{number + 2}\n"
    made = Job.objects.get(pk=number + 2)
    assert (made.payload.command, made.array_size, made.array_concurrency) == ("a; b", 20, 4)
    assert [(each.on_id, each.kind) for each in made.dependencies.all()] == [(number, "ok")]
    same = [cli("submit", "--key", "k1", "--parsable", "--", "true").out for _ in range(2)]
    assert same[0] == same[1]


def test_a_command_may_hold_two_dashes_itself(cli):
    made = cli("submit", "-o", "json", "--", "srun", "--", "x").json
    assert made["command"] == "srun -- x"
    assert "takes no command after --" in cli("ps", "--", "x", code=2).err


def test_ps_has_every_form(cli, world):
    first, second = (world.owner.submit(name=name, gpus=[1, 2]) for name in ("one", "two"))
    world.teammate.submit(name="theirs")
    world.outsider.submit(name="foreign")
    table = cli("ps").out
    assert [line.split()[1] for line in table.splitlines()] == ["name", "theirs", "two", "one"]
    assert cli("ps", "--mine", "-o", "name").out.split() == [second["number"], first["number"]]
    assert [job["name"] for job in cli("ps", "--name", "on", "-o", "json").json] == ["one"]
    assert [job["name"] for job in yaml.safe_load(cli("ps", "-o", "yaml").out)] == ["theirs", "two", "one"]
    rows = [line.split("\t") for line in cli("ps", "--parsable").out.splitlines()]
    assert [row[:5] for row in rows][1] == [second["number"], "two", "lena", "PENDING", "1,2"]
    heads = cli("ps", "-o", "wide").out.splitlines()[0]
    assert "submitted" in heads
    assert "foreign" not in table


def test_ps_tells_that_it_goes_on_and_what_it_leaves_out(cli, world):
    for name in "abc":
        world.owner.submit(name=name)
    few = cli("ps", "--most", "2")
    assert (len(few.out.splitlines()), few.err) == (3, "2 of 3 shown; --most N shows more\n")
    for job in Job.objects.all():
        cli("cancel", job.pk)
    assert cli("ps").out == "no such job; -a: also those that have ended\n"
    assert len(cli("ps", "-a", "--parsable").out.splitlines()) == 3
    assert cli("ps", "--state", "CANCELLED", "-o", "name").out.split() == ["3", "2", "1"]


def test_several_at_once_and_one_that_is_refused(cli, world):
    one, two = (world.owner.submit()["number"] for _ in range(2))
    foreign = world.outsider.submit()["number"]
    done = cli("hold", one, foreign, two, code=2)
    assert done.out == f"job {one}: HELD\njob {two}: HELD\n"
    assert done.err.startswith(f"berth: job {foreign}: ")
    assert set(Job.objects.filter(pk__in=[one, two]).values_list("state", flat=True)) == {"HELD"}
    assert cli("release", one, two).out == f"job {one}: PENDING\njob {two}: PENDING\n"
    assert cli("edit", one, "--priority", "-3").out == f"job {one}: PENDING, priority -3\n"
    assert (
        cli("edit", one, "--time", "2h", "--name", "new").out == f"job {one}: PENDING, priority -3, time limit 7200 s\n"
    )
    assert "say what to change" in cli("edit", one, code=2).err
    assert cli("cancel", one, "-o", "json").json[0]["state"] == "CANCELLED"
    assert "job" in cli("requeue", two, code=2).err
    assert "retry" in cli("retry", two, code=2).err or "fail" in cli("retry", two, code=2).err


def test_show_and_explain_in_words(cli, world):
    job = world.owner.submit(name="big", gpus=4, memory_mib=2048, time_limit_s=7200, command="one\ntwo")
    waiting = [world.owner.submit(gpus=4) for _ in range(3)][-1]
    planning_run()
    shown = cli("show", job["number"]).out
    assert f"job         {job['number']}, big\n" in shown
    assert "memory      2 GiB\n" in shown
    assert "time limit  2 h 00 min\n" in shown
    assert "attempt  state" in shown
    assert "command     one; two\n" in cli("show", job["number"], "-o", "wide").out
    assert cli("show", job["number"], "-o", "name").out == f"{job['number']}\n"
    assert yaml.safe_load(cli("show", job["number"], "-o", "yaml").out)["command"] == "one\ntwo"
    told = cli("explain", waiting["number"]).out
    assert "reason" in told
    assert cli("explain", waiting["number"], "-o", "json").json["sentence"] == told.splitlines()[0]
    assert "These changes would start it:\n" in cli("explain", waiting["number"], "--what-if").out


def test_plan_says_by_its_code_whether_it_would_start(cli, world):
    told = cli("plan", "--gpus", "1,2", "--", "true")
    assert "would start  with the next planning\n" in told.out
    assert cli("plan", "--gpus", "1", "-o", "name", "--", "true").out == "start\n"
    assert not Job.objects.exists()
    while True:
        world.owner.submit(gpus=4, cores_per_gpu=1)
        if not planning_run().placed:
            break
    told = cli("plan", "--gpus", "4", "--", "true", code=2)
    assert "would start     later\n" in told.out
    assert "gpus: " in cli("plan", "--gpus", "9", "--", "true", code=2).err


def test_submit_without_a_length_says_what_similar_jobs_took(cli, world):
    assert cli("submit", "--gpus", "1", "--", "true").err == "", "no job has ended yet"
    ended_at = timezone.now()
    for ran_s in (6600, 7200, 7800):
        number = world.owner.submit(gpus=1)["number"]
        times = {"started_at": ended_at - timedelta(seconds=ran_s), "ended_at": ended_at, "ran_s": ran_s}
        Job.objects.filter(pk=number).update(state=states.JobState.COMPLETED, **times)
    said = "Your last 3 jobs of this size without a category mostly took 110 min to 2 h 10 min; declare it by --expected 2h."
    submitted = cli("submit", "--gpus", "1", "--", "true")
    assert (submitted.out.startswith("job "), submitted.err) == (True, f"{said}\n")
    assert cli("plan", "--gpus", "1", "--", "true").out.endswith(f"\n\n{said}\n")
    for more in (["--expected", "2h"], ["-o", "name"], ["--gpus", "2"]):
        assert cli("submit", "--gpus", "1", *more, "--", "true").err == "", more


def test_a_node_with_instances_says_what_they_take(cli, world):
    assert "MIG" not in cli("nodes", "rtx-01").out
    GpuType.objects.filter(name="A100").update(name="A100 MIG 1g.10gb")
    told = cli("nodes", "rtx-01").out
    assert "A100 MIG 1g.10gb" in told
    assert "An instance of a GPU (MIG) takes jobs of one GPU; name its type to ask for one.\n" in told


def test_nodes_drain_and_resume(cli, world):
    assert [line.split()[0] for line in cli("nodes").out.splitlines()] == ["node", "cpu-01", "rtx-01", "rtx-02"]
    assert re.search(r"memory asked for.*\n.*  none of \S+ [GM]iB", cli("nodes").out)
    assert cli("nodes", "--gpu-type", "A100", "-o", "name").out.split() == ["rtx-01", "rtx-02"]
    assert "Only an operator" in cli("drain", "rtx-01", "--reason", "fans", code=2).err
    operator = {"caller": world.operator}
    assert cli("drain", "rtx-01", "--reason", "fans", **operator).out == "rtx-01 gets no new job\n"
    assert "fans" in cli("nodes").out
    assert cli("resume", "rtx-01", **operator).out == "rtx-01 gets jobs again\n"
    assert cli("drain", "rtx-01", "--gpu", 2, "--reason", "ECC", **operator).out == "GPU 2 of rtx-01 gets no new job\n"
    assert "ECC" in cli("nodes", "rtx-01").out
    assert cli("resume", "rtx-01", "--gpu", 2, "-o", "name", **operator).out == "rtx-01\n"
    assert json.loads(cli("nodes", "rtx-01", "-o", "json").out)["gpu_list"][2]["cordoned_at"] is None


def test_usage(cli, world):
    told = cli("usage")
    assert "user   lena\n" in told.out
    assert "vision-lab  member  0     0      0" in told.out
    assert cli("usage", "-o", "name").out == "vision-lab\n"
    assert cli("usage", "-o", "yaml", caller=world.operator).out.startswith("username: root\n")


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["submit", "--gpus", "two", "--", "x"], "--gpus: 'two' is no number of GPUs; write 4, or 1,2,4, or 1-8"),
        (["submit", "--time", "soon", "--", "x"], "--time: 'soon' is no time; write 90s, 30min, 2h, 1d or 1:30:00"),
        (["submit", "--memory", "24", "--", "x"], "--memory: '24' is no amount; write it with its unit: 24G, 512M"),
        (["submit", "--array", "0-9", "--", "x"], "--array: '0-9' is no array; write 100, or 100%8"),
        (["submit", "--env", "A", "--", "x"], "--env: 'A': write NAME=VALUE"),
        (["ps", "--most", "0"], "--most: '0' is not a whole number of 1 or more"),
        (["ps", "--watch", "0.1"], "--watch: '0.1' is less than one second"),
        (["submit", "--set", "retries=two", "--", "x"], "--set retries: 'two' is no JSON"),
        (["submit", "--set", f"labels={'[' * 100_000}", "--", "x"], "is no JSON"),
        (["submit", "--set", 'labels={"a": "b", "a": "c"}', "--", "x"], "--set names one thing twice: a, a"),
        (["submit", "--set", "retries=NaN", "--", "x"], "--set: NaN is no number"),
        (["submit", "--file", "nowhere.py", "--", "x"], "nowhere.py cannot be read: No such file"),
        (["submit"], "say what to run: `berth submit [options] -- COMMAND`, or name a batch script or a job in YAML."),
        (["plan", "--gpus", "2"], "say what to run: `berth plan [options] -- COMMAND`"),
        (["submit", "--type", "A100", "--", "x"], "submit knows no --type; `berth submit -h` lists what it knows"),
        (["submit", "--set", "colour=1", "--", "x"], "colour: A job description has no 'colour'"),
        (["submit", "--set", "gpu=1", "--", "x"], "correct its name. Did you mean `gpus`?"),
        (["ps", "--state", "LOST"], "state: "),
        (["show", "987654321"], "No such job"),
        (["show", "../me"], "No such path"),
        (["frobnicate"], "invalid choice: 'frobnicate'"),
    ],
)
def test_what_is_refused_is_said_and_changes_nothing(cli, arguments, complaint):
    assert complaint in cli(*arguments, code=2).err
    assert not Job.objects.exists()


def test_help_says_what_edit_and_retry_take(capsys):
    told = {verb: _help(verb, capsys) for verb in ("edit", "retry", "submit")}
    assert "FAILED, TIMEOUT, OUT_OF_MEMORY, NODE_FAIL" in told["retry"]
    assert "the job's new name" in told["edit"]
    assert "else its program's name" in told["submit"]
    assert "else its program's name" not in told["edit"], "an edit leaves the name as it is where none is given"


def _help(verb, capsys):
    with pytest.raises(SystemExit):
        parser_make().parse_args([verb, "--help"])
    return " ".join(capsys.readouterr().out.split())


def test_queues_are_called_as_the_portal_calls_them():
    assert {str(name): words for name, words in PORTAL_QUEUES.items()} == QUEUES
    found = {"queue": "gpu-small", "place": 2, "queue_length": 5}
    assert place_words(found) == "2 of 5 in the queue for jobs of 1 to 3 GPUs"
    assert place_words({"queue": None, "place": None, "queue_length": None}) is None


def test_the_states_of_a_retry_are_the_portals():
    assert set(RETRIED) == {str(state) for state in states.RETRIED}


def test_watch_prints_it_again_and_lives_through_a_portal_that_is_away(cli, world, monkeypatch):
    from berth_client import AwayError, Berth

    world.owner.submit(name="one")
    asked = []
    original = Berth.pages

    def pages(self, *arguments, **more):
        asked.append(1)
        if len(asked) == 2:
            raise AwayError("it is away.")
        return original(self, *arguments, **more)

    def sleep(seconds):
        assert seconds == 5
        if len(asked) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(Berth, "pages", pages)
    monkeypatch.setattr("berth_client.cli.output.time.sleep", sleep)
    printed = []
    monkeypatch.setattr("sys.stdout.write", printed.append)
    with pytest.raises(KeyboardInterrupt):
        cli("ps", "--watch", "5", "-o", "name")
    assert printed == ["1\n\n", "it is away.\n\n", "1\n\n"]
