"""The guides as pages: all of docs/ is reachable, links lead somewhere, nothing outside docs/ is ever read."""

import re
from functools import cache
from html.parser import HTMLParser

import pytest
from django.template import Context, Template

from portal.foundation.layout import SOURCE
from portal.pages.dashboard.help.guides import DECISIONS, EVIDENCE, GUIDES, Guide, groups_for, guide_find, image_find
from portal.pages.dashboard.help.rendering import guide_render, link_of, slug_of, words
from portal.pages.dashboard.help.search import MOST_FOUND, help_search

DECIDED = [f"decisions/{path.stem}" for path in sorted(DECISIONS.glob("*.md")) if path.name != "README.md"]
SHOWN = [f"evidence/{path.stem}" for path in sorted(EVIDENCE.glob("*.md")) if path.name != "README.md"]
PAGES = [*GUIDES, *DECIDED, *SHOWN]
WORD_TAGS = re.compile(r'\{% word "([^"]+)"')


class _Links(HTMLParser):
    def __init__(self):
        super().__init__()
        self.ids, self.links, self.images, self.tags = set(), [], [], set()

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.tags.add(tag)
        self.ids |= {attrs["id"]} if "id" in attrs else set()
        self.links += [attrs["href"]] if tag == "a" else []
        self.images += [attrs["src"]] if tag == "img" else []


@cache  # links lead to the same guides again and again
def read(name):
    parser = _Links()
    parser.feed(guide_render(guide_find(name)).html)
    return parser


def test_every_document_of_docs_is_a_guide():
    shown = {guide.file for guide in GUIDES.values()}
    assert {f"docs/{path.name}" for path in (SOURCE / "docs").glob("*.md")} <= shown


def test_each_link_of_a_guide_leads_to_a_page_and_a_place_in_it(subtests):
    for name in PAGES:
        with subtests.test(name):
            page = read(name)
            assert "h1" in page.tags
            assert not page.tags & {"script", "iframe", "form"}
            assert [link for link in page.links if "://" not in link and not leads_somewhere(page, link)] == []
            assert [image for image in page.images if not image_find(image.removeprefix("/help/images/"))] == []


def leads_somewhere(page, link):
    target, _, fragment = link.partition("#")
    there = page if not target else read(target.removeprefix("/help/"))
    return not fragment or fragment in there.ids


NO_GUIDES = [
    "../README",
    "decisions/../words",
    "decisions/0059",
    "decisions/",
    "..",
    "README.md",
    "decisions/0001\n",
    "evidence/README",
    "decisions/README",
    "evidence/../words",
    "evidence/",
    "evidence/engine\n",
    "words\0",
]


def test_no_other_file_can_be_asked_for(subtests):
    for name in NO_GUIDES:
        with subtests.test(name=name):
            assert guide_find(name) is None


@pytest.mark.parametrize("name", ["../words.md", "..", "a.svg", "overview-light.png/../../words.md", "x.png"])
def test_no_other_picture_can_be_asked_for(name):
    assert image_find(name) is None


def test_html_in_a_document_stays_text(tmp_path):
    path = tmp_path / "nasty.md"
    path.write_text("# <img src=x onerror=alert(1)>\n\n<script>alert(1)</script>\n\n[a](javascript:alert(1))\n")
    nasty = Guide("nasty", str(path), "Nasty", "")  # an absolute path wins over the root
    html = guide_render(nasty).html
    assert "<script" not in html
    assert "<img" not in html
    assert 'href="javascript' not in html


def test_tables_are_whole():
    """A row behind an empty line would be a paragraph full of bars: words.md had one."""
    for name in PAGES:
        assert not re.search(r"<p>\|", guide_render(guide_find(name)).html), name


def test_a_link_to_what_the_portal_does_not_show_is_text():
    assert link_of("../portal/jobs/states.py", GUIDES["words"]) is None
    assert link_of("concepts.md#lr", GUIDES["words"]) == "/help/concepts#lr"
    assert link_of("docs/words.md", GUIDES["readme"]) == "/help/words"


def test_slugs_are_those_of_code_hosts():
    assert slug_of("8. Core tuner: CODA's (live)") == "8-core-tuner-codas-live"


# ---- search ----------------------------------------------------------------------------------------------------------


def test_a_word_is_found_first_in_the_table_of_words():
    best = help_search("sweep")[0]
    assert best.guide == "Words"
    assert best.url.startswith("/help/words#word-sweep")
    assert "<mark>" in "".join(each.excerpt for each in help_search("idle sweep"))


def test_a_section_with_any_word_of_the_question_is_found_and_those_with_more_come_first():
    assert help_search("zebrafish") == []
    assert help_search("sbatch zebrafish") == help_search("sbatch")
    best = help_search("sbatch zebrafish directive")[0]
    assert "sbatch" in best.excerpt.lower()
    assert "directive" in best.excerpt.lower()


def test_rare_words_of_a_question_count_for_more_than_common_ones():
    assert "notebook" in help_search("how can i open a notebook")[0].heading
    assert all("sbatch" in each.excerpt.lower() for each in help_search("the job is a sbatch of the")[:3])


ARCHITECTS = {"architecture", "algorithms", "agent-protocol", "bridge-protocol", "node-files", "decisions", "evidence"}


def test_tenants_are_shown_no_page_for_architects():
    everyone = {guide.name for guides in groups_for(operator=False).values() for guide in guides}
    assert everyone == GUIDES.keys() - ARCHITECTS
    assert {guide.name for guides in groups_for(operator=True).values() for guide in guides} == GUIDES.keys()
    assert all(groups_for(operator=False).values()), "no title without a guide"
    assert any(each.guide == "Algorithms" for each in help_search("quantile", operator=True))
    assert not any(each.guide == "Algorithms" for each in help_search("quantile"))


def test_any_question_is_answered_within_bounds(subtests):
    for question in ["", " ", "(", "[a-", "<script>", "a" * 5000, "e " * 5000, "\x1b[31m"]:
        with subtests.test(question=question):
            found = help_search(question)
            assert len(found) <= MOST_FOUND
            assert all("<script" not in each.excerpt for each in found)


# ---- words -----------------------------------------------------------------------------------------------------------


def test_each_word_that_a_page_explains_stands_in_the_table():
    used = {
        name.lower() for path in (SOURCE / "templates").rglob("*.html") for name in WORD_TAGS.findall(path.read_text())
    }
    assert used
    assert used <= words().keys(), used - words().keys()


def test_a_word_carries_its_meaning_and_its_place():
    html = Template('{% load berth %}{% word "lr" %}').render(Context())
    assert html.startswith('<a class="b-word" href="/help/words#word-lr')
    assert "waiting time divided by" in html
