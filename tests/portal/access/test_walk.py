"""Every route of Django's resolver, each method, as each cast (architecture, invariant 8; reliability, "Security").

A route or method that the table does not know fails, and a row without its route fails too.
"""

from collections import Counter
from functools import partial

import pytest
from django.urls import reverse

from portal.pages.registry import PAGES as REGISTERED
from portal.work.jobs.models import Job
from research.examples import routes
from tests.portal.access.routes import METHODS, filled, path_of
from tests.portal.access.rows import AGENTS, PAGES, REST, TABLE, Row
from tests.portal.access.safe import assert_safe, is_page
from tests.portal.access.world import CASTS

pytestmark = pytest.mark.django_db

LISTED = {row.route for row in TABLE}


def test_every_route_is_in_the_table_and_every_row_has_its_route():
    names = Counter(route.name for route in routes() if not route.name.startswith("admin:"))
    assert set(names) == LISTED
    assert set(names.values()) == {1}, "two patterns of one name: one of them would go untested"


def test_an_unlisted_route_is_noticed(settings):
    """The check above is no tautology: the resolver of a portal with one more page has one more name."""
    settings.ROOT_URLCONF = "tests.portal.access.urls_with_one_more"
    assert {route.name for route in routes()} - LISTED - {"admin:"} >= {"forgotten"}


def assert_registered(row, path, answer):
    """A page of the registry is a whole one with a title, and a part is none: axe and the camera look at pages only."""
    if (row.method, answer.status_code) != ("GET", 200):
        return
    whole = answer.content.lstrip().lower().startswith(b"<!doctype html")
    is_page_of_ours = row.route in REGISTERED and REGISTERED[row.route].kind == "page" and "fragment=" not in row.query
    assert whole == (is_page_of_ours or row.route == "api-docs"), path
    assert b"<title>Berth</title>" not in answer.content, path


def jobs_now():
    return list(Job.objects.order_by("pk").values_list("pk", "state", "priority", "epoch"))


def assert_jobs_are(before, path):
    assert jobs_now() == before, f"GET {path} changed a job"


@pytest.mark.usefixtures("offers_known")
@pytest.mark.parametrize("table", [PAGES, REST, AGENTS], ids=["pages", "rest", "agents"])
def test_each_row_as_each_cast(request, table):
    """What is a page is safe (safe.py), whoever it is for, beside jobs that are full of markup. No GET changes a job."""
    world = request.getfixturevalue("loud" if table is PAGES else "world")
    wrong, pages, escaped, jobs = [], 0, 0, jobs_now()
    for row in table:
        path, body = path_of(row, world.names), filled(row.body, world.names)
        for cast, expected in zip(CASTS, row.expected, strict=True):
            then = partial(assert_jobs_are, jobs, path) if row.method == "GET" else None
            answer = world.ask(cast, row.door, row.method, path, body, then)
            if not answer.streaming and is_page(answer):
                assert_safe(path, answer)
                assert_registered(row, path, answer)
                assert cast not in {"owner", "teammate"} or b"foreign-waits" not in answer.content, path
                pages += 1
                escaped += b"&lt;script&gt;alert(" in answer.content
            if answer.status_code != expected:
                wrong.append(f"{row.method} {path} as {cast}: {answer.status_code}, expected {expected}")
            elif row.door == "page" and expected == 302 and cast in {"anonymous", "node"} and row.route not in FREE:
                assert answer.url.startswith(f"{reverse('login')}?next=/"), path
            elif expected == 302 and cast not in {"anonymous", "node"} and row.route != "logout":
                assert not answer.url.startswith(reverse("login")), path
    assert wrong == []
    assert table is not PAGES or (pages > 600 and escaped > 50)


FREE = {"login", "logout"}
OTHER_METHODS = {
    # Django's sign-in form takes PUT for POST; and these describe themselves on OPTIONS to whoever may ask.
    ("login", "PUT"),
    ("login", "OPTIONS"),
    ("logout", "OPTIONS"),
    ("api-schema", "OPTIONS"),
    ("api-docs", "OPTIONS"),
}


def test_a_method_that_is_not_in_the_table_is_not_answered(world):
    known = {(row.route, row.method) for row in TABLE} | OTHER_METHODS
    first: dict[str, Row] = {}
    for row in TABLE:
        first.setdefault(row.route, row)
    answered = []
    for row in first.values():
        path = path_of(row, world.names)
        # The sign-in page sends on whoever is signed in, whatever the method.
        cast = "node" if row.door == "agent" else "anonymous" if row.route == "login" else "operator"
        cast = "bridge" if row.route in {"bridge-exchange", "bridge-history"} else cast
        for method in METHODS:
            if (row.route, method) in known:
                continue
            answer = world.ask(cast, row.door, method, path)
            if answer.status_code != 405:
                answered.append(f"{method} {path}: {answer.status_code}")
    assert answered == []


def test_head_opens_nothing_that_get_does_not(world):
    """Pages answer GET only; the REST API answers HEAD as GET, without the body. Of those who may GET one is asked."""
    for row in TABLE:
        if row.method != "GET" or row.expected[0] != 200:
            continue
        each = zip(CASTS, row.expected, strict=True)
        for cast, expected in (given for given in each if given[1] != 200 or given[0] == CASTS[0]):
            answer = world.ask(cast, row.door, "HEAD", path_of(row, world.names))
            assert answer.status_code in {expected, 405}, (row, cast)
