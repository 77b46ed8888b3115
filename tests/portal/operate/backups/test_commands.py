"""`./berth backup` and `./berth restore` as they are called, on a database of each kind: all comes back, or nothing changes."""

import json
import os
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing

import pytest

from portal.foundation.layout import SOURCE, Layout, read_json, write_json
from portal.launch.broker import free_port
from portal.launch.processes.lock import SupervisorLock
from portal.operate.backups.archive import MANIFEST, archive_unpack, archive_written
from portal.operate.backups.older import COMMIT, NAMED_BEFORE

FILL = """
from tests.portal import given
from portal.work.jobs.services import log_append
cluster = given.Cluster.make()
attempt = cluster.running(restartable=True, name="runs \\u00e4 \\\\N")
log_append(node=cluster.node, key=attempt.key, epoch=1, rank=0, stream="stdout", offset=0, data=bytes(range(256)))
cluster.submit(name="waits", environment={"A": "b\\tc"})
"""
pytestmark = [pytest.mark.system, pytest.mark.slow]

STATE = """
import json
from portal.work.jobs.models import Attempt, Job, LogChunk
from portal.cluster.models import Node
from portal.people.tenants.models import User
print(json.dumps({
    "jobs": sorted(Job.objects.values_list("name", "key", "state")),
    "attempts": sorted(Attempt.objects.values_list("key", "state")),
    "logs": [bytes(row).hex() for row in LogChunk.objects.values_list("data", flat=True)],
    "users": sorted(User.objects.values_list("username", "password")),
    "unsettled": Node.objects.exclude(unsettled_since=None).count(),
}))
"""


SHELL = """
import contextlib, io, json, sys, traceback
from django.db import connections
for line in sys.stdin:
    told, failed = io.StringIO(), None
    with contextlib.redirect_stdout(told):
        try:
            exec(json.loads(line), {})
        except Exception:
            failed = traceback.format_exc()
    connections.close_all()
    print(json.dumps([told.getvalue(), failed]), flush=True)
"""
"""Runs programs one after the other: to load Django takes a second, and these tests look at a database dozens of times."""


COMMAND = """
from django.core.management import CommandError, call_command
try:
    call_command(*{arguments})
except CommandError as error:
    print("refused:", error)
"""


class Site:
    """A data directory and its database; commands run in processes of their own."""

    shells = []

    def __init__(self, directory, **environment):
        self.shell = None
        self.data = directory / "data"
        self.data.mkdir(mode=0o700, parents=True)
        kept = {
            name: value for name, value in os.environ.items() if name not in {"DJANGO_SETTINGS_MODULE", "DATABASE_URL"}
        }
        self.environment = kept | {"BERTH_DATA_DIR": str(self.data), "PYTHONPATH": str(SOURCE), **environment}

    def run(self, *arguments, check=True):
        done = subprocess.run(
            [sys.executable, "-P", "-m", "portal.launch", *map(str, arguments)],
            env=self.environment,
            cwd=self.data,
            capture_output=True,
            text=True,
            timeout=1200,  # for a hang, not for a busy machine
            check=False,
        )
        assert done.returncode == 0 or not check, done.stdout + done.stderr
        return done

    def python(self, program):
        """Return a program's output in this site's shell, which has the database open only meanwhile."""
        if self.shell is None:
            command = [sys.executable, "-P", "-m", "portal.launch", "manage", "shell", "--no-imports", "-c", SHELL]
            self.shell = subprocess.Popen(
                command, env=self.environment, cwd=self.data, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )
            self.shells.append(self.shell)
        self.shell.stdin.write(json.dumps(program) + "\n")
        self.shell.stdin.flush()
        said, failed = json.loads(self.shell.stdout.readline())
        assert failed is None, failed
        return said

    def command(self, *arguments):
        """Run a command of manage.py in the shell; return its output and its refusal. A process of its own takes seconds."""
        return self.python(COMMAND.format(arguments=list(map(str, arguments))))

    @property
    def state(self):
        return json.loads(self.python(STATE).strip().splitlines()[-1])

    def fill(self):
        if not (self.data / "berth.sqlite3").exists():
            self.command("migrate", "-v", "0")
        (self.data / "secret-key").write_text("k" * 20 + "abcdefghijklmnopqrstuvwxyz")
        (self.data / "tls").mkdir()
        (self.data / "tls" / "ca.pem").write_text("certificate")
        self.python(FILL)


@pytest.fixture(scope="module", autouse=True)
def shells():
    yield
    for shell in Site.shells:
        shell.stdin.close()
        shell.wait()


@pytest.fixture(scope="module")
def sqlite_site(tmp_path_factory, template):
    site = Site(tmp_path_factory.mktemp("site"))
    shutil.copy(template / "berth.sqlite3", site.data)
    site.fill()
    return site


