"""Artefacts in a bucket, of a real server that speaks S3: brought there whole, read in ranges, removed; away, slow, killed."""

import os
import signal
import socket
import subprocess
import sys
import time
from datetime import timedelta
from pathlib import Path

import boto3
import pytest
from django.test import Client
from django.urls import reverse

from portal.foundation.errors import NotFound
from portal.operate.health.problems import store_away
from portal.pages.dashboard.artefacts import previews
from portal.work.artefacts import remote, store
from portal.work.artefacts.models import Artefact
from portal.work.artefacts.services.moving import artefacts_move, remote_sweep, store_state
from portal.work.artefacts.services.removing import artefacts_remove
from tests.portal.work.artefacts.sending import Sender
from tests.portal.work.artefacts.test_inputs import ask

pytestmark = pytest.mark.django_db
KEYS = {"AWS_ACCESS_KEY_ID": "tester", "AWS_SECRET_ACCESS_KEY": "shown-nowhere-9f3a"}


class S3Server:
    """moto's server as a process of its own, on a free port where none is given."""

    def __init__(self, port=0):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = port or free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.start()

    def start(self):
        argv = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(self.port)]
        self.process = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        until = time.monotonic() + 60
        while time.monotonic() < until:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
            except OSError:
                time.sleep(0.1)
            else:
                return
        raise AssertionError("moto's server did not start")

    def end(self):
        self.process.kill()
        self.process.wait()


@pytest.fixture(scope="module")
def server():
    found = S3Server()
    yield found
    found.end()


@pytest.fixture
def bucket(server, monkeypatch):
    """A bucket of its own, set as the store; a client beside the product's."""
    name = f"berth-{os.urandom(4).hex()}"
    for key, value in {
        **KEYS,
        "BERTH_S3_URL": f"s3://{name}/arte/facts",
        "BERTH_S3_ENDPOINT": server.url,
        "NO_PROXY": "127.0.0.1",
    }.items():
        monkeypatch.setenv(key, value)
    forget()
    client = boto3.client("s3", endpoint_url=server.url, region_name="us-east-1")
    client.create_bucket(Bucket=name)
    yield client, name
    forget()


def forget():
    remote._client.cache_clear()
    remote._rests_until[0] = 0.0
    previews._kept.clear()


@pytest.fixture
def nobody(bucket, monkeypatch):
    """The store does not answer."""
    monkeypatch.setenv("BERTH_S3_ENDPOINT", "http://127.0.0.1:1")
    forget()


def names(bucket):
    client, name = bucket
    return [each["Key"] for each in client.list_objects_v2(Bucket=name).get("Contents", ())]


@pytest.fixture
def sender(cluster):
    return Sender(cluster, cluster.running())


@pytest.fixture
def moved(sender, bucket):
    """A job whose two artefacts lie only in the bucket."""
    sender.send("a.txt", b"abcdef")
    sender.send("model/big.bin", bytes(range(256)) * 2000)
    assert artefacts_move(rest_s=0) == 2
    assert not list(store.folder(sender.attempt.job.key).iterdir())
    return sender.attempt.job


@pytest.fixture
def lena(cluster):
    client = Client()
    client.force_login(cluster.owner)
    return client


def content(answer):
    return b"".join(answer.streaming_content)


def test_what_was_brought_there_is_read_from_there_in_ranges(moved, bucket, lena):
    assert len(names(bucket)) == 2
    assert all(each.startswith(f"arte/facts/{moved.key[:2]}/{moved.key}/") for each in names(bucket))
    url = f"/api/v1/jobs/{moved.number}/artefacts/model/big.bin"
    assert content(lena.get(url)) == bytes(range(256)) * 2000
    part = lena.get(url, headers={"Range": "bytes=255-70000"})
    assert (part.status_code, content(part)) == (206, (bytes(range(256)) * 2000)[255:70001])
    tar = lena.get(f"/api/v1/jobs/{moved.number}/artefacts.tar")
    assert len(content(tar)) == int(tar["Content-Length"])
    page = lena.get(reverse("job-artefacts", args=[moved.number]), {"path": "a.txt"}).content.decode()
    assert "<code>abcdef</code>" in page


