"""`./berth lab` against a real server: the script itself, as a person or a script would call it."""

import csv
import json
import os
import subprocess
import sys
import threading
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from berth_client.cli import parser_make
from portal.foundation.layout import SOURCE
from portal.pages.laboratory.checking import SimulationOrder
from portal.pages.laboratory.models import LabTrace, Simulation
from portal.pages.laboratory.run.worker import simulation_next
from portal.pages.laboratory.services import simulation_cancel, simulation_order
from portal.people.tenants.models import Tenant
from portal.people.tenants.services import token_create
from tests.portal import given
from tests.portal.pages.laboratory.lab import CLUSTER, TRACE

pytestmark = pytest.mark.django_db(transaction=True)
DRAWN = ("--generator", "hops-64", "--jobs", "3", "--cluster", "own", "--policy", "fifo,drf")


@pytest.fixture
def lena():
    return given.member("lena", Tenant.objects.create(name="vision-lab"))


@pytest.fixture
def berth(live_server, lena, tmp_path):
    """Call `./berth lab`; returns the finished process."""
    _, secret = token_create(user=lena, name="cli", scopes=["simulations:read", "simulations:write"], actor=None)

    def call(*arguments, code=0, **environment):
        own = {"BERTH_URL": live_server.url, "BERTH_TOKEN": secret, "PATH": os.environ["PATH"]} | environment
        done = subprocess.run(
            [sys.executable, SOURCE / "berth", "lab", *map(str, arguments)],
            env=own,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == code, done
        return done

    return call


def test_from_the_order_to_the_figures(berth, tmp_path):
    asked = berth("run", "what if", *DRAWN, "--knob", "lambda=2", "--seed", "3")
    made = Simulation.objects.get()
    assert f"simulation {made.pk}: 0 before it" in asked.stdout
    assert (made.knobs, made.seed, made.policies) == ({"lambda": 2.0}, 3, ["fifo", "drf"])
    assert "QUEUED" in berth("ls").stdout
    simulation_next()
    shown = berth("show", made.pk, "--csv", "out.csv").stdout
    figures = json.loads(berth("show", made.pk, "--json").stdout)["figures"]
    made.refresh_from_db()
    assert figures == made.figures
    assert "COMPLETED" in shown
    assert f"{figures['drf']['mean_jct_h']:.3g}" in shown
    rows = list(csv.DictReader((tmp_path / "out.csv").open()))
    assert [row["policy"] for row in rows if not row["tenant"]] == ["fifo", "drf"]
    assert berth("wait", made.pk).stdout.startswith("simulation")


def test_a_trace_by_file_and_by_number_on_a_described_cluster(berth, tmp_path):
    (tmp_path / "jobs.csv").write_bytes(TRACE)
    (tmp_path / "c.yaml").write_text(CLUSTER)
    berth("run", "by file", "--trace", "jobs.csv", "--format", "berth-csv", "--cluster", "c.yaml", "--policy", "fifo")
    kept = LabTrace.objects.get()
    assert (kept.name, kept.jobs) == ("jobs.csv", 4)
    berth("run", "by number", "--trace", kept.pk, "--cluster", "c.yaml", "--policy", "fifo")
    assert set(Simulation.objects.values_list("trace", "cluster")) == {(kept.pk, CLUSTER)}
    assert "jobs.csv" in berth("traces").stdout
    assert "4 jobs" in berth("upload", "jobs.csv", "--format", "berth-csv", "--name", "again").stdout


def test_a_refused_order_leaves_no_trace_behind(berth, tmp_path):
    (tmp_path / "jobs.csv").write_bytes(TRACE)
    (tmp_path / "c.yaml").write_text(CLUSTER)
    asked = ("run", "x", "--trace", "jobs.csv", "--format", "berth-csv", "--cluster", "c.yaml", "--policy", "lottery")
    assert "lottery" in berth(*asked, code=2).stderr
    assert not LabTrace.objects.exists()


class _LosesTheFirstAnswer(BaseHTTPRequestHandler):
    """Passes a POST on to `portal`, and hangs up instead of answering the first."""

    portal = ""
    asked = 0

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        names = ("Authorization", "Content-Type", "Idempotency-Key")
        passed = urllib.request.Request(self.portal + self.path, body, {name: self.headers[name] for name in names})
        with urllib.request.urlopen(passed) as answer:
            content, status = answer.read(), answer.status
        type(self).asked += 1
        if self.asked == 1:
            self.connection.close()
            return
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_):
        pass


