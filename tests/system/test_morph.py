"""A live update moves the rows that stay, and makes none of them anew (static/js/morph.js): in a browser, without a server."""

import random

import pytest

from portal.foundation.layout import SOURCE
from tests.system.helpers.watching import browser_started

pytestmark = [pytest.mark.system, pytest.mark.browser, pytest.mark.slow]
ROW = '<tr data-job="{0}"><td><input type="checkbox" value="{0}"></td><td>{1}</td><td><a href="/jobs/{0}/">#{0}</a></td></tr>'
SHOW = "html => { document.getElementById('part').innerHTML = html; document.querySelectorAll('tr').forEach((row) => { row.first = row.dataset.job; }); }"
SWAP = "html => Berth.swap(document.getElementById('part'), html)"
MADE = (
    "[...document.querySelectorAll('tr')].filter((row) => row.first !== row.dataset.job).map((row) => row.dataset.job)"
)


def table(jobs):
    return f"<table><tbody>{''.join(ROW.format(*job) for job in jobs)}</tbody></table>"


def test_rows_keep_being_themselves_whatever_comes_goes_and_changes_places():
    scripts = [*(SOURCE / "static/vendor/idiomorph").rglob("*.js"), SOURCE / "static/js/morph.js"]
    with browser_started() as browser:
        page = browser.new_page()
        page.set_content('<div id="part"></div>')
        page.add_script_tag(content="window.Berth = { prepare() {}, enhance() {} };")
        for script in scripts:
            page.add_script_tag(path=script)
        for seed in range(20):
            lot = random.Random(seed)
            before = [(number, "Running") for number in range(12)]
            after = [(number, "Completed") for number, _ in before if lot.random() < 0.7]
            come = [(number, "Pending") for number in range(100, 100 + lot.randint(0, 8))]
            after += come
            lot.shuffle(after)
            page.evaluate(SHOW, table(before))
            page.evaluate(SWAP, table(after))
            assert sorted(page.evaluate(MADE)) == sorted(str(number) for number, _ in come)