def test_it_travels_to_a_later_jobs_node(cluster, moved):
    later = Sender(cluster, cluster.running(inputs=[{"job": moved.pk, "path": "a.txt"}]))
    sha256 = Artefact.objects.get(path="a.txt").sha256
    assert ask(later, f"attempts/{later.attempt.key}/content/{sha256}").getvalue() == b"abcdef"


def test_a_large_content_goes_in_parts_and_comes_back_whole(sender, bucket, monkeypatch):
    monkeypatch.setattr(remote, "PART_BYTES", 5 * 2**20)
    row, data = Artefact(job=sender.attempt.job, path="big", rank=0, epoch=1), os.urandom(12 * 2**20)
    row.size, row.blob = len(data), store.name_new()
    row.save()
    store.append(row.job.key, row.blob, data, at=0)
    assert artefacts_move(rest_s=0) == 1
    client, name = bucket
    assert client.head_object(Bucket=name, Key=names(bucket)[0])["ETag"].strip('"').endswith("-3")
    assert b"".join(store.pieces(row.job.key, row.blob, start=0, stop=len(data))) == data


def test_what_is_removed_or_replaced_goes_from_there_too(cluster, sender, moved, bucket):
    sender.send("a.txt", b"newer", ns=2_000_000_000_000_000_000)
    assert len(names(bucket)) == 1
    artefacts_remove(job=moved, actor=cluster.owner)
    assert names(bucket) == []


def test_what_still_comes_or_is_young_stays_here(sender, bucket):
    sender.tell(("half", 6, 1))
    sender.piece("half", b"abcdef", stop=3, ns=1)
    sender.send("whole", b"abc")
    assert artefacts_move(rest_s=60) == 0
    assert artefacts_move(rest_s=0) == 1
    assert sender.piece("half", b"abcdef", start=3, ns=1)[1]["kept"]


def test_while_it_is_away_pages_say_so_and_new_files_wait_here(sender, moved, nobody, lena, caplog):
    url = f"/api/v1/jobs/{moved.number}/artefacts/a.txt"
    answer = lena.get(url)
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "store_away")
    page = lena.get(reverse("job-artefacts", args=[moved.number]), {"path": "a.txt"})
    assert (page.status_code, "does not answer" in page.content.decode()) == (200, True)
    assert lena.get(reverse("job-detail", args=[moved.number])).status_code == 200
    sender.send("c.txt", b"new")
    assert artefacts_move(rest_s=0) == 0
    assert store_state()["why"]
    assert "their store does not answer since" in store_away(None)[0]
    assert content(lena.get(url.replace("a.txt", "c.txt"))) == b"new"
    everything = caplog.text + answer.content.decode() + page.content.decode() + str(store_state())
    assert KEYS["AWS_SECRET_ACCESS_KEY"] not in everything


def test_a_removal_while_it_is_away_is_made_good_by_the_sweep(cluster, moved, bucket, server, monkeypatch):
    monkeypatch.setenv("BERTH_S3_ENDPOINT", "http://127.0.0.1:1")
    forget()
    artefacts_remove(job=moved, actor=cluster.owner)
    monkeypatch.setenv("BERTH_S3_ENDPOINT", server.url)
    forget()
    assert len(names(bucket)) == 2
    client, name = bucket
    client.put_object(Bucket=name, Key="arte/facts/zz/" + "z" * 20 + "/" + "0" * 32, Body=b"another installation's")
    client.put_object(Bucket=name, Key="notes.txt", Body=b"another's")
    assert remote_sweep() == 0  # it may be on its way: a day must pass
    monkeypatch.setattr(store, "ORPHAN_S", -5)
    assert remote_sweep() == 2
    assert len(names(bucket)) == 2


