"""`berth ssh`: OpenSSH's own programs, through portal, agent and shim, to a server of OpenSSH's inside a job (story 12)."""

import getpass
import hashlib
import os
import random
import shutil
import subprocess
import sys
import time

import pytest

from portal.foundation.layout import SOURCE
from tests.servers import stretched
from tests.system.helpers.client import Tenant, rows
from workers.controls.logins import SSHD

pytestmark = [
    pytest.mark.system,
    pytest.mark.slow,
    pytest.mark.xdist_group("shells"),
    pytest.mark.skipif(
        not (shutil.which("ssh") and os.access(SSHD, os.X_OK)), reason="needs openssh-client and openssh-server"
    ),
]
PATIENCE_S = 60


@pytest.fixture(scope="module")
def berth(berth_shared):
    return berth_shared


@pytest.fixture(scope="module")
def tenant(berth):
    return Tenant(berth)


@pytest.fixture(scope="module")
def job(tenant):
    environment = {"MINE": "forty two", "QUOTED": 'a "b" \\ $HOME #'}
    number = tenant.submit("touch made; sleep 900", name="reached", environment=environment, grace_s=2)
    tenant.wait_state(number, "RUNNING")
    yield number
    if tenant.state(number) == "RUNNING":
        tenant.act(number, "cancel")


class Ssh:
    """OpenSSH's programs, with the configuration that `--config` prints. `user`: as which the job runs."""

    def __init__(self, berth, token, directory):
        own = {"BERTH_URL": berth.url, "BERTH_TOKEN": token, "PYTHONPATH": str(SOURCE / "client")}
        self.environment = {**os.environ, **own, "BERTH_CONFIG": str(directory / "config.ini")}
        self.directory, self.config = directory, directory / "ssh_config"
        asked = self.run(sys.executable, "-m", "berth_client", "ssh", "--config")
        assert asked.returncode == 0, asked.stderr
        mine = f"{sys.executable} -m berth_client"
        lines = asked.stdout.decode().splitlines()
        lines[1] = f"  ProxyCommand {mine} ssh %n %r"
        self.config.write_text("\n".join([*lines, f"  User {getpass.getuser()}"]) + "\n")

    def run(self, *argv, stdin=b"", **more):
        return subprocess.run(
            argv, env=self.environment, input=stdin, capture_output=True, timeout=stretched(PATIENCE_S), **more
        )

    def ssh(self, host, *command, options=(), **more):
        return self.run("ssh", "-F", self.config, "-o", "BatchMode=yes", *options, host, *command, **more)


@pytest.fixture(scope="module")
def ssh(berth, tenant, tmp_path_factory):
    return Ssh(berth, tenant.token, tmp_path_factory.mktemp("ssh"))


def test_a_command_runs_in_the_job_and_its_exit_code_comes_back(berth, ssh, job):
    done = ssh.ssh(f"berth-{job}", "ls; echo $MINE-$BERTH_JOB_ID-; echo $QUOTED; cat; exit 9", stdin=b"typed")
    assert done.returncode == 9, done.stderr
    assert done.stdout.decode().splitlines() == ["made", f"forty two-{job}-", 'a "b" \\ $HOME #', "typed"]
    assert not (ssh.directory / "ssh" / "key").exists(), "the key was of this connection"
    noted = "SELECT action FROM tenants_auditevent WHERE action LIKE 'job.ssh%' ORDER BY id"
    ends_at = time.monotonic() + stretched(PATIENCE_S)
    while (found := rows(berth, noted)) != [("job.ssh",), ("job.ssh_end",)] and time.monotonic() < ends_at:
        time.sleep(0.2)  # it is noted when the stream has ended, behind the client's back
    assert found == [("job.ssh",), ("job.ssh_end",)]


@pytest.mark.parametrize("size", [1_000_000, 50_000_000])
def test_a_file_goes_there_and_back(ssh, job, tmp_path, size):
    made, back = tmp_path / "made.bin", tmp_path / "back.bin"
    made.write_bytes(random.Random(size).randbytes(size))
    for words in ((made, f"berth-{job}:there.bin"), (f"berth-{job}:there.bin", back)):
        done = ssh.run("scp", "-q", "-F", ssh.config, "-o", "BatchMode=yes", *words)
        assert done.returncode == 0, done.stderr
    seen = ssh.ssh(f"berth-{job}", "sha256sum there.bin").stdout.split()[0].decode()
    digest = hashlib.sha256(made.read_bytes()).hexdigest()
    assert (seen, hashlib.sha256(back.read_bytes()).hexdigest()) == (digest, digest)


@pytest.mark.skipif(not shutil.which("rsync"), reason="needs rsync")
def test_a_folder_is_kept_the_same_by_rsync(ssh, job, tmp_path):
    (tmp_path / "code").mkdir()
    for number in range(30):
        (tmp_path / "code" / f"{number}.py").write_text(f"print({number})\n")
    done = ssh.run("rsync", "-a", "-e", f"ssh -F {ssh.config}", f"{tmp_path}/code", f"berth-{job}:")
    assert done.returncode == 0, done.stderr
    assert ssh.ssh(f"berth-{job}", "ls code | wc -l").stdout == b"30\n"


