"""`up`, `down` and `status` on a whole Berth: what is killed comes back, what runs is not lost, secrets stay private."""

import os
import signal
import socket
import stat
import time
from pathlib import Path

import pytest

from portal.launch.processes import identity
from portal.layout import read_json
from tests.system.helpers.client import MACHINE_SLACK

pytestmark = pytest.mark.system


@pytest.fixture(scope="module")
def berth(berth_up):
    return berth_up(demo=True, fresh=True)


@pytest.fixture
def token(berth):
    return berth.tokens["vision-lab"]


def submit(berth, token, **description):
    status, job = berth.request("/api/v1/jobs", method="POST", body={"gpus": 1, **description}, token=token)
    assert status == 201, job
    return job["id"]


def job_of(berth, token, job_id):
    status, job = berth.request(f"/api/v1/jobs/{job_id}", token=token)
    assert status == 200, job
    return job


def wait_state(berth, token, job_id, *states, limit_s=60.0):
    found = lambda: job_of(berth, token, job_id)["state"] in states  # noqa: E731 - reads best in place
    berth.wait(found, limit_s=limit_s, what=f"job {job_id} to be {states}")


def pid_of_job(berth, token, note):
    """The pid that a job wrote of itself."""
    berth.wait(lambda: note.exists() and note.read_text().strip(), what="the job's pid")
    return int(note.read_text())


def test_it_is_healthy_and_says_so(berth):
    facts = berth.status()
    assert facts["state"] == "running"
    assert facts["url"] == berth.url
    assert {each["role"] for each in facts["processes"].values()} == {"broker", "portal", "worker", "beat", "agent"}
    assert len(berth.pids("agent")) == 4


