"""Sessions are named by the browser's plain name; the texts are those that browsers send."""

import pytest

from portal.pages.dashboard.people.agents import agent_words

WEBKIT = "AppleWebKit/537.36 (KHTML, like Gecko)"


@pytest.mark.parametrize(
    ("sent", "words"),
    [
        ("Mozilla/5.0 (X11; Linux x86_64; rv:145.0) Gecko/20100101 Firefox/145.0", "Firefox on Linux"),
        (f"Mozilla/5.0 (Windows NT 10.0; Win64; x64) {WEBKIT} Chrome/142.0.0.0 Safari/537.36", "Chrome on Windows"),
        (f"Mozilla/5.0 (X11; Linux x86_64) {WEBKIT} Chrome/142.0.0.0 Safari/537.36 Edg/142.0.0.0", "Edge on Linux"),
        (f"Mozilla/5.0 (Linux; Android 10; K) {WEBKIT} Chrome/142.0.0.0 Mobile Safari/537.36", "Chrome on Android"),
        (
            "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.1 Safari/605.1.15",
            "Safari on macOS",
        ),
        (
            "Mozilla/5.0 (iPhone; CPU iPhone OS 18_1 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.1 Mobile/15E148 Safari/604.1",
            "Safari on iPhone",
        ),
        ("curl/8.14.1", "curl"),
        ("", "an unknown browser"),
        ("<script>alert(1)</script>", "an unknown browser"),
    ],
)
def test_a_browser_is_told_by_its_name_and_system(sent, words):
    assert agent_words(sent) == words
