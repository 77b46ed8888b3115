"""The headers that pass between a browser and a job's server, and the requests that may pass at all."""

import pytest

from portal.pages.dashboard.ports.headers import COOKIE, Origin, cookie_of, may_ask, to_browser, to_job

OURS = Origin("https", "41-8888.jobs.org", 8888)
HTTPS = b"https://41-8888.jobs.org"


def test_nothing_of_the_portal_and_no_hop_reaches_the_job():
    sent = [
        (b"host", b"41-8888.jobs.org"),
        (b"cookie", f"a=1; {COOKIE}=secret".encode()),
        (b"Cookie", b"__host-Berth-port=2; b=x=y; =3"),
        (b"connection", b"close, X-Own, Content-Length"),
        (b"x-own", b"1"),
        (b"transfer-encoding", b"chunked"),
        (b"te", b"trailers"),
        (b"upgrade", b"h2c"),
        (b"proxy-authorization", b"Basic x"),
        (b"x-forwarded-for", b"10.0.0.1"),
        (b"X-Forwarded-Host", b"evil"),
        (b"forwarded", b"for=1"),
        (b"expect", b"100-continue"),
        (b"sec-websocket-key", b"x"),
        (b"origin", HTTPS),
        (b"referer", HTTPS + b"/lab?x"),
        (b"authorization", b"token own"),
        (b"content-length", b"3"),
    ]
    assert sorted(to_job(sent, OURS)) == [
        (b"authorization", b"token own"),
        (b"content-length", b"3"),
        (b"cookie", b"a=1; b=x=y"),
        (b"host", b"localhost:8888"),
        (b"origin", b"http://localhost:8888"),
        (b"referer", b"http://localhost:8888/lab?x"),
        (b"x-forwarded-host", b"41-8888.jobs.org"),
        (b"x-forwarded-proto", b"https"),
    ]


def test_a_foreign_address_is_passed_as_it_is():
    for value in (b"https://evil.org", b"null", HTTPS + b".evil.org", HTTPS + b":1"):
        assert (b"origin", value) in to_job([(b"origin", value)], OURS)


def test_a_job_sets_cookies_for_its_own_name_and_nothing_that_outlives_it():
    said = [
        (b"Content-Type", b"text/html"),
        (b"Set-Cookie", b"own=1; Path=/; HttpOnly"),
        (b"Set-Cookie", b"wide=1; domain=.jobs.org"),
        (b"set-cookie", b"wide=1; Path=/;  Domain = jobs.org"),
        (b"Set-Cookie", b"__HOST-Berth-port=1; Path=/; Secure"),
        (b"Set-Cookie", b" =__Host-berth-port=1; Path=/; Secure"),
        (b"Strict-Transport-Security", b"max-age=1"),
        (b"Clear-Site-Data", b'"cookies"'),
        (b"Service-Worker-Allowed", b"/"),
        (b"Alt-Svc", b"h2=x"),
        (b"Connection", b"keep-alive, x-hop"),
        (b"X-Hop", b"1"),
        (b"Location", b"http://localhost:8888/tree"),
    ]
    assert to_browser(said, OURS, empty=False) == [
        (b"Content-Type", b"text/html"),
        (b"Location", b"/tree"),
        (b"set-cookie", b"own=1; Path=/; HttpOnly"),
    ]
    assert to_browser([(b"Content-Length", b"3")], OURS, empty=True) == []
    for elsewhere in (b"http://localhost:88881/", b"https://evil.org/", b"/tree"):
        assert to_browser([(b"Location", elsewhere)], OURS, empty=False) == [(b"Location", elsewhere)]


@pytest.mark.parametrize(
    ("origin", "site", "may"),
    [
        (None, b"same-origin", True),
        (None, b"none", True),
        (None, b"same-site", False),
        (None, b"cross-site", False),
        (None, None, False),
        (HTTPS, None, True),
        (HTTPS, b"same-origin", True),
        (HTTPS, b"same-site", False),
        (b"null", b"same-origin", False),
        (b"http://41-8888.jobs.org", None, False),
        (b"https://42-8888.jobs.org", None, False),
    ],
)
def test_only_a_page_of_this_origin_asks(origin, site, may):
    sent = [(b"origin", origin)] * bool(origin) + [(b"sec-fetch-site", site)] * bool(site)
    assert may_ask(sent, OURS) is may


def test_our_cookie_counts_once():
    assert cookie_of([(b"cookie", f"a=1; {COOKIE}=x".encode())]) == "x"
    assert cookie_of([(b"cookie", f"{COOKIE}=x; {COOKIE}=y".encode())]) == ""
