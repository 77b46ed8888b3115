"""A page whose reader chose a time zone that this browser does not know still works, in the browser's own zone."""

import pytest

from portal.foundation.layout import SOURCE
from tests.system.helpers.watching import browser_started

pytestmark = [pytest.mark.system, pytest.mark.browser, pytest.mark.slow]
AT = '<time datetime="2026-07-01T12:00:00+00:00" data-format="bare-clock"></time>'


def test_times_are_shown_whatever_the_zone_is_called():
    with browser_started() as browser:
        for zone, clock in (("Asia/Tokyo", "21:00"), ("America/Nowhere", "08:00"), ("", "08:00")):
            page = browser.new_context(timezone_id="America/New_York").new_page()
            page.set_content(f'<html data-zone="{zone}"><body>{AT}</body></html>')
            page.add_script_tag(path=SOURCE / "static/js/base.js")
            page.evaluate("Berth.enhance(document)")
            assert page.locator("time").inner_text() == clock
            page.context.close()
