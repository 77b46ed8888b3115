"""A job's repository is fetched by its shim, as the job, from a real git server; its secret shows nowhere."""

from __future__ import annotations

import base64
import json
import shlex
import shutil
import subprocess
from dataclasses import replace

import pytest

from tests.workers.controls.test_shim import PART, ShimRun
from tests.workers.environments.git_server import GitServer, commit, git, repository
from tests.workers.specs import spec_make
from workers.environments.fetch import _environment, answer
from workers.environments.offer import Limits, Offer
from workers.parts.contents import SpecError
from workers.parts.workspace import Rooms, Workplace, part_prepare
from workers.system.landlock import landlock_version
from workers.system.procs import boot_id

TOKEN = "glpat-0123456789abcdef"
PASSWORD = f"lena:{TOKEN}"


class FetchRun(ShimRun):
    """A prepared part with code, whose secrets are handed over as the agent does."""

    def prepare(self, url, *, ref="HEAD", schemes=("http",), submodules=False, limits=None, program=None, **spec):
        found = Offer(
            self.root / "environments", git=shutil.which("git") if program is None else None, limits=limits or Limits()
        )
        kept = {"walls": None, "landlock": landlock_version(), "virtual": True, "virtual_pace": None, "nice": 0}
        place = Workplace(
            self.root / "storage", **kept, boot_id=boot_id(), node_grace_s=1.0, lease_grace_s=3.0, software=found
        )
        code = {"git": url, "ref": ref, "submodules": submodules, "schemes": list(schemes)}
        self.spec = spec_make(**{**PART, "code": code, **spec})
        part_prepare(Rooms(self.directory, self.job, mark=self.mark), self.spec, {"lease_s": None}, place)
        return self

    def start(self, code="", **variables):
        given = json.dumps({"environment": variables, "code": code}).encode() if self.spec.get("secrets") else b""
        self.engine.start(self.directory, given)
        return self

    def said(self):
        return self.stdout() + (self.directory / "stderr").read_text()

    def lies_nowhere(self, *values):
        """No file of the part holds one of the values."""
        for path in self.root.rglob("*"):
            if path.is_file() and not path.is_relative_to(self.root / "served"):
                assert not any(value.encode() in path.read_bytes() for value in values), path


@pytest.fixture
def part(tmp_path):
    run = FetchRun(tmp_path)
    yield run
    run.end()


@pytest.fixture
def served(tmp_path):
    """Serve repository `code` behind a password."""
    repository(tmp_path / "served/code", train__py="print('first')\n")
    server = GitServer(tmp_path / "served", PASSWORD)
    yield server
    server.close()


def test_the_command_finds_the_code_its_commit_and_its_history_cut_short(part, served):
    found = commit(served.root / "code", train__py="print('second')\n")
    command = (
        "cat train.py; git log --oneline | wc -l; echo $BERTH_COMMIT; echo ${BERTH_GIT_SECRET-none}; cat .git/config"
    )
    part.prepare(f"{served.url}/code", command=command, secrets=True).start(PASSWORD)
    assert (part.result()["reason"], part.result()["exit_code"]) == ("exit", 0), part.said()
    lines = part.stdout().splitlines()
    assert lines[:2] == [f"[code] Fetching HEAD of {served.url}/code.", f"[code] Commit {found}."]
    assert lines[2:6] == ["print('second')", "1", found, "none"]
    assert part.engine.job(part.directory)["commit"] == found
    part.lies_nowhere(TOKEN)


def test_a_branch_a_tag_and_a_commit_that_is_no_ones_end(part, served, tmp_path):
    first = git(served.root / "code", "rev-parse", "HEAD")
    git(served.root / "code", "tag", "v1")
    commit(served.root / "code", train__py="print('second')\n")
    for number, ref in enumerate(("v1", first)):
        run = FetchRun(tmp_path / f"n{number}")
        run.prepare(f"{served.url}/code", ref=ref, command="cat train.py", secrets=True).start(PASSWORD)
        assert run.result()["exit_code"] == 0, run.said()
        assert run.stdout().splitlines()[-1] == "print('first')"
        run.end()


@pytest.mark.parametrize(
    ("url", "ref", "secret", "said"),
    [
        ("/code", "HEAD", "", "127.0.0.1:PORT does not let it in. Name a secret in `code.secret`"),
        ("/code", "HEAD", "lena:wrong-password", "127.0.0.1:PORT does not let it in"),
        ("/code", "none", PASSWORD, "There is no none in the repository"),
        ("/code", "0" * 40, PASSWORD, "in the repository (any more)"),
        ("/nothing", "HEAD", PASSWORD, "shows no such repository"),
    ],
)
def test_what_cannot_be_fetched_ends_the_job_with_the_reason(part, served, url, ref, secret, said):
    part.prepare(f"{served.url}{url}", ref=ref, command="echo ran", secrets=True).start(secret)
    result = part.result()
    assert result["reason"] == "start_failed"
    assert said.replace("PORT", str(served.server.server_port)) in result["detail"]
    assert "ran" not in part.stdout().split()
    part.lies_nowhere(TOKEN, "wrong-password")


