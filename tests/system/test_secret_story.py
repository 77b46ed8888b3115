"""A secret shows nowhere: a job that prints its token and is fetched with another, and everything of it looked through.

Story: a tenant keeps two secrets, sends a job from a repository behind a password, and prints what it was given.
"""

import re
import tarfile

import httpx2
import pytest

from tests.system.helpers.client import Tenant
from tests.workers.environments.git_server import GitServer, commit, git, repository

pytestmark = [pytest.mark.system, pytest.mark.slow, pytest.mark.xdist_group("shells")]

TOKEN, PASSWORD = "hf_q7Zk2mVx9RtLw4", "lena:glpat-T5nB8sYc1Jd6"
VALUES = (TOKEN, PASSWORD, PASSWORD.partition(":")[2])
TRAIN = "import os, sys\nprint('token', os.environ['HF_TOKEN'])\nprint(os.environ['HF_TOKEN'], file=sys.stderr)\n"
PAGES = "/ /jobs/ /jobs/{n}/ /jobs/csv /jobs/{n}/log/download /jobs/{n}/explain.json /jobs/new?from={n} /templates/new?from={n} "
PAGES += "/tenants/vision-lab/ /queue/ /cluster/ /search?q={value} /account/"
REST = "/jobs /jobs/{n} /jobs/{n}/logs /jobs/{n}/explain /jobs/{n}/artefacts /secrets /me /templates"


@pytest.fixture(scope="module")
def berth(berth_shared):
    yield berth_shared
    for name in ("hf-token", "gitlab"):
        token = berth_shared.tokens["vision-lab"]
        assert berth_shared.request(f"/api/v1/secrets/{name}", method="DELETE", token=token)[0] in {200, 204}


@pytest.fixture
def served(tmp_path):
    repository(tmp_path / "served/aerial", train__py=TRAIN)
    server = GitServer(tmp_path / "served", PASSWORD)
    yield server
    server.close()


def shown(berth, number):
    """Every text that a member, an operator, a script and Prometheus are given of the job and its tenant."""
    members = [
        {"username": name, "password": person["password"]}
        for name, person in berth.users.items()
        if person["tenant"] == "vision-lab"
    ]
    for user in (members[0], berth.operator):
        with httpx2.Client(base_url=berth.url, timeout=30.0, follow_redirects=True) as browser:
            mark = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', browser.get("/login").text).group(1)
            browser.post("/login", data={"csrfmiddlewaretoken": mark, **user})
            for page in PAGES.split():
                path = page.format(n=number, value="hf_")
                answer = browser.get(path)
                assert answer.status_code == 200, path
                yield path, answer.text
            yield "/admin/tenants/auditevent/", browser.get("/admin/tenants/auditevent/").text
    for path in REST.split():
        status, answer = berth.request(f"/api/v1{path.format(n=number)}", token=berth.tokens["vision-lab"])
        assert status == 200, path
        yield path, str(answer)
    yield (
        "/metrics",
        httpx2.get(f"{berth.url}/metrics", headers={"Authorization": f"Bearer {berth.tokens['vision-lab']}"}).text,
    )


def lies(root):
    """Paths below a directory whose bytes hold a value."""
    files = [path for path in root.rglob("*") if path.is_file() and not path.is_symlink()]
    return [path for path in files if any(value.encode() in path.read_bytes() for value in VALUES)]


def test_a_secret_shows_nowhere_and_a_job_without_it_says_so(berth, served, tmp_path):
    tenant = Tenant(berth)
    for name, value in (("hf-token", TOKEN), ("gitlab", PASSWORD)):
        status, answer = berth.request(
            "/api/v1/secrets", method="POST", body={"name": name, "value": value}, token=tenant.token
        )
        assert status == 201, answer
    code = {"git": f"{served.url}/aerial", "ref": "main", "secret": "gitlab"}
    asked = {"code": code, "secrets": {"HF_TOKEN": "hf-token"}, "gpus": 0}
    number = tenant.submit("python3 train.py && echo done", **asked)
    job = tenant.wait_state(number, "COMPLETED", limit_s=60)
    head = git(served.root / "aerial", "rev-parse", "HEAD")
    assert (job["code"]["commit"], [each["commit"] for each in job["attempts"]]) == (head, [head])
    tenant.wait_log(number, "done")
    assert tenant.log(number, stream="stdout").splitlines()[-2:] == ["token ***", "done"]
    assert tenant.log(number, stream="stderr") == "***\n"
    for where, text in shown(berth, number):
        assert not any(value in text for value in VALUES), where
    assert lies(berth.data) == []
    berth.command("manage", "backup", "--to", str(tmp_path / "backup.tar"))
    with tarfile.open(tmp_path / "backup.tar") as archive:
        archive.extractall(tmp_path / "backup")  # our own; Debian 12's Python knows no `filter`
    assert lies(tmp_path / "backup") == []

    commit(served.root / "aerial", train__py="raise SystemExit(3)\n")
    status, _ = berth.request(
        "/api/v1/secrets", method="POST", body={"name": "hf-token", "value": TOKEN + "x"}, token=tenant.token
    )
    assert status == 201
    again = tenant.submit("python3 train.py", **asked)
    tenant.wait_state(again, "FAILED", limit_s=60)
    assert tenant.job(again)["exit_code"] == 3


def test_what_a_removed_secret_does(berth):
    tenant = Tenant(berth)
    status, _ = berth.request(
        "/api/v1/secrets", method="POST", body={"name": "soon-gone", "value": TOKEN}, token=tenant.token
    )
    assert status == 201
    number = tenant.submit("echo ran", gpus=0, secrets={"A": "soon-gone"}, name="waits")
    first = tenant.submit("sleep 600", gpus=0)
    tenant.wait_state(number, "COMPLETED", "RUNNING", limit_s=60)
    held = tenant.submit(
        "echo ran", gpus=0, secrets={"A": "soon-gone"}, depends_on=[{"job": int(first), "kind": "any"}]
    )
    browser = httpx2.Client(base_url=berth.url, timeout=30.0, follow_redirects=True)
    with browser:
        mark = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', browser.get("/login").text).group(1)
        browser.post("/login", data={"csrfmiddlewaretoken": mark, **berth.operator})
        page = browser.get("/tenants/vision-lab/")
        mark = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', page.text).group(1)
        gone = browser.post("/tenants/vision-lab/secrets/soon-gone/remove", data={"csrfmiddlewaretoken": mark})
        assert "is removed" in gone.text
    tenant.act(first, "cancel")
    job = tenant.wait_state(held, "FAILED", limit_s=60)
    assert job["end_detail"].startswith("vision-lab has no secret 'soon-gone'. Set it on the page of vision-lab")
