"""A browser that remembers whatever a good page never does: console errors, policy violations, foreign requests."""

import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from tests.conftest import chromium_path
from tests.servers import stretched

MARK = "window.__not_reloaded = true"
VIOLATIONS = "addEventListener('securitypolicyviolation', e => console.error('CSP: ' + e.violatedDirective + ' ' + e.blockedURI))"


@dataclass
class Watch:
    """`expected` are words of console errors that a test causes itself (a killed portal, a wrong password)."""

    origin: str
    faults: list = field(default_factory=list)
    expected: list = field(default_factory=list)

    def on(self, page):
        page.add_init_script(VIOLATIONS)
        page.on("console", lambda message: message.type == "error" and self.faults.append(message.text))
        page.on("pageerror", lambda error: self.faults.append(f"exception: {error}"))
        page.on("request", self._request)

    def _request(self, request):
        parts = urlsplit(request.url)
        if parts.scheme in {"data", "blob"}:
            return
        if parts.netloc != urlsplit(self.origin).netloc:
            self.faults.append(f"request to {request.url}")

    def check(self):
        assert [f for f in self.faults if not any(word in f for word in self.expected)] == []


@contextmanager
def browser_started():
    from playwright.sync_api import sync_playwright  # late: without a browser this module is still imported

    with sync_playwright() as playwright:
        # Under root, and in containers, Chromium's own sandbox cannot be made.
        # One renderer for all pages: it has compiled our scripts for the first of them.
        arguments = ["--no-sandbox", "--renderer-process-limit=1"]
        browser = playwright.chromium.launch(executable_path=chromium_path(), args=arguments)
        yield browser
        browser.close()


@dataclass
class Readers:
    """People who are signed in, each once for all tests of a file.

    A sign-in in a window that has loaded nothing costs four seconds of processor time, a further page of the same one half
    a second: style sheets and scripts are there, and compiled.
    """

    browser: object
    berth: object
    slow_ms: int = 60_000
    contexts: dict = field(default_factory=dict)

    def context(self, name):
        """The window of one of the demo's people or of the operator. Its first page stays open, and its renderer with it."""
        if name not in self.contexts:
            context = self.contexts[name] = self.browser.new_context()
            context.set_default_timeout(self.slow_ms)
            page, watch = context.new_page(), Watch(self.berth.url)
            watch.on(page)
            person = self.berth.operator if name == "operator" else self.berth.users[name]
            sign_in(page, self.berth.url, name, person["password"])
            page.wait_for_url(f"{self.berth.url}/")
            page.goto(f"{self.berth.url}/livez")
            watch.check()
        return self.contexts[name]

    def page(self, name, watch):
        """A new page of theirs, with nothing kept from earlier ones but the sign-in and what was loaded. Close it."""
        context = self.context(name)
        context.pages[0].evaluate("localStorage.clear()")
        page = context.new_page()
        watch.on(page)
        return page


def sign_in(page, url, username, password):
    page.goto(f"{url}/login")
    credentials_send(page, username, password)


def credentials_send(page, username, password):
    """Fill the form of the page that is open, and wait for the answer."""
    page.fill("#id_username", username)
    page.fill("#id_password", password)
    page.click("button[type=submit]")


def until(page, expression, *, limit_s=60.0):
    """Wait until a JavaScript expression is true of the page. (Playwright's own wait needs eval, which our policy forbids.)"""
    deadline = time.monotonic() + stretched(limit_s)
    while not _true_of(page, expression):
        if time.monotonic() > deadline:
            raise AssertionError(f"never true: {expression}\n{page.inner_text('main')[:1500]}")
        page.wait_for_timeout(100)


def _true_of(page, expression):
    """Ask the page, which a navigation of its own may be replacing just now: the next one is asked then."""
    try:
        return page.evaluate(expression)
    except Exception as error:
        if "Execution context was destroyed" not in str(error):
            raise
        return False
