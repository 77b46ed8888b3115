"""The changes that make the preparation due, and that a failing step ends `up` with its own last words."""

import json
import sys
import time

import pytest

from portal.foundation.errors import LaunchError
from portal.foundation.layout import Layout, write_json
from portal.launch import preparation
from portal.launch.notices import Notices
from portal.launch.processes import identity
from portal.launch.programs import node_names


@pytest.fixture
def source(tmp_path, monkeypatch):
    """A little source tree to change."""
    root = tmp_path / "source"
    for name in ("requirements.lock", "portal/work/jobs/migrations/0001_initial.py", "static/css/berth.css"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("1")
    monkeypatch.setattr(preparation, "SOURCE", root)
    monkeypatch.delenv("DATABASE_URL", raising=False)
    return root


@pytest.fixture
def layout(source, tmp_path):
    """A data directory that has just been prepared."""
    layout = Layout.at(tmp_path / "data")
    layout.prepare()
    layout.database.write_text("")
    for name in node_names(layout, demo=True):
        (layout.nodes / name).mkdir()
        (layout.nodes / name / preparation.REGISTERED_FILE).write_text("{}")
    (layout.root / "static").mkdir()
    write_json(layout.prepared, preparation.stamp(demo=True))
    return layout


def test_nothing_is_due_when_nothing_changed(layout):
    assert not preparation.is_due(layout, demo=True)
    assert not preparation.is_static_due(layout)


@pytest.mark.parametrize(
    ("path", "due"),
    [
        ("static/js/new.js", True),
        ("requirements.lock", True),
        ("portal/cluster/registry/migrations/0002_more.py", False),
    ],
)
def test_static_files_are_collected_anew_when_one_may_differ(layout, source, path, due):
    (source / path).parent.mkdir(parents=True, exist_ok=True)
    (source / path).write_text("22")
    assert preparation.is_static_due(layout) == due


def test_static_files_are_collected_after_a_restore_where_there_are_none(layout):
    write_json(layout.prepared, {"static": preparation.static_fingerprint()})  # what a restore leaves of it
    assert preparation.is_due(layout, demo=True)
    assert not preparation.is_static_due(layout)
    (layout.root / "static").rmdir()
    assert preparation.is_static_due(layout)


@pytest.mark.parametrize(
    "path",
    [
        "requirements.lock",
        "portal/work/jobs/migrations/0001_initial.py",
        "static/css/berth.css",
        "static/js/new.js",
        "portal/cluster/registry/migrations/0002_more.py",
    ],
)
def test_a_changed_or_new_file_makes_it_due(layout, source, path):
    (source / path).parent.mkdir(parents=True, exist_ok=True)
    (source / path).write_text("22")
    assert preparation.is_due(layout, demo=True)


def test_a_missing_database_makes_it_due(layout):
    layout.database.unlink()
    assert preparation.is_due(layout, demo=True)


def test_an_outside_database_is_looked_at_each_time(layout, monkeypatch):
    monkeypatch.setenv("DATABASE_URL", "postgres://x/y")
    assert preparation.is_due(layout, demo=True)


def test_a_node_that_never_registered_makes_it_due(layout):
    (layout.nodes / "rtx-01" / preparation.REGISTERED_FILE).unlink()
    assert preparation.is_due(layout, demo=True)
    assert preparation.nodes_unregistered(layout, demo=True) == ["rtx-01"]


def test_turning_into_a_demo_makes_it_due(layout):
    assert preparation.fingerprint(demo=False) != preparation.fingerprint(demo=True)


def test_a_bucket_for_artefacts_makes_a_preparation_due(monkeypatch):
    """Beat's schedule, which is made with the database, has two tasks more then."""
    before = preparation.fingerprint(demo=False)
    monkeypatch.setenv("BERTH_S3_URL", "s3://berth")
    assert preparation.fingerprint(demo=False) != before


def run_task(layout, script):
    notices = Notices(layout.logs / "supervisor.log")
    task = preparation.Task("one", ["-c", script], layout, {"PATH": "/usr/bin:/bin"})
    preparation.await_tasks([task], notices, between=lambda: None)
    return task.prepared


def test_what_a_step_says_reaches_the_terminal_and_secrets_do_not_reach_the_log(layout, capsys):
    said = [{"step": "made it"}, {"farewell": "password hunter2"}, {"join": "n1", "token": "secret-token"}]
    prepared = run_task(layout, f"print({json.dumps(chr(10).join(map(json.dumps, said)))})")
    assert "made it" in capsys.readouterr().out
    assert prepared.farewell == ["password hunter2"]
    assert prepared.join_tokens == {"n1": "secret-token"}
    log = (layout.logs / "supervisor.log").read_text()
    assert "made it" in log
    assert "hunter2" not in log
    assert "secret-token" not in log


def test_a_failing_step_says_why_and_where(layout):
    with pytest.raises(LaunchError, match=r"one failed: the disk is on fire.*logs/one\.log"):
        run_task(layout, "import sys; sys.exit('the disk is on fire')")


def test_a_stop_while_preparing_ends_the_step(layout):
    class StopError(Exception):
        pass

    def between():
        raise StopError

    task = preparation.Task("one", ["-c", "import time; time.sleep(600)"], layout, {})
    with pytest.raises(StopError):
        preparation.await_tasks([task], Notices(layout.logs / "supervisor.log"), between)
    task.end()
    assert task.process.poll() is not None
    assert sys.executable in task.process.args


def test_a_step_that_a_killed_supervisor_left_is_known_by_the_next(layout):
    task = preparation.Task("one", ["-c", "import time; time.sleep(600)"], layout, {})
    try:
        ends_at = time.monotonic() + 60
        while not identity.leftovers(layout) and time.monotonic() < ends_at:
            time.sleep(0.05)  # it is known by its environment, which it has once its program began
        assert [process.pid for process in identity.leftovers(layout)] == [task.process.pid]
        identity.end(identity.leftovers(layout), patience_s=5)
        assert task.process.poll() is not None
    finally:
        task.end()