SERVE = """
import socket, sys
with socket.create_server(("127.0.0.1", 0)) as server:
    server.settimeout(40)
    print(server.getsockname()[1], flush=True)
    server.accept()[0].sendall(b"reached")
"""


def test_a_port_of_the_job_is_reached_and_no_other_and_none_opened(ssh, job, tmp_path):
    """As VS Code does it. `-W` asks the server for a way to an address, and `-R` for a port there."""
    (tmp_path / "serve.py").write_text(SERVE)
    ssh.run("scp", "-q", "-F", ssh.config, tmp_path / "serve.py", f"berth-{job}:")
    argv = ["ssh", "-F", ssh.config, f"berth-{job}", "exec $BERTH_PYTHON serve.py"]
    with subprocess.Popen(argv, env=ssh.environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as server:
        port = int(server.stdout.readline())
        assert ssh.ssh(f"berth-{job}", options=["-W", f"127.0.0.1:{port}"]).stdout == b"reached"
    assert b"administratively prohibited" in ssh.ssh(f"berth-{job}", options=["-W", "192.0.2.1:80"]).stderr
    refused = ssh.ssh(f"berth-{job}", "true", options=["-R", "0:127.0.0.1:9", "-o", "ExitOnForwardFailure=yes"])
    assert refused.returncode == 255


def test_the_server_listens_nowhere(ssh, job):
    """The machine is full of other tests' servers, so only its own sockets are looked at."""
    shown = ssh.ssh(f"berth-{job}", "readlink /proc/$PPID/fd/*; echo; cat /proc/net/tcp /proc/net/tcp6").stdout.decode()
    own, _, table = shown.partition("\n\n")
    assert "pipe:" in own
    listening = {line.split()[9] for line in table.splitlines() if " 0A " in line}
    assert {each.strip("socket:[]") for each in own.split() if each.startswith("socket:")} & listening == set()


def test_a_terminal_where_the_node_gives_one(ssh, job):
    done = ssh.ssh(f"berth-{job}", "tty; stty size", options=["-tt"])
    if b"PTY allocation request failed" in done.stderr:
        pytest.skip("needs /dev/pts with gid=5, or tenants' accounts")
    assert done.stdout.startswith(b"/dev/pts/"), done


def test_what_may_not_be_reached_is_refused_in_words(berth, tenant, ssh, job, tmp_path):
    other = Ssh(berth, Tenant(berth, "nlp-startup").token, tmp_path)
    done = other.ssh(f"berth-{job}", "id")
    assert done.returncode == 255
    assert b"No such job, or you may not see it." in done.stderr
    assert not (tmp_path / "ssh" / "key").exists()
    ended = tenant.submit("true")
    tenant.wait_state(ended, "COMPLETED")
    assert b"has no running part 0" in ssh.ssh(f"berth-{ended}", "id").stderr
    assert b"HOST is berth-JOB" in ssh.ssh("berth-mine", "id").stderr


@pytest.mark.skipif(os.getuid() == 0, reason="root lends the account any name")
def test_a_name_that_is_not_the_accounts_is_refused_with_the_one_that_is(ssh, job):
    done = ssh.ssh(f"berth-{job}", "id", options=["-l", "someone"])
    assert f"add `User {getpass.getuser()}` to ~/.ssh/config".encode() in done.stderr, done.stderr


def test_the_jobs_end_ends_the_session_and_leaves_nothing(tenant, ssh):
    number = tenant.submit("sleep 900", grace_s=1)
    tenant.wait_state(number, "RUNNING")
    argv = ["ssh", "-F", ssh.config, f"berth-{number}", "echo $$; sleep 987654"]
    with subprocess.Popen(argv, env=ssh.environment, stdout=subprocess.PIPE) as session:
        shell = int(session.stdout.readline())
        tenant.act(number, "cancel")
        assert session.wait(stretched(PATIENCE_S)) == 255
    tenant.wait_state(number, "CANCELLED")
    assert not os.path.exists(f"/proc/{shell}")  # noqa: PTH110


def test_a_session_that_is_left_leaves_no_server(ssh, job):
    argv = ["ssh", "-F", ssh.config, f"berth-{job}", "echo $PPID; cat"]
    session = subprocess.Popen(argv, env=ssh.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    server = int(session.stdout.readline())
    session.kill()
    session.communicate()
    deadline = time.monotonic() + stretched(PATIENCE_S)
    while os.path.exists(f"/proc/{server}"):  # noqa: PTH110
        assert time.monotonic() < deadline, server
        time.sleep(0.2)
    assert ssh.ssh(f"berth-{job}", "ls -a $TMPDIR | grep -c '^.ssh-'").stdout.strip() in {b"1", b"2"}, (
        "its own, and one that goes"
    )