@pytest.fixture(scope="module")
def good_backup(sqlite_site, tmp_path_factory):
    """(a backup of the site, what the site holds and which files)."""
    file = tmp_path_factory.mktemp("good") / "good.berth-backup"
    sqlite_site.run("backup", "--to", file)
    return file, sqlite_site.state, sorted(path.name for path in sqlite_site.data.rglob("*"))


def there_and_back(site, tmp_path, elsewhere):
    """Back up, change everything, restore: into the same place, and into an empty one."""
    file = tmp_path / "kept" / "all.berth-backup"
    file.parent.mkdir()
    before = site.state
    made = site.run("backup", "--to", file)
    assert "restored into a scratch database and compared: the backup is good" in made.stdout
    assert file.stat().st_mode & 0o077 == 0
    assert site.state == before, "a backup changes nothing"
    assert [path.name for path in file.parent.iterdir()] == [file.name], "no scratch is left"
    site.python(
        "from portal.work.jobs.models import Job; Job.objects.update(name='changed'); Job.objects.all()[0].delete()"
    )
    site.python(
        "from tests.portal import given; from portal.people.tenants.models import User; User.objects.all().update(password='x')"
    )
    (site.data / "secret-key").write_text("another key, that was made afterwards 0123456789")
    layout = Layout.at(site.data)
    layout.prepare()
    write_json(layout.prepared, {"fingerprint": "of what was there", "static": "of the files that are collected"})
    for target, said in ((site, site.run("restore", file).stdout), (elsewhere, elsewhere.command("restore", file))):
        assert "1 jobs wait, and 1 were running. Berth asks 1 nodes" in said
        assert target.state == before | {"unsettled": 1}
        assert (target.data / "secret-key").read_text().startswith("kkkk")
        assert (target.data / "tls" / "ca.pem").read_text() == "certificate"
    assert read_json(layout.prepared) == {"static": "of the files that are collected"}, "a backup has none of these"
    (aside,) = site.data.glob("before-restore-*")
    assert (aside / "secret-key").read_text().startswith("another key")
    return aside


def with_a_migration_less(site, file):
    """The database of an earlier version: its tables are made as they were, and then brought to the newest."""
    site.command("migrate", "offers", "zero", "-v", "0")
    before = site.state
    assert "compared: the backup is good" in site.run("backup", "--to", file).stdout
    site.run("restore", file)
    assert site.state == before
    assert site.command("migrate", "--check") == "", "it is up to date"


def from_before_0_1(site, good, tmp_path):
    """No command changes such a database, and such a backup is restored nowhere. Each says so in one line."""
    older = older_backup(good, tmp_path)
    before, files = site.state, {path.name for path in site.data.iterdir()}
    refused = site.command("restore", older)
    assert refused.startswith(f"refused: {older} was made before Berth 0.1: use another backup, or commit {COMMIT}, ")
    site.python(RECORD.format("record_applied"))
    said = [site.command(*each) for each in (("migrate",), ("restore", good), ("backup", "--to", tmp_path / "none"))]
    where = "DATABASE_URL" if "DATABASE_URL" in site.environment else "--data directory"
    history = "which writes its history as CSV (the job list's button, `berth usage TENANT -o csv`)."
    assert set(said) == {
        f"refused: The database was made before Berth 0.1: use another {where}, or commit {COMMIT}, {history}\n"
    }
    up = site.run("up", "--port", str(free_port()), check=False)
    assert (up.returncode, up.stderr) == (1, said[0].replace("refused", "berth"))
    assert site.state == before
    assert not {path.name for path in site.data.glob("b*")} - files, "nothing was put aside"
    site.python(RECORD.format("record_unapplied"))


RECORD = f"""
from django.db import connection
from django.db.migrations.recorder import MigrationRecorder
MigrationRecorder(connection).{{}}{NAMED_BEFORE}
"""


def older_backup(good, tmp_path):
    """Make a backup say that it was made before 0.1."""
    (tmp_path / "unpacked").mkdir()
    found, older = archive_unpack(good, tmp_path / "unpacked"), tmp_path / "0.0.berth-backup"
    found.manifest["database"]["migrations"].append(NAMED_BEFORE)
    with archive_written(older, found.header) as writer:
        for name in found.manifest["members"]:
            writer.add(name, found.path(name))
        writer.add_json(MANIFEST, found.manifest)
    return older


def test_there_and_back_on_sqlite(sqlite_site, tmp_path):
    aside = there_and_back(sqlite_site, tmp_path, Site(tmp_path / "elsewhere"))
    with_a_migration_less(sqlite_site, tmp_path / "earlier.berth-backup")
    from_before_0_1(sqlite_site, tmp_path / "earlier.berth-backup", tmp_path)
    with closing(sqlite3.connect(aside / "berth.sqlite3")) as old:
        assert old.execute("SELECT name FROM jobs_job").fetchall() == [("changed",)]


