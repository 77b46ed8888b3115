"""Whatever is killed while a job's artefacts travel, and whatever is restored: every byte is there afterwards, once."""

import hashlib
import html
import shlex
import shutil
import time
import urllib.error
import urllib.request

import pytest

from tests.servers import stretched
from tests.system.helpers.client import Tenant, rows, signed_in
from tests.system.helpers.story import killed

pytestmark = [pytest.mark.system, pytest.mark.slow]

FAULTS = {"portal": ("portal",), "agent": ("agent",), "both": ("portal", "agent")}
LARGE = 12_000_000
PIECE = 2 * 1024 * 1024
SENDING = {"BERTH_LEASE_S": "300", "BERTH_AGENT_ARTEFACTS_RATE": "2"}
IN_THE_MIDDLE = SENDING | {"BERTH_AGENT_ARTEFACTS_RATE": "1"}
"""At a MiB a second a large file is on its way for eleven seconds, and is looked at so often that a kill finds its middle."""

NAMES = r"""
import os
os.chdir(os.environ["BERTH_ARTEFACTS"])
for name in ("plain.txt", "tab\tname.txt", "two\nlines.txt", "C:\\out\\best.txt", "zero\u200bwidth.txt", "right\u202eleft.txt"):
    open(name, "w").close()
os.symlink("plain.txt", "link\tto")
os.mkfifo("pipe")
open(b"half\xff", "w").close()
"""


@pytest.fixture
def berth(berth_once, request):
    return berth_once(demo=True, workload=False, environment=getattr(request, "param", SENDING))


@pytest.fixture
def tenant(berth):
    return Tenant(berth)


def writer(gate, *names):
    """A command that writes a large file and twenty small ones of each name once `gate` has a file of it; then tells their hashes."""
    steps = "".join(
        f"while [ ! -e {gate}/{name} ]; do sleep 0.1; done; mkdir -p $BERTH_ARTEFACTS/{name}; "
        f"head -c {LARGE} /dev/urandom > large; mv large $BERTH_ARTEFACTS/{name}.bin; "
        f"for i in $(seq 20); do head -c $((i * 1000)) /dev/urandom > $BERTH_ARTEFACTS/{name}/$i; done; "
        for name in names
    )
    return f"{steps} cd $BERTH_ARTEFACTS; find . -type f -exec sha256sum {{}} +"


def told(tenant, number):
    """{path: hash} as the job itself computed them."""
    lines = tenant.log_whole(number, "stdout").splitlines()
    return {path.removeprefix("./"): digest for digest, path in (line.split(maxsplit=1) for line in lines)}


def listed(tenant, number):
    status, found = tenant.berth.request(f"/api/v1/jobs/{number}/artefacts?page_size=500", token=tenant.token)
    assert status == 200, found
    return found


def kept(tenant, number):
    return {row["path"]: row["sha256"] for row in listed(tenant, number)["results"] if row["state"] == "kept"}


def downloaded(tenant, number, path):
    """The hash of what a download brings, or None for what is not there."""
    asked = urllib.request.Request(
        f"{tenant.berth.url}/api/v1/jobs/{number}/artefacts/{path}", headers={"Authorization": f"Bearer {tenant.token}"}
    )
    try:
        with urllib.request.urlopen(asked, timeout=60) as answer:
            return hashlib.sha256(answer.read()).hexdigest()
    except urllib.error.HTTPError as error:
        assert error.code == 404, error.read()
        return None


def on_its_way(berth, path):
    """The file of a content that is on its way, None before it comes."""
    found = rows(berth, "select incoming from artefacts_artefact where path = ? and incoming != ''", path)
    return next((file for (name,) in found for file in (berth.data / "artefacts").glob(f"*/*/{name}")), None)


def stored(berth):
    return {file.name for file in (berth.data / "artefacts").rglob("*") if file.is_file()}


def named(berth):
    return {name for (name,) in rows(berth, "select blob from artefacts_artefact")}


def killed_in_the_middle(berth, path, roles):
    """Kill as soon as a piece of the content came; return its stored name.

    What is asked again and again is a file's size, which costs nothing: the database tells once which file it is.
    """
    deadline, file = time.monotonic() + stretched(120.0), None
    while file is None or file.stat().st_size < PIECE:
        assert time.monotonic() < deadline, f"waited in vain for the middle of {path}\n{berth.logs()}"
        file = file or on_its_way(berth, path)
        time.sleep(0.02)
    assert all(berth.kill(role) for role in roles)
    assert PIECE <= file.stat().st_size < LARGE, "the kill came in the middle"
    return file.name


