"""Berths for tests: each begins with a copy of one prepared data directory, and is killed when its user is done."""

import contextlib
import fcntl
import functools
import hashlib
import os
import shutil
import sqlite3
import subprocess
import sys
import time
from importlib import metadata

import pytest

from portal.foundation.layout import SOURCE, Layout, write_json
from portal.launch import broker
from portal.launch.preparation import stamp, static_fingerprint
from tests.servers import UP_LIMIT_S, RunningBerth, private_directory, stretched

KEPT = "kept"
"""The folder of the cache with the parts that templates of other code are made from too."""


def template_make(directory):
    """A data directory with the files that each first start makes: the empty database's tables, and the static files.

    Parts that a change of other code leaves as they are come from the last time's copy.
    """
    layout, kept = Layout.at(directory / "data"), directory.parent / KEPT
    layout.prepare()
    kept.mkdir(exist_ok=True)
    database_make(layout, kept)
    static_make(layout, kept)


def manage(layout, *command):
    """Run a command of Django's on a data directory, as `up` runs it."""
    environment = {name: value for name, value in os.environ.items() if name != "DJANGO_SETTINGS_MODULE"}
    environment |= {"PYTHONPATH": str(SOURCE), "BERTH_DATA_DIR": str(layout.root)}
    environment.pop("DATABASE_URL", None)
    argv = [sys.executable, "-P", "-m", "portal.launch", "manage", *command, "-v", "0"]
    subprocess.run(argv, env=environment, cwd=layout.root, check=True, timeout=stretched(UP_LIMIT_S))


def database_make(layout, kept):
    """Migrate from nothing, or from what the same migrations made before; what is written after each `migrate` is written now."""
    made = kept / f"migrated-{key_of('portal/**/migrations/*.py')}"
    if made.exists():
        shutil.copy(made, layout.database)  # with its mode
    manage(layout, "migrate")
    with contextlib.closing(sqlite3.connect(layout.database)) as database:
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")  # all of it in the one file
    if not made.exists():
        migrated_keep(layout.database, made)


def static_make(layout, kept):
    """Collect the static files, or take those that were collected of the same ones."""
    made = kept / f"static-{key_of('static/**/*.*', 'portal/settings.py', 'portal/foundation/compression.py')}"
    static = layout.root / "static"
    if made.exists():
        shutil.copytree(made, static, copy_function=os.link, dirs_exist_ok=True)
        return
    manage(layout, "collectstatic", "--noinput")
    for old in kept.glob("static-*"):
        shutil.rmtree(old)
    under_way = kept / "static-under-way"
    shutil.copytree(static, under_way, copy_function=os.link)
    under_way.rename(made)


def migrated_keep(database, target):
    """Keep the schema that the migrations made. Their data is about rows, and an empty database has none."""
    for old in target.parent.glob("migrated-*"):
        old.unlink()
    under_way = target.with_name("migrated-under-way")
    shutil.copy(database, under_way)
    with contextlib.closing(sqlite3.connect(under_way)) as kept:
        names = kept.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")
        for (name,) in names.fetchall():
            if name != "django_migrations" and kept.execute(f'SELECT 1 FROM "{name}" LIMIT 1').fetchone():
                kept.execute(f'DELETE FROM "{name}"')
                kept.execute("UPDATE sqlite_sequence SET seq = 0 WHERE name = ?", (name,))
        kept.commit()
        kept.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    under_way.rename(target)


def demo_make(directory, template):
    """The same after the demo's first start and its end: its people (their slow hashes, too), nodes and links are known, no job ran."""
    berth = RunningBerth(
        directory / "data", broker.free_port(), ["--demo"], {"BERTH_DEMO_WORKLOAD": "0", "BERTH_AGENT_ACCOUNTS": "off"}
    )
    template_copy(template, berth.data, demo=True)
    try:
        berth.up()
        berth.down()
    finally:
        berth.end()
    shutil.rmtree(berth.layout.logs)
    shutil.rmtree(berth.data / "static")  # each Berth has links to the template's
    with contextlib.closing(sqlite3.connect(berth.layout.database)) as database:
        database.execute(LINKS_KNOWN)
        database.commit()
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")


LINKS_KNOWN = f"""UPDATE estimation_link SET {
    ", ".join(
        f"{kind} = {side}_assumed, {side}_told = {side}_assumed_from, "
        f"{side}_measured_at = CURRENT_TIMESTAMP, {side}_method = 'taken as assumed'"
        for side, kind in (("within", "within_node"), ("between", "between_nodes"))
    )
}"""
"""Else each Berth measures the links of the demo's two GPU types with four jobs, as soon as it is up."""


def template_key():
    """A hash of all that a template is made from: our code and static files, Python, every installed package, and the day."""
    return key_of("portal/**/*.py", "scheduler/**/*.py", "workers/**/*.py", "static/**/*.*", "tests/berths.py")