def test_secrets_are_their_owners_alone(berth):
    layout = berth.layout
    for path in (layout.root, layout.run, layout.nodes):
        assert stat.S_IMODE(path.stat().st_mode) == 0o700, path
    secret_files = [
        layout.operator,
        layout.demo_tokens,
        layout.demo_users,
        layout.secret_key,
        layout.mode,
        layout.state,
    ]
    for path in (*secret_files, layout.redis / "server.conf", layout.redis / "password"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path


def test_no_secret_is_on_a_command_line_or_in_a_log(berth):
    secrets = [
        *berth.tokens.values(),
        berth.operator["password"],
        (berth.layout.redis / "password").read_text().strip(),
    ]
    secrets += [read_json(path)["token"] for path in berth.layout.nodes.glob("*/node.json")]
    assert len(secrets) == 3 + 1 + 1 + 4
    command_lines = " ".join(" ".join(process.cmdline()) for process in identity.leftovers(berth.layout))
    logs = "".join(path.read_text(errors="replace") for path in berth.layout.logs.glob("*.log"))
    assert not [secret for secret in secrets if secret in command_lines or secret in logs]


def test_an_agent_finds_neither_broker_nor_database(berth):
    for pid in berth.pids("agent").values():
        with Path(f"/proc/{pid}/environ").open() as file:
            names = {entry.partition("=")[0] for entry in file.read().split("\0")}
        assert not names & {"REDIS_URL", "DATABASE_URL", "BERTH_DATA_DIR", "BERTH_SECRET_KEY_FILE"}


def test_a_second_up_says_that_it_runs_and_where(berth):
    done = berth.command("up", "--port", str(berth.port), check=False)
    assert done.returncode == 1
    assert berth.url in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("role", ["portal", "worker", "beat", "broker"])
def test_a_killed_service_comes_back_while_a_job_runs(berth, token, tmp_path, role):
    job_id = submit(berth, token, command="sleep 300", name=f"through-{role}")
    wait_state(berth, token, job_id, "RUNNING")
    before = berth.kill(role)
    berth.wait(lambda: berth.pids(role) and not set(berth.pids(role).values()) & set(before), what=f"a new {role}")
    berth.wait_healthy()
    job = job_of(berth, token, job_id)
    assert (job["state"], job["epoch"]) == ("RUNNING", 1)
    berth.request(f"/api/v1/jobs/{job_id}/cancel", method="POST", body={}, token=token)
    wait_state(berth, token, job_id, "CANCELLED")


def test_jobs_outlive_the_supervisor_and_the_next_up_adopts_them(berth, token, tmp_path):
    note = tmp_path / "pid"
    job_id = submit(berth, token, command=f"echo $$ > {note}; sleep 600")
    pid = pid_of_job(berth, token, note)
    old_services = {p.pid for p in identity.leftovers(berth.layout)}
    assert set(berth.pids("broker").values()) < old_services
    berth.kill("supervisor")
    assert berth.status()["state"] == "crashed"
    berth.up()
    assert identity.identity_of(pid), "the job runs on"
    assert not old_services & {p.pid for p in identity.leftovers(berth.layout)}, "no old service serves beside the new"
    berth.wait(lambda: job_of(berth, token, job_id)["state"] == "RUNNING", what="RUNNING")
    assert job_of(berth, token, job_id)["epoch"] == 1
    berth.request(f"/api/v1/jobs/{job_id}/cancel", method="POST", body={}, token=token)
    berth.wait(lambda: identity.identity_of(pid) is None, what="the job's end")


def test_down_keep_jobs_leaves_them_and_the_next_up_adopts_them(berth, token, tmp_path):
    note = tmp_path / "pid"
    job_id = submit(berth, token, command=f"echo $$ > {note}; sleep 600")
    pid = pid_of_job(berth, token, note)
    berth.down("--keep-jobs")
    assert berth.status()["state"] == "stopped"
    assert identity.leftovers(berth.layout) == []
    time.sleep(13)  # beyond lease and grace: the maintenance lease is what keeps the job
    assert identity.identity_of(pid), "the job runs on without Berth"
    berth.up()
    wait_state(berth, token, job_id, "RUNNING")
    time.sleep(3)
    assert identity.identity_of(pid)
    assert job_of(berth, token, job_id)["epoch"] == 1


def test_down_stops_jobs_and_everything_else(berth, token, tmp_path):
    note = tmp_path / "pid"
    submit(berth, token, command=f"echo $$ > {note}; sleep 600")
    pid = pid_of_job(berth, token, note)
    began = time.monotonic()
    berth.down()
    assert time.monotonic() - began < 30 * MACHINE_SLACK
    assert identity.identity_of(pid) is None
    assert identity.leftovers(berth.layout) == []
    assert berth.status()["state"] == "stopped"
    assert berth.down().returncode == 0, "a second down changes nothing"


def test_up_again_is_quick_and_keeps_everything(berth, token):
    berth.down()
    tokens, operator = berth.tokens, berth.operator
    began = time.monotonic()
    done = berth.up()
    assert time.monotonic() - began <= 15 * MACHINE_SLACK
    assert "data directory is up to date" in done.stdout
    assert operator["password"] not in done.stdout, "the password is shown once"
    assert (berth.tokens, berth.operator) == (tokens, operator)
    assert berth.request("/api/v1/jobs", token=token)[1]["results"]


def test_a_taken_port_is_one_sentence(berth):
    berth.down()
    with socket.create_server(("127.0.0.1", berth.port)):
        done = berth.command("up", "--port", str(berth.port), check=False)
    assert done.returncode == 1
    assert f"Another program uses port {berth.port} on 127.0.0.1" in done.stderr
    assert done.stderr.count("\n") == 1
    assert identity.leftovers(berth.layout) == []
    berth.up()


def test_ctrl_c_stops_everything(berth):
    supervisor = berth.pids("supervisor")["supervisor"]
    os.kill(supervisor, signal.SIGINT)
    berth.wait(lambda: identity.identity_of(supervisor) is None, what="the supervisor's end")
    assert identity.leftovers(berth.layout) == []
