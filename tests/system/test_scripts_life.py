"""A script's life and a manager's month from the shell (stories 4, 15, 16, 27 to 29).

500 submissions and a followed log through connections that break; tokens that end; members and usage.
"""

import csv
import io
import json
import os
import random
import re
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

import pytest

from berth_client import AwayError, Berth, RefusedError, rest
from portal.foundation.layout import SOURCE
from tests.system.helpers.client import MACHINE_SLACK, Tenant, _csrf, rows, signed_in
from tests.system.helpers.flaky import WHOLE, Flaky

pytestmark = [pytest.mark.system, pytest.mark.xdist_group("shells")]
JOBS, LINES = 500, 1500
TELLING = (
    f'i=0; while [ $i -lt {LINES} ]; do i=$((i+1)); echo "$i \u00fc\u4e2d\U0001f600 $(printf %0$((i % 90))d 0)"; '
    "[ $((i % 50)) = 0 ] && { echo error $i >&2; sleep 0.1; }; done; exit 3"
)
REVOKED_WITHIN_S = 5.0


@pytest.fixture(scope="module")
def berth(berth_shared):
    return berth_shared


@pytest.fixture
def tenant(berth):
    return Tenant(berth)


def test_jobs_with_keys_through_a_flaky_connection_are_as_many_jobs(berth, tenant, monkeypatch):
    """Story 27: a third of the connections is reset before the request has come, after it, or in the middle of the answer."""
    monkeypatch.setattr(rest, "RETRY_S", 0.02)
    first = tenant.submit("sleep 3000", name="first", gpus=0, cores=1)
    rng = random.Random(27)
    faults = [(20, WHOLE), (WHOLE, 1), (WHOLE, 150), *[(WHOLE, WHOLE)] * 6]
    with Flaky(berth.port, lambda _: rng.choice(faults)) as flaky:
        client = Berth(flaky.url, tenant.token)

        def submitted(n):
            description = {"command": "true", "name": f"sweep-{n}", "depends_on": [{"job": int(first), "kind": "ok"}]}
            while True:
                try:
                    return client.jobs_submit(description, idempotency_key=f"sweep-{n}")["number"]
                except AwayError:
                    continue

        with ThreadPoolExecutor(8) as pool:
            numbers = list(pool.map(submitted, range(JOBS)))
    assert flaky.cuts > JOBS / 5, "else nothing was tried"
    kept = rows(berth, "select id, name from jobs_job where name like 'sweep-%'")
    assert sorted(map(int, numbers)) == sorted(number for number, _ in kept)
    assert {name for _, name in kept} == {f"sweep-{n}" for n in range(JOBS)}
    assert len(kept) == JOBS
    tenant.act(first, "cancel")


def test_a_log_is_followed_through_cut_connections_and_a_portal_that_starts_again(berth, tenant):
    """Story 28: each connection lives a little longer than the one before, and ends in the middle of a frame."""
    number = tenant.submit(TELLING, name="teller", gpus=0, cores=1)
    cut_at = lambda n: (WHOLE, 700 + 900 * n if n < 25 else WHOLE)  # noqa: E731 - reads best in place
    with Flaky(berth.port, cut_at) as flaky:
        following = shell(flaky.url, tenant.token, "logs", "-f", number)
        berth.wait(lambda: flaky.cuts > 3, what="the first cuts")
        berth.kill("portal")
        told, errors = following.communicate(timeout=120 * MACHINE_SLACK)
    assert (following.returncode, errors) == (0, b"")
    lines = told.decode().splitlines(keepends=True)
    spoken = [line for line in lines if not line.startswith("error")]
    assert [int(line.split()[0]) for line in spoken] == list(range(1, LINES + 1)), "none is missing, none comes twice"
    assert "".join(spoken) == tenant.log_whole(number, "stdout")
    assert [line for line in lines if line.startswith("error")] == [f"error {n}\n" for n in range(50, LINES + 1, 50)]
    sockets = [begun for begun in flaky.begun if begun.startswith(b"GET /ws/jobs/")]
    assert sockets, "it was followed by WebSocket, and by requests while none opens"
    assert tenant.wait_state(number, "FAILED")["exit_code"] == 3