@pytest.mark.postgres
def test_there_and_back_on_postgres(postgres_url, postgres_server, tmp_path):
    _, run_sql = postgres_server
    run_sql("CREATE DATABASE elsewhere")
    site = Site(tmp_path / "one", DATABASE_URL=postgres_url)
    site.fill()
    other = postgres_url.replace("/test_commands", "/elsewhere")
    there_and_back(site, tmp_path, Site(tmp_path / "two", DATABASE_URL=other))
    facts = "from portal.operate.backups.postgres import tables_own, used_elsewhere; from django.db import connection;"
    left = site.python(
        f"{facts} print(sorted(set(connection.introspection.table_names()) - set(tables_own())), used_elsewhere())"
    )
    assert left.strip().splitlines()[-1] == "[] []"
    with_an_account_that_makes_no_database(site, run_sql, tmp_path)
    with_a_migration_less(site, tmp_path / "earlier.berth-backup")
    from_before_0_1(site, tmp_path / "earlier.berth-backup", tmp_path)
    site.python(MORE)  # ids go on: no row is given one that is taken


def with_an_account_that_makes_no_database(site, run_sql, tmp_path):
    """The backup is made all the same, read back and counted."""
    run_sql("CREATE ROLE limited LOGIN")
    grants = [f"GRANT ALL ON ALL {kind} IN SCHEMA public TO limited" for kind in ("TABLES", "SEQUENCES")]
    site.python(f"from django.db import connection\nfor each in {grants!r}: connection.cursor().execute(each)")
    limited = Site(tmp_path / "limited", DATABASE_URL=site.environment["DATABASE_URL"].replace("berth@", "limited@"))
    (limited.data / "secret-key").write_text("k" * 20 + "abcdefghijklmnopqrstuvwxyz")
    made = limited.run("backup", "--to", tmp_path / "limited.berth-backup")
    assert "read back and counted, not restored" in made.stdout


MORE = """
from django.utils import timezone
from portal.cluster.models import Node
from portal.people.tenants.models import Tenant, User
from tests.portal import given
Node.objects.update(last_contact_at=timezone.now())
rows = Tenant.objects.get(name="vision-lab"), User.objects.get(username="lena"), Node.objects.get(name="n1")
assert given.Cluster(*rows).running(restartable=True).job_id > 1000
"""


def test_nothing_is_restored_over_a_running_berth(sqlite_site, tmp_path):
    layout = Layout.at(sqlite_site.data)
    layout.prepare()
    lock = SupervisorLock(layout.lock)
    assert lock.acquire()
    before = sqlite_site.state
    with lock:
        refused = sqlite_site.run("restore", tmp_path / "any", check=False)
    assert refused.returncode == 1
    assert "./berth down --keep-jobs" in refused.stderr
    assert sqlite_site.state == before


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda data: data[: len(data) // 2], "cut off"),
        (lambda _: b"hello", "no backup of Berth"),
        (lambda _: b"", "no backup of Berth"),
    ],
)
def test_a_bad_file_changes_nothing(sqlite_site, good_backup, tmp_path, damage, said):
    bad = tmp_path / "bad.berth-backup"
    file, before, there = good_backup
    bad.write_bytes(damage(file.read_bytes()))
    refused = sqlite_site.command("restore", bad)
    assert refused.startswith("refused: ")
    assert said in refused
    assert refused.count("\n") == 1
    assert sqlite_site.state == before
    assert sorted(path.name for path in sqlite_site.data.rglob("*")) == there


def test_a_refusal_is_one_line_and_an_exit_code(sqlite_site, tmp_path):
    (tmp_path / "bad").write_bytes(b"hello")
    for arguments in (["restore", tmp_path / "bad"], ["backup", "--to", tmp_path / "bad"]):
        refused = sqlite_site.run(*arguments, check=False)
        assert refused.returncode == 1
        assert refused.stderr.count("\n") == 1


def test_a_backup_is_never_written_over_another_file(sqlite_site, tmp_path):
    (tmp_path / "mine").write_text("precious")
    for place in ("mine", "no/such/directory"):
        refused = sqlite_site.command("backup", "--to", tmp_path / place)
        assert refused.startswith("refused: ")
        assert refused.count("\n") == 1
    assert (tmp_path / "mine").read_text() == "precious"
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_where_there_is_no_berth_there_is_nothing_to_back_up(tmp_path):
    done = Site(tmp_path).run("backup", check=False)
    assert done.returncode == 1
    assert "There is no Berth in" in done.stderr


def test_up_refuses_what_a_restore_left_half_done(sqlite_site):
    layout = Layout.at(sqlite_site.data)
    layout.restoring.write_text(json.dumps({"path": "/some/backup"}))
    try:
        done = sqlite_site.run("up", "--port", "1", check=False)
    finally:
        layout.restoring.unlink()
    assert done.returncode == 1
    assert "./berth restore /some/backup" in done.stderr
