"""No page shows a tenant the scheduler's own words: all pages of the registry are read as the owner of jobs in all states."""

import pytest

from portal.work.jobs.models import Job
from portal.work.jobs.states import JobState
from research.examples import routes
from scheduler.model import Reason
from tests.portal.access.plain import banned_in
from tests.portal.access.safe import is_page

pytestmark = pytest.mark.django_db

EXCEPTED = {
    "help found",
    "help-guide",
    "laboratory-new",
    "laboratory-detail",
    "laboratory-compare",
    "planning-detail",
    "rounds",
    "rounds-metrics",
}
"""Pages about the words themselves: the guides; the laboratory, which tries the rules of the scheduler; and its figures, to which
*The scheduler's figures* of a job lead."""


def read(world, route, example):
    answer = world.ask("owner", "page", "GET", route.path(example).format_map(world.names))
    return answer.content.decode() if answer.status_code == 200 and not answer.streaming and is_page(answer) else None


def pages():
    return [route for route in routes() if route.page and route.is_read and route.page.readers != "operators"]


def test_no_page_shows_a_word_of_the_scheduler(world, subtests):
    shown = 0
    for route in pages():
        for example in route.examples():
            if {route.name, route.name + example.label} & EXCEPTED:
                continue
            if (html := read(world, route, example)) is not None:
                shown += 1
                with subtests.test(page=route.name + example.label):
                    assert banned_in(html) == []
    assert shown >= 20


def test_excepted_pages_are_pages():
    every = {name for route in pages() for each in route.examples() for name in (route.name, route.name + each.label)}
    assert every >= EXCEPTED


LISTS = {"job-list", "queue", "search", "job-compare"}


def assert_lists_plain(world):
    for route in (route for route in pages() if route.name in LISTS):
        for example in route.examples():
            assert banned_in(read(world, route, example) or "") == [], route.name


@pytest.mark.parametrize("code", [*map(str, Reason)])
def test_no_reason_is_shown_by_its_code(world, code):
    Job.objects.filter(pk=world.names["waiting"]).update(reason=code, reason_figures={})
    assert_lists_plain(world)


@pytest.mark.parametrize("state", [*map(str, JobState)])
def test_no_state_is_shown_by_a_word_of_the_scheduler(world, state):
    Job.objects.filter(pk__in=[world.names["waiting"], world.names["failed"]]).update(state=state, exit_code=1)
    assert_lists_plain(world)


def test_what_is_banned_is_found_and_what_is_typed_is_not():
    assert banned_in("<p title='gpus-scattered'>4 free, but on two nodes <code>stdout</code></p>") == []
    assert banned_in("<button aria-label='Browse artefacts'></button>")
    for words in ("LR 0.2", "needs {4, 8} GPUs", "outside-window", "planning 432", "3 idle GPUs", "it is idle"):
        assert banned_in(f"<p>{words}</p>"), words
    for words in ("idle GPU hours", "4 or 8 GPUs", "held, idle 12 min", "about 15:12"):
        assert banned_in(f"<p>{words}</p>") == [], words
    fold = "<details><summary><strong>{}</strong></summary>LR 0.2</details>"
    assert banned_in(fold.format("The scheduler's figures")) == []
    assert banned_in(fold.format("Limits"))