def shell(url, token, *arguments):
    """Start `berth` as it runs in a shell of its own."""
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(SOURCE / "client"), "PYTHONUTF8": "1"}
    return subprocess.Popen(
        [sys.executable, "-m", "berth_client", *arguments],
        env=environment | {"BERTH_URL": url, "BERTH_TOKEN": token},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def token_made(browser, name, scopes, tenant=""):
    """Make a token on the page; its secret, and what the next form needs."""
    csrf = {"csrfmiddlewaretoken": _csrf(browser.get("/account/tokens/").text)}
    form = {"name": name, "scopes": scopes, "tenant": tenant, "expires": "90"}
    made = browser.post("/account/tokens/", data=csrf | form)
    return re.search(r"berth_[A-Za-z0-9_-]{40,}", made.text).group(), csrf


def refused_at(act):
    """Run what follows a log until it is refused; when that was, and the refusal."""
    with pytest.raises(RefusedError) as refused:
        act()
    return time.monotonic(), refused.value


def test_a_token_that_reads_does_not_write_and_a_revoked_one_stops_at_once(berth, tenant):
    """Story 29: also what it follows at that moment, by WebSocket and by a request that waits."""
    number = tenant.submit("echo begun; sleep 3000", name="endless", gpus=0, cores=1)
    tenant.wait_log(number, "begun\n")
    name = next(name for name, person in berth.users.items() if person["tenant"] == tenant.name)
    with signed_in(berth, name) as browser:
        secret, csrf = token_made(browser, "reads", ["jobs:read"])
        reader = Berth(berth.url, secret)
        assert reader.jobs_show(number)["name"] == "endless"
        with pytest.raises(RefusedError) as refused:
            reader.jobs_cancel(number)
        assert (refused.value.status, refused.value.code) == (403, "missing_scope")
        heard = threading.Event()

        def by_socket():
            for _ in reader.jobs_follow(number):
                heard.set()

        def by_request():
            while True:
                reader.jobs_logs(number, cursor="6.0", attempt=1, follow=True, wait=25)

        with ThreadPoolExecutor(2) as pool:
            ends = [pool.submit(refused_at, act) for act in (by_socket, by_request)]
            assert heard.wait(30)
            ((token,),) = rows(berth, "select id from tenants_apitoken where name = 'reads'")
            revoked = time.monotonic()
            browser.post(f"/account/tokens/{token}/revoke", data=csrf)
            for end in ends:
                at, refused = end.result(timeout=60)
                assert (refused.status, refused.code) == (401, "bad_token")
                assert at - revoked < REVOKED_WITHIN_S * MACHINE_SLACK
    tenant.act(number, "cancel")


def said(berth, token, *arguments, code=0):
    process = shell(berth.url, token, *arguments)
    out, errors = process.communicate(timeout=60 * MACHINE_SLACK)
    assert process.returncode == code, (out, errors)
    return out.decode() if code == 0 else errors.decode()


def test_a_submitted_file_is_waited_for_and_ends_with_its_exit_code(berth, tenant, tmp_path):
    """Story 4."""
    (tmp_path / "train.py").write_text("import sys\nprint('loss 0.5')\nsys.exit(3)\n")
    sent = ("submit", "--gpus", "1", "--file", str(tmp_path / "train.py"), "--follow")
    process = shell(berth.url, tenant.token, *sent, "--", "python3 train.py")
    out, errors = process.communicate(timeout=120 * MACHINE_SLACK)
    assert (process.returncode, out) == (3, b"loss 0.5\n"), errors
    said(berth, tenant.token, *sent[:-1], "--wait", "--", "python3 train.py", code=3)
    (tmp_path / "train.py").write_text("print('loss 0.1')\n")
    said(berth, tenant.token, *sent[:-1], "--wait", "--", "python3 train.py")


def test_a_manager_invites_makes_a_viewer_removes_and_asks_who_used_what(berth, tenant):
    """Stories 15 and 16."""
    managers = [
        name for name, each in berth.users.items() if (each["tenant"], each["role"]) == (tenant.name, "manager")
    ]
    other = next(name for name, each in berth.users.items() if each["tenant"] not in {tenant.name, None})
    with signed_in(berth, managers[0]) as boss, signed_in(berth, other) as guest:
        manager, _ = token_made(boss, "manages", ["jobs:read", "jobs:write", "members:write"])
        link = said(berth, manager, "members", "invite", "--role", "member", "--tenant", tenant.name).strip()
        path = link.removeprefix(berth.url)
        csrf = {"csrfmiddlewaretoken": _csrf(guest.get(path).text)}
        assert tenant.name in guest.post(path, data=csrf).text
        guests, _ = token_made(guest, "guest", ["jobs:read", "jobs:write"], tenant.name)
        number = said(berth, guests, "submit", "-o", "name", "--gpus", "1", "--wait", "--", "sleep 2").strip()
        said(berth, manager, "members", "role", other, "viewer", "--tenant", tenant.name)
        assert "viewer" in said(berth, guests, "submit", "--", "true", code=2)
        assert number in said(berth, guests, "ps", "-a")
        said(berth, manager, "members", "remove", other, "--tenant", tenant.name)
        assert "revoked" in said(berth, guests, "ps", code=2)
        assert guest.get("/jobs/").url.path == "/login", "the session has ended too"
    until = datetime.now(UTC).isoformat()
    stretch = ("usage", tenant.name, "--until", until)
    rows_told = list(csv.DictReader(io.StringIO(said(berth, manager, *stretch, "-o", "csv"))))
    total = json.loads(said(berth, manager, *stretch, "-o", "json"))["total"]
    assert other in {row["user"] for row in rows_told}, "who left has used it all the same"
    assert sum(float(row["gpu_hours"]) for row in rows_told) == pytest.approx(total["gpu_hours"], abs=1e-3)
    assert total["gpu_hours"] > 0