def test_it_is_not_asked_again_at_once(moved, nobody):
    row = Artefact.objects.get(path="a.txt")
    for limit_s in (30, 0.1):
        begun = time.monotonic()
        with pytest.raises(remote.StoreAway):
            store.pieces(moved.key, row.blob, start=0, stop=1)
        assert time.monotonic() - begun < limit_s


def test_what_is_gone_from_the_bucket_is_missing(moved, bucket, lena):
    client, name = bucket
    for each in names(bucket):
        client.delete_object(Bucket=name, Key=each)
    assert lena.get(f"/api/v1/jobs/{moved.number}/artefacts/a.txt").status_code == 404
    with pytest.raises(NotFound):
        store.pieces(moved.key, "0" * 32, start=0, stop=1)


def test_a_missing_bucket_is_told(sender, bucket, monkeypatch):
    monkeypatch.setenv("BERTH_S3_URL", "s3://not-there")
    sender.send("a.txt", b"abc")
    assert artefacts_move(rest_s=0) == 0
    assert store_state()["why"] == "there is no such bucket"


SENDS = """
import os, sys
from pathlib import Path
import django
django.setup()
from portal.work.artefacts import remote
remote.PART_BYTES = 5 * 2**20
from boto3.s3 import transfer
whole = transfer.TransferConfig
transfer.TransferConfig = lambda **more: whole(**{**more, "max_concurrency": 1, "max_bandwidth": 2 * 2**20})
print("sends", flush=True)
remote.send("k" * 20, "0" * 32, Path(sys.argv[1]))
"""


def test_a_kill_in_the_middle_leaves_nothing_for_ever(bucket, tmp_path, monkeypatch):
    """Kill -9 while a large content goes there in parts: no object, and the parts are given up by the sweep."""
    big = tmp_path / "big"
    big.write_bytes(os.urandom(24 * 2**20))
    root = Path(__file__).parents[4]
    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "portal.settings", "BERTH_DATA_DIR": str(tmp_path)}
    process = subprocess.Popen([sys.executable, "-c", SENDS, big], env=environment, cwd=root, stdout=subprocess.PIPE)
    client, name = bucket
    until = time.monotonic() + 120
    while not parts(client, name) and time.monotonic() < until and process.poll() is None:
        time.sleep(0.2)
    assert parts(client, name), process.poll()
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert names(bucket) == []
    with monkeypatch.context() as changed:  # moto says of every upload that it began in 2010
        changed.setattr(remote, "UNFINISHED", timedelta(days=100 * 366))
        assert remote.unfinished_drop() == 0
    assert remote.unfinished_drop() == 1
    assert not client.list_multipart_uploads(Bucket=name).get("Uploads")


def parts(client, name):
    uploads = client.list_multipart_uploads(Bucket=name).get("Uploads", ())
    return [
        part
        for each in uploads
        for part in client.list_parts(Bucket=name, Key=each["Key"], UploadId=each["UploadId"]).get("Parts", ())
    ]


@pytest.mark.parametrize("url", ["http://x/y", "s3://", "bucket", "s3://key:secret@bucket/"])
def test_an_address_that_is_none_is_refused_by_its_name(monkeypatch, url):
    monkeypatch.setenv("BERTH_S3_URL", url)
    with pytest.raises(ValueError, match="BERTH_S3_URL must be like s3://bucket"):
        remote.place()


def test_without_a_bucket_nothing_of_it_is_imported():
    code = "import django; django.setup(); import portal.urls, portal.work.artefacts.tasks, sys; print('boto3' in sys.modules)"
    environment = {k: v for k, v in os.environ.items() if k != "BERTH_S3_URL"} | {
        "DJANGO_SETTINGS_MODULE": "portal.settings"
    }
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True)
    assert told.stdout.strip() == "False"