def key_of(*patterns):
    """A hash of these files of ours, Python, every installed package, and the day."""
    digest = hashlib.sha256(f"{sys.version} {time.strftime('%F')}".encode())
    for name in sorted(f"{each.name} {each.version}" for each in metadata.distributions()):
        digest.update(name.encode())
    ours = [path for pattern in patterns for path in SOURCE.glob(pattern)]
    for path in sorted(ours):
        digest.update(f"{path.relative_to(SOURCE)} {path.stat().st_size}\n".encode() + path.read_bytes())
    return digest.hexdigest()


def template_cached(cache, name, make, target):
    """Copy a template of this very code, kept in pytest's cache: made once for all processes and runs until something changes."""
    made = cache / template_key()
    with (cache / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (made / name).exists():
            for old in {*cache.glob("*/")} - {made, cache / KEPT}:
                shutil.rmtree(old)
            under_way = cache / "under-way"
            under_way.mkdir()
            make(under_way)
            made.mkdir(exist_ok=True)
            under_way.rename(made / name)
        shutil.copytree(made / name / "data", target)  # under the lock: another run of other code would remove it


def template_of_run(request, tmp_path_factory, name, make):
    """The copy of a template for this run, made by the first of its processes that asks."""
    shared = tmp_path_factory.getbasetemp()
    if os.environ.get("PYTEST_XDIST_WORKER"):
        shared = shared.parent
    with (shared / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (shared / name).exists():
            cache = getattr(request.config, "cache", None)  # none with `-p no:cacheprovider`
            kept = cache.mkdir("template") if cache else tmp_path_factory.mktemp("made")
            template_cached(kept, name, make, shared / "copying")
            (shared / "copying").rename(shared / name)
    return shared / name


@pytest.fixture(scope="session")
def template(request, tmp_path_factory):
    """A copy of the template that this run's Berths and databases are made from."""
    return template_of_run(request, tmp_path_factory, "template", template_make)


@pytest.fixture(scope="session")
def demo_template(request, tmp_path_factory, template):
    """The same with the demo's people and nodes."""
    return template_of_run(request, tmp_path_factory, "demo", functools.partial(demo_make, template=template))


def template_copy(template, data, *, demo):
    """Give a new data directory what the template has, as `up` would have made it."""
    layout = Layout.at(data)
    static_copy(template, layout)
    shutil.copy(template / layout.database.name, layout.database)  # with its mode
    write_json(layout.prepared, stamp(demo=demo))


def static_copy(template, layout):
    """Give a new data directory only the static files: its database is not a file in it."""
    layout.prepare()
    shutil.copytree(template / "static", layout.root / "static", copy_function=os.link)
    write_json(layout.prepared, {"static": static_fingerprint()})


def demo_copy(demo_template, template, data, *, copy=os.link):
    """Give a new data directory what a demo has that was started once and stopped. `copy`: shutil.copy for another disk."""
    shutil.copytree(demo_template, data)
    shutil.copytree(template / "static", data / "static", copy_function=copy)


def begin(request, berth, *, demo):
    """Give a Berth that has not started yet what a template has."""
    template = request.getfixturevalue("template")
    if "DATABASE_URL" in berth.environment:
        static_copy(template, berth.layout)
    elif demo:
        demo_copy(request.getfixturevalue("demo_template"), template, berth.data)
    else:
        template_copy(template, berth.data, demo=False)


@contextlib.contextmanager
def factory(request):
    """A function that starts Berths, which all end with the context."""
    with contextlib.ExitStack() as started:

        def start(*, demo=True, workload=False, environment=None, flags=(), fresh=False):
            directory = started.enter_context(private_directory())
            own = {"BERTH_DEMO_WORKLOAD": "1" if workload else "0", "BERTH_LEASE_S": "10", "BERTH_LEASE_GRACE_S": "3"}
            if not workload:  # the tests' own jobs write where the tests look; the demo's live as anybody's
                own["BERTH_AGENT_ACCOUNTS"] = "off"
            berth = RunningBerth(
                data=directory / "data",
                port=broker.free_port(),
                flags=[*(["--demo"] if demo else []), *flags],
                environment=own | (environment or {}),
            )
            started.callback(berth.end)
            if not fresh:
                begin(request, berth, demo=demo)
            berth.up()
            return berth

        yield start


@pytest.fixture(scope="module")
def berth_up(request):
    """A factory: `berth_up(demo=True, workload=False)` starts a Berth with virtual nodes and returns a RunningBerth.

    `workload=False` leaves the demo's jobs out, so that the nodes are idle. `fresh=True` lets it prepare its data
    directory from nothing, which takes it ten seconds of processor time. All are killed when the module ends.
    """
    with factory(request) as start:
        yield start


@pytest.fixture
def berth_once(request):
    """The same for Berths of a single test: they are killed when it ends, and cost the next ones nothing."""
    with factory(request) as start:
        yield start
