"""Tables that a phone shows whole: in a browser of its width, with our style sheets, without a server."""

import pytest
from django.template import Context, Template
from django.template.loader import render_to_string

from portal.foundation.layout import SOURCE
from tests.system.helpers.watching import browser_started

pytestmark = [pytest.mark.system, pytest.mark.browser, pytest.mark.slow]
PHONE = {"width": 390, "height": 844}
SHEETS = ("tokens", "berth", "controls", "data", "pages", "home", "calm")
HIDDEN = "[...document.querySelectorAll('.b-table-wrap')].map((wrap) => wrap.scrollWidth - wrap.clientWidth)"
SPEED = {
    "number": 12,
    "gpus": 16,
    "measured": 12_354.3,
    "iterations": 1_206,
    "lost": 1_024,
    "predicted": 21_138.5,
    "source": "modelled from profiled times",
    "deviation": -0.608,
}


def shown(browser, card):
    css = "".join((SOURCE / f"static/css/{name}.css").read_text() for name in SHEETS)
    page = browser.new_page(viewport=PHONE)
    page.set_content(
        f'<meta name="viewport" content="width=device-width"><style>{css}</style>'
        f'<body><main class="b-page"><section class="b-card">{card}</section></main></body>'
    )
    return page


def test_the_table_of_speeds_fits_a_phone():
    card = render_to_string("jobs/parts/_speed.html", {"job": {"speed": {"rows": [SPEED], "facts": [], "empty": ""}}})
    with browser_started() as browser:
        page = shown(browser, card)
        assert "\u221260.8" in page.inner_text("table")
        assert page.evaluate(HIDDEN) == [0], "pixels of the table that lie outside of its card"


def test_an_event_of_a_node_keeps_its_reason_and_who_on_a_phone():
    event = {"at": None, "node": "a100-01", "text": "Taken out: a loud fan.", "by": "ops"}
    with browser_started() as browser:
        page = shown(browser, render_to_string("cluster/_events.html", {"events": [event], "named": True}))
        assert page.inner_text("li .b-grow").split("\n") == ["a100-01: Taken out: a loud fan.", "by ops"]
        path = {"text": f"Its agent has a problem: not sent: /var/{'1a135a4eb3ba49c1' * 8}stdout."}
        wide = shown(browser, render_to_string("cluster/_events.html", {"events": [event | path]}))
        for width in (PHONE["width"], 900):
            wide.set_viewport_size({"width": width, "height": 800})
            assert wide.evaluate("document.documentElement.scrollWidth") == width
        page.set_viewport_size({"width": 1200, "height": 800})
        assert page.inner_text("li .b-grow") == "a100-01: Taken out: a loud fan."
        assert page.get_attribute("li .b-grow", "title") == "by ops"


def test_why_a_node_is_drained_fits_a_phone():
    word = f"drained: fan of GPU 3 is loud, technician comes on Friday, see /srv/{'1a135a4eb3ba49c1' * 4}"
    head = Template('{% load berth %}<div class="b-head"><h1>rtx-02</h1>{% health "drained" word %}</div>')
    with browser_started() as browser:
        page = shown(browser, head.render(Context({"word": word})))
        assert page.evaluate("document.documentElement.scrollWidth") == PHONE["width"]
        assert page.inner_text(".b-state") == word
