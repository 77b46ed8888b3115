"""What errors and the console carry as every page of the walk does; no answer is taken for a page or leads to another site."""

import csv
import io
import json
import os
import re
import subprocess
import sys
from functools import partial
from urllib.parse import quote, urljoin, urlsplit

import pytest
from django.contrib import admin
from django.test import Client
from django.urls import reverse

from portal.foundation.layout import SOURCE
from portal.work.jobs.services.submission import job_submit
from tests.portal.access.routes import path_of
from tests.portal.access.rows import REST
from tests.portal.access.safe import BREAK_OUT, RAW, SHOUT, assert_safe, is_page
from tests.portal.access.world import savepoint, send

pytestmark = pytest.mark.django_db

ERRORS = ["/no/such/page", "/jobs/x/", "/rounds/?page=x", "/jobs/?sort=x", "/cluster/nowhere/", "/api/nothing"]


REST_PAGES = {"api-docs"}
"""What of REST is a page."""


def console_paths(world):
    index = reverse("admin:index")  # with the first address the models are registered
    paths = [reverse(f"admin:{m._meta.app_label}_{m._meta.model_name}_changelist") for m in admin.site._registry]
    return [*paths, index, reverse("admin:jobs_job_change", args=[world.names["zebra-name"]])]


def test_errors_and_the_console_are_safe(loud):
    """The pages of the table are in the walk, as each cast."""
    for cast, least in (("operator", 20), ("owner", 3), ("anonymous", 1)):
        checked = 0
        for path in ERRORS + console_paths(loud):
            answer = loud.ask(cast, "page", "GET", path)
            if is_page(answer):
                assert_safe(path, answer)
                checked += 1
        assert checked >= least, cast


def test_a_running_and_a_waiting_job_and_a_search_show_markup_as_text(loud):
    """The walk opens pages of the running one only, and searches for no markup."""
    for number in (loud.names["loud-0"], loud.names["loud-8"]):
        for path in (f"/jobs/{number}/", f"/jobs/new?from={number}", f"/search?q={SHOUT}"):
            answer = loud.ask("owner", "page", "GET", path)
            assert "&lt;script&gt;alert(" in answer.content.decode(), path
            assert_safe(path, answer)


def test_rest_answers_a_browser_with_no_page_but_its_document(world):
    """As who is signed in asks, so that its pages are all among those that are looked at."""
    found = set()
    for row in (row for row in REST if row.method == "GET"):
        answer = world.ask("operator", "page", "GET", path := path_of(row, world.names))
        if not answer.streaming and is_page(answer):
            found.add(row.route)
            assert_safe(path, answer)
    assert found == REST_PAGES


SECONDS = """
import importlib, json, os, sys
found = []
for base_url, hsts_s in json.loads(sys.argv[1]):
    os.environ |= {"BERTH_BASE_URL": base_url, "BERTH_HSTS_S": hsts_s}
    import portal.settings
    found.append(importlib.reload(portal.settings).SECURE_HSTS_SECONDS)
print(json.dumps(found))
"""


