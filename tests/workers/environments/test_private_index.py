"""A build that a tenant's secrets let into a package index of its own: a real pip, a real server, and no trace of a password."""

from __future__ import annotations

import base64
import json
import shutil
import sys
import threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tests.workers.controls.test_shim import PART, ShimRun
from tests.workers.environments.test_stage import ABOUT
from tests.workers.environments.wheels import wheel_write
from tests.workers.specs import spec_make
from workers.environments.build import BuildError, access_take
from workers.environments.offer import Limits, Offer
from workers.environments.plan import environment_hash
from workers.parts.workspace import Rooms, Workplace, part_environment, part_prepare
from workers.system.landlock import landlock_version
from workers.system.procs import boot_id

USER, PASSWORD = "lena", "s3cret/word+1"
NAMES = {"PIP_INDEX_URL": "our-index"}


class Index:
    """A package index behind a name and a password."""

    def __init__(self, root) -> None:
        wheel_write(root / "simple/tinypack")
        wanted = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()

        class Handler(SimpleHTTPRequestHandler):
            def do_GET(self):
                if self.headers.get("Authorization") != f"Basic {wanted}":
                    self.send_response(401)
                    self.send_header("WWW-Authenticate", "Basic")
                    self.end_headers()
                    return
                super().do_GET()

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), lambda *a: Handler(*a, directory=str(root)))
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def url(self, login="lena:s3cret%2Fword%2B1@"):
        return f"http://{login}127.0.0.1:{self.server.server_port}/simple"


@pytest.fixture
def index(tmp_path):
    found = Index(tmp_path / "served")
    yield found
    found.server.shutdown()
    found.server.server_close()


class BuildRun(ShimRun):
    def prepare(self, installer, build_secrets=NAMES):
        program = {"pip": (sys.executable, "-m", "pip"), "uv": (shutil.which("uv") or "uv",)}[installer]
        offer = Offer(self.root / "environments", about=ABOUT, installer=installer, program=program, limits=Limits())
        kept = {"walls": None, "landlock": landlock_version(), "virtual": True, "virtual_pace": None, "nice": 0}
        place = Workplace(
            self.root / "storage", **kept, boot_id=boot_id(), node_grace_s=1.0, lease_grace_s=3.0, software=offer
        )
        wanted = {"software": {"requirements": "tinypack==1.0"}, "secrets": True, "build_secrets": build_secrets}
        self.spec = spec_make(**{**PART, **wanted, "command": "python -c 'import tinypack; print(tinypack.VERSION)'"})
        self.entry = offer.root / part_environment(self.spec, place)
        part_prepare(Rooms(self.directory, self.job, mark=self.mark), self.spec, {"lease_s": None}, place)
        return self

    def start(self, **variables):
        self.engine.start(self.directory, json.dumps({"environment": variables, "code": ""}).encode())
        return self


@pytest.fixture
def part(tmp_path):
    run = BuildRun(tmp_path)
    yield run
    run.end()


def lies_nowhere(root):
    for path in root.rglob("*"):
        if path.is_file() and not path.is_relative_to(root / "served"):
            for word in (PASSWORD, "s3cret%2Fword"):
                assert word.encode() not in path.read_bytes(), path


INSTALLERS = [
    "pip",
    pytest.param("uv", marks=pytest.mark.skipif(not shutil.which("uv"), reason="SKIPPED: no uv on PATH")),
]


@pytest.mark.parametrize("installer", INSTALLERS)
def test_a_build_is_let_in_by_a_secret_that_lies_nowhere(part, index, tmp_path, installer):
    result = part.prepare(installer).start(PIP_INDEX_URL=index.url()).result()
    assert (result["reason"], result["exit_code"]) == ("exit", 0), part.stdout()
    assert part.stdout().splitlines()[-1] == "1.0"
    lies_nowhere(tmp_path)


def test_a_password_that_is_wrong_is_told_of_and_tried_again_at_once(part, index, tmp_path):
    result = part.prepare("pip").start(PIP_INDEX_URL=index.url("lena:s3cret%2Fword-2@")).result()
    assert result["reason"] == "start_failed"
    assert "PIP_INDEX_URL" in result["detail"], part.stdout()
    assert not (part.entry / "failed.json").exists()
    lies_nowhere(tmp_path)


def test_a_secret_counts_for_an_environment_s_name_by_its_own(tmp_path):
    offer = Offer(tmp_path, about=ABOUT, installer="pip")
    one, two = ({"PIP_INDEX_URL": name} for name in ("ours", "theirs"))
    named = [environment_hash("a", offer), *(environment_hash("a", offer, each) for each in (one, two))]
    assert len(set(named)) == 3
    assert environment_hash("a", offer, {}) == named[0]


def read(path):
    with open(path) as file:
        return file.read()


def test_no_login_is_in_what_others_may_read():
    variables = {"PIP_INDEX_URL": f"https://lena:{PASSWORD.replace('/', '%2F')}@a.example:8443/simple", "OTHER": "x"}
    variables["PIP_EXTRA_INDEX_URL"] = "https://token-12345@b.example/simple https://c.example/simple"
    found = access_take(variables)
    assert variables == {"OTHER": "x"}
    assert read(found.options[1]).split("\n")[:3] == [
        "--index-url https://a.example:8443/simple",
        "--extra-index-url https://b.example/simple",
        "--extra-index-url https://c.example/simple",
    ]
    assert f'machine a.example login "lena" password "{PASSWORD}"' in read(found.environment["NETRC"])
    assert 'machine b.example login "token-12345" password ""' in read(found.environment["NETRC"])
    assert "token-12345" not in found.mask("at https://token-12345@b.example")


@pytest.mark.parametrize(
    "url", ["no-url", "file:///etc/x", "https://", "https://a%20b:c@host/", 'https://a:b"c@host/', "https://[::x/"]
)
def test_a_secret_that_is_no_index_says_so_and_is_not_repeated(url):
    with pytest.raises(BuildError, match="PIP_INDEX_URL") as caught:
        access_take({"PIP_INDEX_URL": url})
    assert "a%20b" not in str(caught.value)


def test_two_logins_for_one_host_are_refused():
    with pytest.raises(BuildError, match="two logins for h"):
        access_take({"PIP_INDEX_URL": "https://a:b@h/x", "PIP_EXTRA_INDEX_URL": "https://c:d@h/y"})


def test_a_registry_s_name_and_password_reach_the_image_s_fetch():
    found = access_take({"APPTAINER_DOCKER_USERNAME": "lena", "APPTAINER_DOCKER_PASSWORD": PASSWORD})
    assert found.environment == {"APPTAINER_DOCKER_USERNAME": "lena", "APPTAINER_DOCKER_PASSWORD": PASSWORD}
    assert (found.options, found.mask(PASSWORD)) == ([], "***")