def test_a_server_that_is_away_or_hangs(part, tmp_path):
    server = GitServer(tmp_path, hangs=True)
    part.prepare(f"{server.url}/code", command="echo ran", limits=replace(Limits(), build_s=2.0)).start()
    assert "its code was not ready within 2 s" in part.result()["detail"]
    server.close()
    again = FetchRun(tmp_path / "again")
    again.prepare(f"{server.url}/code", command="echo ran").start()
    assert "This node could not reach 127.0.0.1" in again.result()["detail"]
    again.end()


def test_a_way_that_the_operator_does_not_allow_is_refused_by_git_itself(part, served):
    url = f"file://{served.root}/code"
    part.prepare(url, schemes=("https",), command="echo ran").start()
    assert "does not allow to fetch a repository in this way" in part.result()["detail"]


def test_neither_hooks_nor_settings_of_the_machine_act(part, served, tmp_path):
    (tmp_path / "home").mkdir()
    (tmp_path / "home/.gitconfig").write_text('[url "http://127.0.0.1:1/"]\n\tinsteadOf = http://\n')
    hook = served.root / "code/.git/hooks/post-checkout"
    hook.write_text("#!/bin/sh\necho hooked\n")
    hook.chmod(0o755)
    environment = {"HOME": str(tmp_path / "home"), "GIT_SSH_COMMAND": "echo evil", "GIT_EXEC_PATH": "/nowhere"}
    part.prepare(f"{served.url}/code", command="ls .git/hooks; true", secrets=True, environment=environment)
    assert part.start(PASSWORD).result()["exit_code"] == 0, part.said()
    assert "hooked" not in part.said()


def test_submodules_come_when_asked(part, served, tmp_path):
    repository(tmp_path / "served/library", lib__py="x = 1\n")
    code = served.root / "code"
    (code / ".gitmodules").write_text('[submodule "library"]\n\tpath = library\n\turl = ../library\n')
    head = git(served.root / "library", "rev-parse", "HEAD")
    git(code, "update-index", "--add", "--cacheinfo", f"160000,{head},library")
    git(code, "add", ".gitmodules")
    git(code, "commit", "-qm", "a library")
    part.prepare(f"{served.url}/code", submodules=True, command="cat library/lib.py", secrets=True).start(PASSWORD)
    assert part.result()["exit_code"] == 0, part.said()
    assert part.stdout().splitlines()[-1] == "x = 1"


@pytest.mark.parametrize("beguiling", ["", "{host}%2Fx@", "{host}%3F@", "{host}%23@", "{host}%5C@", "git@"])
def test_another_host_never_gets_the_secret_however_a_submodule_writes_it(part, served, tmp_path, beguiling):
    host = served.url.partition("://")[2]
    other = GitServer(tmp_path / "served", "mallory:secret-of-mallory")
    url = f"http://{beguiling.format(host=host.replace(':', '%3A'))}{other.url.partition('://')[2]}/library"
    code = served.root / "code"
    (code / ".gitmodules").write_text(f'[submodule "library"]\n\tpath = library\n\turl = {url}\n')
    git(code, "update-index", "--add", "--cacheinfo", f"160000,{git(code, 'rev-parse', 'HEAD')},library")
    git(code, "add", ".gitmodules")
    git(code, "commit", "-qm", "elsewhere")
    part.prepare(f"{served.url}/code", submodules=True, command="echo ran", secrets=True).start(PASSWORD)
    assert part.result()["reason"] == "start_failed"
    other.close()
    assert other.asked
    assert not any(TOKEN in base64.b64decode(said.removeprefix("Basic ")).decode() for _, said in other.asked)


def test_git_asks_for_name_and_password_of_its_own_host_alone(monkeypatch, capsys):
    monkeypatch.setenv("BERTH_GIT_SECRET", TOKEN)
    own = "https://host:8443"
    assert answer(own, f"Username for '{own}': ") == 0
    assert answer(own, "Password for 'https://git@host:8443': ") == 0
    assert capsys.readouterr().out == f"git\n{TOKEN}\n"
    others = [
        "host",
        "evil",
        "host:8443.evil",
        "host:8443/x@evil",
        "host:8443?x@evil",
        "host:8443#x@evil",
        "a@host:8443/@b",
    ]
    asked = [f"https://{each}" for each in others] + ["http://git@host:8443", "HTTP://host:8443", "host:8443", ""]
    assert [answer(own, f"Password for '{each}': ") for each in asked] == [1] * len(asked)
    assert capsys.readouterr().out == ""


