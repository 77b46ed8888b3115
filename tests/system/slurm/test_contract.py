"""The contract of `workers.protocol.engine.ClusterEngine`, with real daemons behind each engine."""

import contextlib
import itertools
import os
import stat
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.servers import stretched
from tests.system.helpers.login_node import login_node
from tests.system.helpers.slurm import CORES, GPUS, MEMORY_MIB, PATH, slurm_started
from workers.bridge.command import CommandError, Local, Ssh
from workers.bridge.slurm import SlurmEngine
from workers.protocol.engine import Away, ClusterEngine, RefusedError, UnknownError

pytestmark = [pytest.mark.system, pytest.mark.slow, pytest.mark.xdist_group("slurm_contract")]

SLEEPS = "#!/bin/sh\nexec sleep 600\n"
LOST = '#!/bin/sh\n{sbatch} "$@" >/dev/null\nexit 1\n'
HANGS = '#!/bin/sh\n{sbatch} "$@" >/dev/null\nexec sleep 60\n'
NEVER = "#!/bin/sh\nexec sleep 60\n"
DAY_S = 86_400
numbers = itertools.count(1)


@dataclass
class Site:
    """A cluster and a way to it. `fakes` is the first folder of PATH there."""

    slurm: object
    fakes: Path
    way: object

    def runner(self, **more):
        return self.way(**more)

    def engine(self, **more) -> ClusterEngine:
        return SlurmEngine(self.runner(**more), partition="berth")

    @contextlib.contextmanager
    def fake(self, text):
        path = self.fakes / "sbatch"
        path.write_text(text.format(sbatch="/usr/bin/sbatch"))
        path.chmod(0o755)
        try:
            yield
        finally:
            path.unlink()


@contextlib.contextmanager
def site_started(kind, at, slurm):
    fakes = at / "fakes"
    fakes.mkdir()
    environment = slurm.environment | {"PATH": f"{fakes}:{PATH}"}
    if kind == "local":
        yield Site(slurm, fakes, lambda **more: Local(environ=environment, **more))
        return
    with login_node(at / "login", PATH=environment["PATH"], SLURM_CONF=environment["SLURM_CONF"]) as node:
        first = Ssh(node.host, at / "ssh")
        node.authorize(first.key.with_suffix(".pub"))
        try:
            yield Site(slurm, fakes, lambda **more: Ssh(node.host, at / "ssh", **more))
        finally:
            first.close()


@pytest.fixture(scope="module")
def slurm(tmp_path_factory):
    with slurm_started(tmp_path_factory.mktemp("slurm"), nodes=2) as started:
        yield started


@pytest.fixture(scope="module", params=["local", "ssh"])
def site(request, tmp_path_factory, slurm):
    with site_started(request.param, tmp_path_factory.mktemp("site"), slurm) as made:
        yield made


@pytest.fixture
def engine(site):
    yield site.engine()
    site.slurm.clear()


def order(**more):
    asks = {"gpus": 1, "gpu_type": "a100", "cores": 1, "memory_mib": 100, "limit_s": 600}
    return {"name": f"berth-pilot-{next(numbers)}", "again": False, "join_token": "", **asks, **more}


def wait(engine, name, state, limit_s=20):
    until = time.monotonic() + stretched(limit_s)
    while (found := engine.look([name]).orders.get(name, {})).get("state") != state:
        assert time.monotonic() < until, found
        time.sleep(0.1)
    return found


def test_it_says_which_cluster_it_is_and_its_nodes(engine):
    assert engine.describe()[0] == "berthtest"
    first, second = engine.inventory()
    assert (first["name"], first["state"], first["takes_jobs"], first["reason"]) == ("n1", "idle", True, "")
    assert (first["cores"], first["memory_mib"], first["gpus"]) == (CORES, MEMORY_MIB, {"a100": GPUS})
    assert (first["cores_busy"], first["memory_busy_mib"], first["gpus_busy"]) == (0, 0, {})
    assert second["name"] == "n2"


def test_other_peoples_jobs_and_an_admins_drain_are_seen(engine, site):
    site.slurm.wait(site.slurm.submit("sleep 600", "--gres=gpu:3", "--mem=700", "-c", "2", "-w", "n1"), "RUNNING")
    site.slurm.run("scontrol", "update", "nodename=n2", "state=drain", "reason=bad fan, State=IDLE")
    first, second = engine.inventory()
    site.slurm.run("scontrol", "update", "nodename=n2", "state=resume")
    assert (first["cores_busy"], first["memory_busy_mib"], first["gpus_busy"]) == (2, 700, {"a100": 3})
    assert (second["state"], second["takes_jobs"]) == ("idle+drain", False)
    assert second["reason"] == "bad fan, State=IDLE"


