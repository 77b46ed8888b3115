"""Berths for tests: each begins with a copy of one prepared data directory, and is killed when its user is done."""

import contextlib
import fcntl
import hashlib
import os
import shutil
import sqlite3
import subprocess
import sys
from importlib import metadata

import pytest

from portal.launch import broker
from portal.launch.preparation import fingerprint
from portal.layout import SOURCE, Layout, write_json
from tests.servers import UP_LIMIT_S, RunningBerth, private_directory


def template_make(directory):
    """A data directory with what each first start makes alike: the empty database's tables, and the static files."""
    layout = Layout.at(directory / "data")
    layout.prepare()
    environment = {name: value for name, value in os.environ.items() if name != "DJANGO_SETTINGS_MODULE"}
    environment |= {"PYTHONPATH": str(SOURCE), "BERTH_DATA_DIR": str(layout.root)}
    environment.pop("DATABASE_URL", None)
    for command in (["migrate"], ["collectstatic", "--noinput"]):
        argv = [sys.executable, "-P", "-m", "portal.launch", "manage", *command, "-v", "0"]
        subprocess.run(argv, env=environment, cwd=directory, check=True, timeout=UP_LIMIT_S)
    with contextlib.closing(sqlite3.connect(layout.database)) as database:
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")  # all of it in the one file


def template_key():
    """A hash of all that a template is made from: our code and static files, Python, and every installed package."""
    digest = hashlib.sha256(sys.version.encode())
    for name in sorted(f"{each.name} {each.version}" for each in metadata.distributions()):
        digest.update(name.encode())
    ours = [*SOURCE.glob("portal/**/*.py"), *SOURCE.glob("scheduler/**/*.py"), *SOURCE.glob("static/**/*.*")]
    for path in sorted(ours):
        digest.update(f"{path.relative_to(SOURCE)} {path.stat().st_size}\n".encode() + path.read_bytes())
    return digest.hexdigest()


def template_cached(cache, target):
    """Copy the template of this very code, kept in pytest's cache: made once for all processes and runs until something changes."""
    made = cache / template_key()
    with (cache / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.exists():
            for old in cache.glob("*/"):
                shutil.rmtree(old)
            under_way = cache / "under-way"
            under_way.mkdir()
            template_make(under_way)
            under_way.rename(made)
        shutil.copytree(made / "data", target)  # under the lock: another run of other code would remove it


@pytest.fixture(scope="session")
def template(request, tmp_path_factory):
    """A copy of the template that this run's Berths and databases are made from."""
    shared = tmp_path_factory.getbasetemp()
    if os.environ.get("PYTEST_XDIST_WORKER"):
        shared = shared.parent
    with (shared / "template.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (shared / "template").exists():
            cache = getattr(request.config, "cache", None)  # none with `-p no:cacheprovider`
            template_cached(cache.mkdir("template") if cache else tmp_path_factory.mktemp("made"), shared / "copying")
            (shared / "copying").rename(shared / "template")
    return shared / "template"


def template_copy(template, data, *, demo):
    """Give a new data directory what the template has, as `up` would have made it."""
    layout = Layout.at(data)
    layout.prepare()
    shutil.copytree(template / "static", data / "static", copy_function=os.link)
    shutil.copy(template / layout.database.name, layout.database)  # with its mode
    write_json(layout.prepared, {"fingerprint": fingerprint(demo=demo)})


@contextlib.contextmanager
def factory(template):
    """A function that starts Berths, which all end with the context."""
    with contextlib.ExitStack() as started:

        def start(*, demo=True, workload=False, environment=None, flags=(), fresh=False):
            directory = started.enter_context(private_directory())
            own = {"BERTH_DEMO_WORKLOAD": "1" if workload else "0", "BERTH_LEASE_S": "10", "BERTH_LEASE_GRACE_S": "3"}
            berth = RunningBerth(
                data=directory / "data",
                port=broker.free_port(),
                flags=[*(["--demo"] if demo else []), *flags],
                environment=own | (environment or {}),
            )
            started.callback(berth.end)
            if not fresh and "DATABASE_URL" not in berth.environment:
                template_copy(template, berth.data, demo=demo)
            berth.up()
            return berth

        yield start


@pytest.fixture(scope="module")
def berth_up(template):
    """A factory: `berth_up(demo=True, workload=False)` starts a Berth with virtual nodes and returns a RunningBerth.

    `workload=False` leaves the demo's jobs out, so that the nodes are idle. `fresh=True` lets it prepare its data
    directory from nothing, which takes it ten seconds of processor time. All are killed when the module ends.
    """
    with factory(template) as start:
        yield start


@pytest.fixture
def berth_once(template):
    """The same for Berths that one test alone uses: they are killed when it ends, and cost the next ones nothing."""
    with factory(template) as start:
        yield start
