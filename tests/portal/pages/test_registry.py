"""The registry of pages: its names, the order of its paths, and its open pages. The walk of all pages tests their readers."""

from collections import defaultdict

from django.urls import resolve

from portal.pages.registry import PAGES, SECTIONS
from research.examples import routes


def test_a_name_stands_once():
    names = [page.name for section in SECTIONS for page in section]
    assert len(names) == len(set(names)) == len(PAGES) > 90


def test_no_path_hides_another():
    """`jobs/new` is no job's page, wherever it stands."""
    names = defaultdict(lambda: "1")
    asked = [
        (route, route.path(each)) for route in routes() if route.page and route.is_read for each in route.examples()
    ]
    hidden = {path for route, path in asked if resolve(path.format_map(names).partition("?")[0]).url_name != route.name}
    assert len(asked) > 100
    assert hidden == set()


def test_only_sign_in_and_sign_out_are_open():
    assert {page.name for page in PAGES.values() if page.readers == "everyone"} == {"login", "logout"}


def test_what_acts_is_posted_and_what_is_shown_is_not():
    open_to_get = {page.name for page in PAGES.values() if page.kind == "act" and "GET" in page.methods}
    assert open_to_get == set()
    assert {page.kind for page in PAGES.values() if "POST" in page.methods} == {"act", "page"}


def test_a_section_begins_with_its_entry_in_the_navigation():
    assert [page.title for section in SECTIONS for page in section if page.menu] == [
        section[0].title for section in SECTIONS if section[0].menu
    ]