def test_an_order_waits_runs_and_ends(engine, site):
    asked = order(gpus=2, cores=3, memory_mib=500, limit_s=601)
    ticket = engine.submit(asked, SLEEPS)
    found = wait(engine, asked["name"], "running")
    assert (found["ticket"], found["node"]) == (ticket, "n1")
    assert abs(found["since"] - time.time()) < 60
    assert found["ends_at"] - found["since"] == 660, "minutes, rounded up"
    text = site.slurm.run("scontrol", "-d", "show", "job", ticket)
    for word in (
        "Requeue=0",
        "Comment=Berth",
        "CPUs/Task=3",
        "MinMemoryNode=500M",
        "TresPerNode=gres:gpu:a100:2",
        "WorkDir=/",
    ):
        assert word in text, text
    waits = order(gpus=GPUS * 2, gpu_type="a100")
    with pytest.raises(RefusedError):
        engine.submit(waits, SLEEPS)
    assert engine.stop(ticket, asked["name"]) is None
    assert wait(engine, asked["name"], "ended")["reason"] == "CANCELLED"
    assert engine.stop(ticket, asked["name"]) is None, "it is no error where there is none"
    assert engine.stop("987654", asked["name"]) is None


def test_an_order_that_waits_says_why_and_when(engine):
    for _ in range(2):
        engine.submit(order(gpus=GPUS), SLEEPS)
    asked = order(gpus=GPUS)
    engine.submit(asked, SLEEPS)
    until = time.monotonic() + stretched(30)
    while (found := engine.look([asked["name"]]).orders[asked["name"]])["reason"] not in {"Resources", "Priority"}:
        assert time.monotonic() < until, found
        time.sleep(0.1)
    assert (found["state"], found["node"], found["ends_at"]) == ("pending", "", None)
    assert found["since"] is None or found["since"] > time.time()


def test_a_whole_node(engine, site):
    asked = order(gpus=0, gpu_type="", cores=0, memory_mib=0)
    engine.submit(asked, SLEEPS)
    node = wait(engine, asked["name"], "running")["node"]
    (found,) = (each for each in engine.inventory() if each["name"] == node)
    assert (found["cores_busy"], found["memory_busy_mib"], found["gpus_busy"]) == (CORES, MEMORY_MIB, {"a100": GPUS})


def test_ends_have_slurms_word(engine):
    failed, done = order(), order()
    engine.submit(failed, "#!/bin/sh\nexit 3\n")
    engine.submit(done, "#!/bin/sh\nexit 0\n")
    assert wait(engine, failed["name"], "ended")["reason"] == "FAILED: NonZeroExitCode"
    assert wait(engine, done["name"], "ended")["reason"] == "COMPLETED"


@pytest.mark.parametrize(
    ("asks", "words"),
    [
        ({"gpus": 9}, "Requested node configuration is not available"),
        ({"gpu_type": "h100"}, "Requested node configuration is not available"),
        (
            {"memory_mib": 900_000},
            "Memory specification can not be satisfied; Requested node configuration is not available",
        ),
    ],
)
def test_a_refused_order_has_slurms_words(engine, asks, words):
    with pytest.raises(RefusedError) as caught:
        engine.submit(order(**asks), SLEEPS)
    assert str(caught.value) == words


def test_a_flag_of_the_operator_is_passed_on_and_a_wrong_one_is_refused(site, engine):
    flagged = SlurmEngine(site.runner(), partition="berth", extra=("--nodelist=n2",))
    asked = order()
    flagged.submit(asked, SLEEPS)
    assert wait(engine, asked["name"], "running")["node"] == "n2"
    for wrong in ("--nonsense", "--reservation=none"):
        with pytest.raises(RefusedError, match=r"unrecognized option|Requested reservation is invalid"):
            SlurmEngine(site.runner(), partition="berth", extra=(wrong,)).submit(order(), SLEEPS)


