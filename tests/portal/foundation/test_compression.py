"""Compression, and the answers without it: those that could give a secret away and those that go out as a stream."""

import gzip
import json
import re

import pytest
from django.test import Client

from portal.foundation.middleware import StaticFiles
from portal.people.tenants.services import token_create
from tests.portal.given import node_make, operator

ZIP = {"Accept-Encoding": "gzip, deflate"}


@pytest.fixture
def client(cluster):
    client = Client(headers=ZIP)
    client.force_login(cluster.owner, backend="django.contrib.auth.backends.ModelBackend")
    return client


def encoding(answer):
    return answer.headers.get("Content-Encoding")


@pytest.mark.parametrize("path", ["/", "/cluster/", "/cluster/board", "/jobs/", "/cluster/fragments/nodes"])
def test_pages_fragments_and_figures_travel_compressed(client, path):
    for number in range(2, 30):
        node_make(f"n{number}")
    answer = client.get(path)
    assert encoding(answer) == "gzip"
    assert "Accept-Encoding" in answer.headers["Vary"]
    plain = Client()
    plain.cookies = client.cookies
    whole = plain.get(path)
    assert encoding(whole) is None
    unpacked = gzip.decompress(answer.content)
    assert unpacked[:20] == whole.content[:20]
    assert len(answer.content) < 0.6 * len(unpacked)


def test_rest_lists_travel_compressed(cluster):
    for _ in range(20):
        cluster.submit()
    _, secret = token_create(user=cluster.owner, name="t", scopes=["jobs:read"], actor=cluster.owner)
    answer = Client(headers=ZIP | {"Authorization": f"Bearer {secret}"}).get("/api/v1/jobs")
    assert encoding(answer) == "gzip"
    assert len(json.loads(gzip.decompress(answer.content))["results"]) == 20


def test_what_shows_a_secret_once_is_not(client):
    answer = client.post("/account/tokens/", {"name": "mine", "scopes": ["jobs:read"], "days": "30"})
    assert answer.status_code == 201, answer.content[:500]
    assert encoding(answer) is None


@pytest.mark.parametrize("path", ["/search?q=" + "x" * 90, "/login?next=/" + "x" * 300])
def test_what_says_again_what_a_link_asked_is_not(client, path):
    client.cookies.clear() if path.startswith("/login") else None
    answer = client.get(path)
    assert answer.status_code == 200
    assert encoding(answer) is None


def test_the_console_is_not(cluster):
    client = Client(headers=ZIP)
    client.force_login(operator(), backend="django.contrib.auth.backends.ModelBackend")
    answer = client.get("/admin/cluster/node/?q=" + "x" * 300)
    assert answer.status_code == 200
    assert encoding(answer) is None


def test_a_stream_goes_out_as_it_comes(client, cluster):
    job = cluster.running().job
    answer = client.get(f"/jobs/{job.pk}/log/download?stream=stdout")
    assert (answer.status_code, answer.streaming) == (200, True)
    assert encoding(answer) is None


def test_a_static_file_is_compressed_under_the_name_that_pages_ask_for_and_no_other(tmp_path):
    (tmp_path / "a.js").write_text("let a = 1;\n" * 100)
    storage = StaticFiles(location=tmp_path, base_url="/static/")
    list(storage.post_process({"a.js": (storage, "a.js")}))
    name = storage.stored_name("a.js")
    assert re.fullmatch(r"a\.[0-9a-f]{12}\.js", name)
    assert {path.name for path in tmp_path.iterdir()} == {"a.js", name, f"{name}.gz", "staticfiles.json"}