def test_with_tls_there_is_a_time_for_which_browsers_stay_with_it(tmp_path):
    """2 592 000 s if the operator says nothing; none without TLS."""
    told = {
        ("https://berth.example", ""): 2_592_000,
        ("https://berth.example", "600"): 600,
        ("https://berth.example", "0"): 0,
        ("http://berth.example", ""): 0,
    }
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", SECONDS, json.dumps([*told])],
        cwd=SOURCE,
        env={"PATH": os.environ["PATH"], "BERTH_DATA_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(done.stdout) == [*told.values()]


@pytest.mark.parametrize(
    ("seconds", "secure", "told"), [(600, True, "max-age=600"), (600, False, None), (0, True, None)]
)
def test_browsers_are_told_to_stay_with_tls(settings, seconds, secure, told):
    settings.SECURE_HSTS_SECONDS = seconds
    assert Client().get("/api/nothing", secure=secure).headers.get("Strict-Transport-Security") == told


def test_json_and_downloads_cannot_be_taken_for_pages(world):
    for path in ("/jobs/csv", f"/jobs/{world.names['zebra-name']}/log/download", "/healthz", "/api/v1/jobs"):
        answer = world.ask("owner", "page", "GET", path)
        assert answer.headers["X-Content-Type-Options"] == "nosniff", path
        assert not answer.headers["Content-Type"].startswith("text/html"), path


# ---- what tenants write ----------------------------------------------------------------------------------------------


def test_what_was_typed_comes_back_escaped(world):
    form = [("name", SHOUT.replace("'", "%27")), ("command", BREAK_OUT.replace("'", "%27")), ("gpus", "-1")]
    for path in ("/jobs/new", "/jobs/plan", "/account/tokens/"):
        answer = world.ask("owner", "page", "POST", path, form)
        assert answer.status_code in {200, 400}, path
        assert not [raw for raw in RAW if raw in answer.content.decode()], path
    answer = world.ask(
        "anonymous", "page", "POST", "/login?next=/%22%3E" + SHOUT, [("username", SHOUT), ("password", "x")]
    )
    assert not [raw for raw in RAW if raw in answer.content.decode()]


@pytest.mark.parametrize("start", ["=", "+", "-", "@"])
def test_a_cell_that_begins_like_a_formula_is_defused(world, start):
    name = f"{start}HYPERLINK(A1)"
    job_submit(user=world.users["owner"], description={"name": name, "command": "true"})
    text = world.ask("owner", "page", "GET", "/jobs/csv").getvalue().decode()
    cells = [cell for row in csv.reader(io.StringIO(text)) for cell in row]
    assert f"'{name}" in cells
    assert not [cell for cell in cells if cell.startswith(("=", "+", "@", "\t")) or re.match(r"-[^0-9]", cell)]


# ---- no way to another site ------------------------------------------------------------------------------------------

ELSEWHERE = (
    "https://evil.example",
    "//evil.example",
    "///evil.example",
    "/\\evil.example",
    "\\\\evil.example",
    "https:evil.example",
    "http:///evil.example",
    "javascript:alert(1)",
    "data:text/html,x",
    "/%09/evil.example",
    "\t//evil.example",
    "https://testserver@evil.example",
    "https://testserver.evil.example",
)


def asks(there):
    """(cast, method, path, form, referer) of everything that takes an address to go on to."""
    sign_in = [("username", "operator"), ("password", "correct+horse+battery"), ("next", quote(there))]
    return [
        ("anonymous", "POST", "/login", sign_in, None),
        ("anonymous", "POST", f"/login?next={quote(there)}", sign_in[:2], None),
        ("owner", "GET", f"/login?next={quote(there)}", None, None),
        ("anonymous", "GET", f"/admin/login/?next={quote(there)}", None, None),
        ("operator", "GET", f"/admin/login/?next={quote(there)}", None, None),
        ("owner", "POST", "/logout", [("next", quote(there))], None),
        ("owner", "POST", "/jobs/bulk", [("action", "cancel"), ("next", quote(there))], None),
        ("operator", "POST", "/cluster/big/drain", [("reason", "x")], there),
    ]


def test_no_redirect_leads_away(world):
    for there in ELSEWHERE:
        for cast, method, path, form, referer in asks(there):
            client = Client()
            client.cookies.update(world.clients[cast].cookies)
            headers = {"Referer": referer} if referer else None
            answer = savepoint(partial(send, client, method, path, form, headers))
            assert answer.status_code == 302, (path, there)
            landed = urlsplit(urljoin("http://testserver/", answer.url.replace("\\", "/")))
            assert (landed.scheme, landed.netloc) == ("http", "testserver"), (path, answer.url)


def test_an_address_of_ours_is_gone_on_to(world):
    """The check above is none of a door that is nailed shut."""
    form = [("username", "operator"), ("password", "correct+horse+battery"), ("next", "/jobs/")]
    assert world.ask("anonymous", "page", "POST", "/login", form).url == "/jobs/"