@pytest.mark.parametrize(("fake", "limit_s", "listed"), [(LOST, 15, True), (HANGS, 1.5, True), (NEVER, 1.5, False)])
def test_an_order_whose_answer_is_lost_is_found_by_its_name(site, engine, fake, limit_s, listed):
    asked = order()
    with site.fake(fake), pytest.raises(UnknownError):
        site.engine(limit_s=limit_s).submit(asked, SLEEPS)
    found = engine.look([asked["name"], "berth-other"]).orders
    assert list(found) == ([asked["name"]] if listed else [])
    if listed:
        assert found[asked["name"]]["ticket"].isdecimal()
        assert engine.stop("", asked["name"]) is None, "by its name"
        assert wait(engine, asked["name"], "ended")["reason"] == "CANCELLED"


def test_of_two_orders_of_one_name_the_first_stays(engine):
    asked = order()
    first, second = (engine.submit(asked, SLEEPS) for _ in range(2))
    seen = engine.look()
    assert seen.orders[asked["name"]]["ticket"] == first
    assert [each for each in seen.doubles if each["name"] == asked["name"]] == [
        {"name": asked["name"], "ticket": second}
    ]
    engine.stop(second, asked["name"])
    assert wait(engine, asked["name"], "running")["ticket"] == first
    engine.stop(first, asked["name"])
    wait(engine, asked["name"], "ended")
    third = engine.submit(asked, SLEEPS)
    seen = engine.look([asked["name"]])
    assert (seen.orders[asked["name"]]["ticket"], list(seen.doubles)) == (third, []), "the one that lives"


def test_a_number_that_has_another_name_by_now_is_not_stopped(engine, site):
    asked = order()
    ticket = engine.submit(asked, SLEEPS)
    wait(engine, asked["name"], "running")
    assert engine.stop(ticket, "berth-forgotten") is None
    assert engine.stop("", "berth-forgotten") is None
    time.sleep(0.5)
    assert engine.look([asked["name"]]).orders[asked["name"]]["state"] == "running"
    for foreign in ("theirs", "a,b", "berth-a,berth-b", ""):
        with pytest.raises(ValueError, match="no name of an order"):
            engine.stop(ticket, foreign)


def test_jobs_that_are_no_orders_are_nobodys(engine, site):
    asked = order()
    engine.submit(asked, SLEEPS)
    names = ["theirs", "theirs", "odd|na\x1fme", "two\nlines", "berth-one", "berth-a,b"]
    for name in names:
        site.slurm.submit("sleep 600", "-J", name, "--mem=10")
    site.slurm.submit("sleep 600", "-J", "berth-array", "--array=1-3", "--mem=10")
    seen = engine.look()
    assert {name for name, each in seen.orders.items() if each["state"] != "ended"} == {asked["name"], "berth-one"}
    assert list(seen.doubles) == []
    assert engine.look([asked["name"]]).orders.keys() == {asked["name"]}
    assert engine.look([f"berth-none-{each}" for each in range(200)]).orders == {}
    assert engine.look([]).orders == {}


def test_an_order_lasts_longer_where_slurm_allows_it(engine):
    asked = order()
    engine.submit(asked, "#!/bin/sh\nexit 0\n")
    wait(engine, asked["name"], "ended")
    assert engine.extend("1", asked["name"], DAY_S) is False, "it has ended"
    ticket = engine.submit(asked, SLEEPS)
    wait(engine, asked["name"], "running")
    assert engine.extend(ticket, asked["name"], DAY_S) is True
    found = engine.look([asked["name"]]).orders[asked["name"]]
    assert found["ends_at"] - found["since"] == DAY_S
    assert engine.extend("1", "berth-none", DAY_S) is False


def test_files_are_written_for_the_account_and_nobody_else(site, tmp_path):
    runner, path = site.runner(), tmp_path / "new folder" / "it's $HOME"
    for text in ("first", "tökens\n" * 20_000):
        runner.put(str(path), text)
        assert path.read_text() == text
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert os.listdir(path.parent) == [path.name]
    (tmp_path / "open").mkdir(mode=0o755)
    with pytest.raises(CommandError, match="chmod 700"):
        runner.put(str(tmp_path / "open" / "file"), "text")
    with pytest.raises(CommandError, match="cannot be written"):
        runner.put("/proc/none/file", "text")