@pytest.mark.parametrize("berth", [IN_THE_MIDDLE], indirect=True, ids=["slowly"])
def test_kills_in_the_middle_lose_no_byte_and_send_none_twice(berth, tenant, tmp_path):
    number = tenant.submit(writer(tmp_path, *FAULTS))
    tenant.wait_state(number, "RUNNING")
    under_way = {}
    for fault, roles in FAULTS.items():
        (tmp_path / fault).touch()
        large = f"{fault}.bin"
        under_way[large] = killed_in_the_middle(berth, large, roles)
        berth.wait(lambda large=large: large in kept(tenant, number), limit_s=180, what=f"all of {large}")
    tenant.wait_state(number, "COMPLETED")
    berth.wait(lambda: listed(tenant, number)["state"] == "complete", what="all files")
    written = told(tenant, number)
    assert len(written) == 21 * len(FAULTS)
    assert kept(tenant, number) == written
    assert all(downloaded(tenant, number, path) == digest for path, digest in written.items() if path.endswith(".bin"))
    blobs = dict(rows(berth, "select path, blob from artefacts_artefact"))
    assert {large: blobs[large] for large in under_way} == under_way, "each went on where it was"
    assert stored(berth) == named(berth), "nothing is left behind"
    counted = rows(
        berth, "select (select sum(counted) from artefacts_tenantartefacts), sum(size) from artefacts_artefact"
    )
    assert counted[0][0] == counted[0][1]


def test_a_restored_backup_has_its_artefacts_and_nodes_bring_what_is_newer_or_lost(berth, tenant, tmp_path):
    """In place, and then without the artefacts' folder, as on another machine to which nobody copied it."""
    for name in ("ended", "before"):
        (tmp_path / name).touch()
    ended, runs = tenant.submit(writer(tmp_path, "ended")), tenant.submit(writer(tmp_path, "before", "after"))
    tenant.wait_state(ended, "COMPLETED", limit_s=60)
    berth.wait(lambda: len(kept(tenant, ended)) == len(kept(tenant, runs)) == 21, limit_s=120, what="what comes before")
    file = tmp_path / "all.berth-backup"
    berth.command("backup", "--to", str(file))
    (tmp_path / "after").touch()
    berth.wait(lambda: len(kept(tenant, runs)) == 42, limit_s=120, what="what comes after the backup")
    killed(berth)
    berth.command("restore", str(file))
    berth.up()
    every_byte_is_there(berth, tenant, {ended: 21, runs: 42})
    killed(berth)
    shutil.rmtree(berth.data / "artefacts")
    berth.up()
    every_byte_is_there(berth, tenant, {ended: 21, runs: 42})


def test_each_name_that_is_not_kept_reaches_the_page(berth, tenant):
    number = tenant.submit(f"python3 -c {shlex.quote(NAMES)}")
    tenant.wait_state(number, "COMPLETED")
    berth.wait(lambda: listed(tenant, number)["state"] == "complete", what="all files")
    assert kept(tenant, number).keys() == {"plain.txt"}
    notes = {each["path"]: each["why"] for each in listed(tenant, number)["notes"]}
    hidden = ("tab\\tname.txt", "two\\nlines.txt", "C:\\out\\best.txt", "zero\\u200bwidth.txt", "right\\u202eleft.txt")
    assert notes == {
        **dict.fromkeys(hidden, "its path has a backslash or a character that cannot be seen"),
        "link\\tto": "it is a link",
        "pipe": "it is no plain file",
        "half\\udcff": "its name is not UTF-8 text",
    }
    with signed_in(berth, "viktor") as browser:
        page = html.unescape(browser.get(f"/jobs/{number}/artefacts").text)
    assert all(f"<code>{path}</code> {why}" in page for path, why in notes.items())


def every_byte_is_there(berth, tenant, files):
    for number, count in files.items():
        tenant.wait_state(number, "COMPLETED", limit_s=120)

        def whole(number=number, count=count):
            written = told(tenant, number)
            if len(written) != count or kept(tenant, number) != written:
                return False
            return all(downloaded(tenant, number, path) == digest for path, digest in written.items())

        berth.wait(whole, limit_s=240, what=f"every byte of job {number}, and its log")