def test_an_order_whose_answer_is_lost_is_sent_again_and_made_once(berth, live_server):
    handler = type("Handler", (_LosesTheFirstAnswer,), {"portal": live_server.url})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as proxy:
        thread = threading.Thread(target=proxy.serve_forever, args=(0.02,))
        thread.start()
        try:
            done = berth("run", "what if", *DRAWN, BERTH_URL=f"http://127.0.0.1:{proxy.server_port}")
        finally:
            proxy.shutdown()
            thread.join()
    assert handler.asked == 2
    assert f"simulation {Simulation.objects.get().pk}: 0 before it" in done.stdout


def test_cancel_share_and_delete(berth):
    berth("run", "what if", *DRAWN)
    number = Simulation.objects.get().pk
    assert "shared with tenant" in berth("share", number, "tenant").stdout
    assert "cancel it first" in berth("delete", number, code=2).stderr
    assert "it is cancelled" in berth("cancel", number).stdout
    berth("wait", number, code=1)
    berth("delete", number)
    assert "no simulation yet" in berth("ls").stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("run", "x", *DRAWN[:-1], "lottery"), "policies: "),
        (("run", "x", *DRAWN, "--knob", "lambda=7"), "knobs: "),
        (("run", "x", *DRAWN, "--knob", "lambda"), "write name=value"),
        (("run", "x", "--trace", "jobs.csv", "--policy", "fifo"), "say its --format"),
        (("upload", "nowhere.csv", "--format", "berth-csv"), "cannot be read"),
        (("history", "2"), "days: "),
        (("show", "987654321"), "No such simulation"),
    ],
)
def test_a_refusal_is_one_sentence_and_changes_nothing(berth, arguments, words):
    done = berth(*arguments, code=2)
    assert words in done.stderr
    assert done.stderr.startswith("berth: ")
    assert done.stderr.count("\n") == 1
    assert not Simulation.objects.exists()
    assert not LabTrace.objects.exists()


def test_it_says_what_it_needs(berth):
    assert "set BERTH_TOKEN: " in berth("ls", code=2, BERTH_TOKEN="").stderr
    assert "begins with http" in berth("ls", code=2, BERTH_URL="portal.example").stderr
    told = berth("ls", code=1, BERTH_URL="http://127.0.0.1:1").stderr
    assert "http://127.0.0.1:1 does not answer: nothing listens there. Start a portal by `./berth up`" in told
    assert "Errno" not in told
    assert "no machine of that name" in berth("ls", code=1, BERTH_URL="http://nowhere.invalid").stderr
    assert "unknown or was revoked" in berth("ls", code=2, BERTH_TOKEN="berth_no").stderr
    assert berth().stdout == berth("ls").stdout
    assert berth("dance", code=2).stderr.startswith("usage: ./berth lab")


def test_a_list_has_so_many_rows_at_most(berth, lena):
    tenant = Tenant.objects.get()
    for n in range(6):
        order = SimulationOrder(name=f"run {n}", generator="hops-64", generated_jobs=1, policies=["fifo"])
        simulation_cancel(simulation=simulation_order(user=lena, tenant=tenant, order=order), actor=lena)
    assert [row["name"] for row in json.loads(berth("ls", "--most", "4", "--json").stdout)] == [
        "run 5",
        "run 4",
        "run 3",
        "run 2",
    ]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["ls", "--most", "0"], "argument --most: '0' is not a whole number of 1 or more"),
        (["traces", "--most", "x"], "argument --most: 'x' is not a whole number of 1 or more"),
        (["history", "nan"], "argument days: 'nan' is not a finite number"),
        (["run", "x", "--history", "week", "--policy", "fifo"], "argument --history: 'week' is not a finite number"),
        (
            ["run", "x", "--history", "7", "--until", "inf", "--policy", "fifo"],
            "argument --until: 'inf' is not a finite",
        ),
    ],
)
def test_a_bad_number_is_refused_with_its_option(capsys, arguments, complaint):
    with pytest.raises(SystemExit) as ended:
        parser_make().parse_args(["lab", *arguments])
    assert ended.value.code == 2
    assert complaint in capsys.readouterr().err