def test_commands_have_a_limit_an_environment_and_an_end(site):
    runner = site.runner()
    assert runner.run("no-such-command").code in {126, 127}, "126: PATH has a folder that this account may not read"
    assert runner.run("sh", "-c", "exit 255").code not in {0, None}
    words = dict(line.split("=", 1) for line in runner.run("env").out.splitlines())
    assert words.keys() <= {"PATH", "HOME", "LC_ALL", "SLURM_TIME_FORMAT", "SLURM_CONF"}
    assert (words["LC_ALL"], words["SLURM_TIME_FORMAT"]) == ("C", "%s")
    assert words["SLURM_CONF"] == site.slurm.environment["SLURM_CONF"]
    began = time.monotonic()
    done = runner.run("sleep", "60", limit_s=0.5)
    assert (done.code, done.words) == (None, f"{'ssh' if isinstance(runner, Ssh) else 'sleep'}: no answer within 0.5 s")
    if isinstance(runner, Local):
        done = runner.run("sh", "-c", "sleep 4 & echo begun")
        assert (done.code, done.out) == (0, "begun\n"), (
            "a child that lives on is not waited for, such as ssh's connection"
        )
    assert time.monotonic() - began < stretched(10)
    done = runner.run("head", "-c", "40000000", "/dev/zero")
    assert done.code is None
    assert "more than 32 MiB" in done.words
    assert runner.run("printf", r"\377 it").out == "\ufffd it"
    assert runner.run("printf", "%s|", "it's", "$HOME", "a b", "").out == "it's|$HOME|a b||"


@pytest.mark.parametrize("kind", ["local", "ssh"])
def test_a_controller_that_is_away_is_never_an_empty_list(kind, tmp_path):
    with slurm_started(tmp_path / "slurm") as slurm, site_started(kind, tmp_path, slurm) as site:
        engine, asked = site.engine(), order()
        ticket = engine.submit(asked, SLEEPS)
        wait(engine, asked["name"], "running")
        time.sleep(6)  # Slurm saves its state every 5 s
        slurm.controller_kill()
        assert isinstance(engine.look(), Away), "in Slurm's words, or because the limit has passed"
        quick = site.engine(limit_s=0.7)
        for answer in (
            quick.look(),
            quick.look([asked["name"]]),
            quick.describe(),
            quick.inventory(),
            quick.stop(ticket, asked["name"]),
            quick.extend(ticket, asked["name"], 60),
        ):
            assert isinstance(answer, Away)
            assert answer.reason
        with pytest.raises(UnknownError):
            quick.submit(order(), SLEEPS)
        slurm.controller_start()
        until = time.monotonic() + stretched(30)
        while isinstance(seen := engine.look(), Away):
            assert time.monotonic() < until, seen
        assert seen.orders[asked["name"]]["ticket"] == ticket
        slurm.clear()


def test_a_controller_that_forgot_an_order_gave_its_number_to_another_job(tmp_path):
    """Slurm saves its state each 5 s, and a controller that was killed begins with the last one."""
    with slurm_started(tmp_path / "slurm") as slurm, site_started("local", tmp_path, slurm) as site:
        engine, asked = site.engine(), order()
        lives = f"#!/bin/sh\necho $$ >>{tmp_path}/pids\nexec sleep 600\n"
        wait_changed(tmp_path / "slurm/state/job_state", lambda: engine.submit(order(), lives))
        ticket = engine.submit(asked, lives)
        wait(engine, asked["name"], "running")
        slurm.controller_kill()
        slurm.controller_start()
        until = time.monotonic() + stretched(30)
        while isinstance(seen := engine.look([asked["name"]]), Away):
            assert time.monotonic() < until, seen
        assert seen.orders == {}, "it runs, and is not listed"
        stranger = slurm.submit("sleep 600", "--mem=10")
        assert stranger == ticket
        slurm.wait(stranger, "RUNNING", "PENDING")
        assert engine.stop(ticket, asked["name"]) is None
        assert engine.extend(ticket, asked["name"], 60) is False
        time.sleep(0.5)
        assert slurm.state(stranger) in {"RUNNING", "PENDING"}
        for pid in map(int, (tmp_path / "pids").read_text().split()):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, 9)
        slurm.clear()


def wait_changed(path, act):
    """Do it, and wait until Slurm has saved its state, so that the next save is seconds away."""
    act()
    before, until = path.stat().st_mtime_ns if path.exists() else 0, time.monotonic() + stretched(30)
    while not path.exists() or path.stat().st_mtime_ns == before:
        assert time.monotonic() < until
        time.sleep(0.05)


def test_a_login_node_that_does_not_answer_is_away(tmp_path):
    engine = SlurmEngine(Ssh("ssh://nobody@127.0.0.1:1", tmp_path / "ssh"), partition="berth")
    assert "Connection refused" in engine.look().reason
    assert "Connection refused" in engine.describe().reason
    with pytest.raises(UnknownError, match="Connection refused"):
        engine.submit(order(), SLEEPS)