def test_what_the_job_brings_stays_beside_the_code_unless_it_has_the_same_name(part, served, tmp_path):
    brought = {"config.json": "e30="}
    part.prepare(f"{served.url}/code", command="cat config.json train.py", files=brought, secrets=True).start(PASSWORD)
    assert part.result()["exit_code"] == 0, part.said()
    assert part.stdout().splitlines()[-1] == "{}print('first')"
    again = FetchRun(tmp_path / "again")
    again.prepare(f"{served.url}/code", files={"train.py": "e30="}, secrets=True).start(PASSWORD)
    assert "brings a file that the repository has too" in again.result()["detail"]
    again.end()


def test_variables_reach_the_command_alone_and_its_log_does_not_show_them(part, served):
    command = 'echo "token $HF_TOKEN"; echo $HF_TOKEN >&2; python3 -c "import os, sys; sys.exit(len(os.environ[\'HF_TOKEN\']))"'
    part.prepare(f"{served.url}/code", command=command, secrets=True).start(PASSWORD, HF_TOKEN="hf_secretsecret")
    assert part.result()["exit_code"] == len("hf_secretsecret")
    assert part.stdout().splitlines()[-1] == "token ***"
    assert (part.directory / "stderr").read_text().splitlines()[-1] == "***"
    part.lies_nowhere(TOKEN, "hf_secretsecret")


def test_a_part_whose_secrets_do_not_arrive_does_not_begin(part, served):
    part.prepare(f"{served.url}/code", command="echo ran", secrets=True)
    part.engine.start(part.directory)
    assert "its secrets did not reach its shim" in part.result()["detail"]


def test_a_node_without_git_says_so(part):
    with pytest.raises(SpecError, match="no git"):
        part.prepare("https://host/code", program="")


def test_a_directory_of_code_is_entered_unless_a_link_leads_out_of_the_operators(tmp_path):
    shared = tmp_path / "shared"
    (shared / "lena").mkdir(parents=True)
    (shared / "out").symlink_to(tmp_path)
    (tmp_path / "root").symlink_to(shared)
    for number, (path, roots, reason) in enumerate(
        [
            ("lena", ["shared"], "exit"),
            ("lena", ["root"], "exit"),
            ("out", ["shared"], "start_failed"),
            ("lena", [], "start_failed"),
        ]
    ):
        run = ShimRun(tmp_path / f"n{number}")
        opened = [str(tmp_path / root) for root in roots]
        run.prepare(working_directory=str(shared / path), code_roots=opened, command="pwd").start()
        result = run.result()
        assert result["reason"] == reason
        assert reason == "exit" or "is not below" in result["detail"]
        run.end()


KEY = "-----BEGIN OPENSSH PRIVATE KEY-----\nno real one\n-----END OPENSSH PRIVATE KEY-----"
NEAR_HOSTS = [
    "git@evil.example",
    "git@evil",
    "-p 2222 git@lab.example",
    "git@lab.example.evil",
    "git@xlab.example",
    "git@lab-example",
    "lab.example@evil",
    "-p 22 git@evil",
]


@pytest.mark.skipif(not shutil.which("ssh"), reason="SKIPPED: no ssh")
@pytest.mark.parametrize(
    ("url", "own", "others"),
    [
        ("ssh://git@lab.example/group/a.git", ["git@lab.example", "-p 22 lab.example"], NEAR_HOSTS),
        (
            "ssh://git@Lab.example:2222/a",
            ["-p 2222 git@Lab.example", "-p 2222 git@lab.example"],
            ["git@lab.example", "git@evil"],
        ),
        ("ssh://git@[2001:db8::1]/a", ["git@2001:db8::1"], ["git@2001:db8::2", "git@evil"]),
        ("ssh://git@10.0.0.1:22/a", ["git@10.0.0.1"], ["git@10.0.0.11", "-p 23 git@10.0.0.1"]),
        ("https://lab.example/a", [], ["git@lab.example", "git@evil"]),
    ],
)
def test_a_key_is_offered_to_the_repository_s_own_host_and_port_alone(tmp_path, url, own, others):
    """As ssh itself reads what it is called with; a submodule may name any other host."""
    plan = {"git": url, "room": str(tmp_path), "schemes": ["ssh"], "proxies": {}}
    command = shlex.split(_environment(plan, KEY)["GIT_SSH_COMMAND"])

    def offered(called):
        said = subprocess.run([*command, "-G", *called.split()], capture_output=True, text=True, check=True).stdout
        return [line for line in said.splitlines() if line.startswith("identityfile /proc/")]

    assert [len(offered(each)) for each in own] == [1] * len(own)
    assert [offered(each) for each in others] == [[]] * len(others)
