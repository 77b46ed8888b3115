"""Takes the pictures with a headless Chromium, and notes what no page may do while it is looked at."""

from __future__ import annotations

import contextlib
import shutil
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from portal.foundation.errors import LaunchError
from research.screenshots.pages import GUIDE, NOBODY, TENANT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from research.screenshots.pages import Page
    from research.screenshots.seeded import Seeded

BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "chrome")
"""By name on PATH, the first that is there. The shell is Debian's Chromium without windows: a page takes it half as much work."""
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]
DRAWN = """() => [...document.querySelectorAll(".b-plot")]
  .every((each) => !each.offsetParent || each.closest("details:not([open])") || each.childNodes.length)"""
"""Whether each plot in view has been drawn, or says that it has nothing to show."""
MEASURES = """() => {
  const parts = [...performance.getEntriesByType("navigation"), ...performance.getEntriesByType("resource")];
  return [document.querySelector("main")?.innerText.split(/\\s+/).filter(Boolean).length || 0,
    document.documentElement.scrollHeight, Math.round(parts.reduce((sum, each) => sum + each.encodedBodySize, 0) / 1000)];
}"""
"""Words of the page without its bar, its height in pixels, and the kB that it loads, as compressed as they were sent."""
SETTLE_MS, PATIENCE_MS = 1200, 60_000
VIOLATIONS = "addEventListener('securitypolicyviolation', e => console.error('CSP: ' + e.violatedDirective + ' ' + e.blockedURI))"
EXPECTED = {"not-found": ("404",)}
"""Words of console errors that a page stands for: Chromium logs each answer of 400 and above."""


@dataclass(frozen=True)
class View:
    name: str
    width: int
    height: int
    scheme: str


VIEWS = (View("light", 1440, 900, "light"), View("dark", 1440, 900, "dark"), View("phone", 390, 844, "light"))


@dataclass
class Taken:
    """The files, the faults (page and view, fault) and the measures (page and view, words, height, kB)."""

    files: list[Path] = field(default_factory=list)
    faults: list[tuple[str, str]] = field(default_factory=list)
    measures: list[tuple[str, int, int, int]] = field(default_factory=list)


def browser_find() -> str:
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        raise LaunchError("no Chromium is on PATH. Install it (`apt install chromium` on Debian) and run this again.")
    return found


def pictures_take(berth: Seeded, out: Path, say: Callable[[str], None], pages: tuple[Page, ...]) -> Taken:
    """Write OUT/NAME-VIEW.png for each page and view. Raises LaunchError without a browser or when a sign-in fails.

    Each reader has one window for all views, which has loaded and compiled our scripts once.
    """
    taken = Taken()
    with _browser() as browser:
        for reader in sorted({page.reader for page in pages}):
            tab = browser.new_context().new_page()
            tab.set_default_timeout(PATIENCE_MS)
            if reader != NOBODY:
                _sign_in(tab, berth.url, *berth.people[reader])
            at = _watched(tab, berth.url, taken)
            for view in VIEWS:
                tab.set_viewport_size({"width": view.width, "height": view.height})
                tab.emulate_media(color_scheme=view.scheme)
                for page in pages:
                    if page.reader == reader:
                        at[0] = f"{page.name}, {view.name}"
                        _take(tab, berth, page, view, out, taken)
            tab.context.close()
            say(f"{reader}: {len(taken.files)} pictures so far")
    taken.faults = [
        (where, fault)
        for where, fault in taken.faults
        if not any(word in fault for word in EXPECTED.get(where.partition(",")[0], ()))
    ]
    return taken


def guide_take(berth: Seeded, out: Path) -> list[Path]:
    """Write the guide's pictures, OUT/NAME.png: 900 pixels wide, light, only what is in view."""
    paths = [out / f"{page.name}.png" for page in GUIDE]
    with _browser() as browser:
        tab = browser.new_page(viewport={"width": 900, "height": 430}, color_scheme="light")
        tab.set_default_timeout(PATIENCE_MS)
        _sign_in(tab, berth.url, *berth.people[TENANT])
        for page, path in zip(GUIDE, paths, strict=True):
            tab.goto(berth.url + page.path.format(**berth.names), wait_until="load")
            tab.wait_for_timeout(SETTLE_MS)
            _drawn(tab)
            tab.screenshot(path=str(path))
    return paths


@contextlib.contextmanager
def _browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright  # from requirements-dev.txt, which `./berth screenshots` installs

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=browser_find(), args=ARGUMENTS)
        yield browser
        browser.close()


def _sign_in(tab: Any, url: str, username: str, password: str) -> None:
    tab.goto(f"{url}/login")
    tab.fill("#id_username", username)
    tab.fill("#id_password", password)
    tab.click("button[type=submit]")
    tab.wait_for_load_state()
    if "/login" in urlsplit(tab.url).path:
        raise LaunchError(f"{username} could not sign in at {url}")


def _watched(tab: Any, origin: str, taken: Taken) -> list[str]:
    """Note errors of the console and requests to other hosts. Returns a cell for the name of the page in view."""
    at = [""]
    host = urlsplit(origin).netloc

    def asked(request: Any) -> None:
        parts = urlsplit(request.url)
        if parts.scheme not in {"data", "blob"} and parts.netloc != host:
            taken.faults.append((at[0], f"asks another host: {request.url}"))

    def told(message: Any) -> None:
        if message.type == "error":
            taken.faults.append((at[0], message.text))

    tab.add_init_script(VIOLATIONS)
    tab.on("console", told)
    tab.on("pageerror", lambda error: taken.faults.append((at[0], f"exception: {error}")))
    tab.on("request", asked)
    return at


def _drawn(tab: Any) -> bool:
    """Wait until each plot in view is drawn. Asked from here: the pages' policy lets nothing evaluate text in them."""
    deadline = time.monotonic() + PATIENCE_MS / 1000
    while not (drawn := tab.evaluate(DRAWN)) and time.monotonic() < deadline:
        tab.wait_for_timeout(100)
    return bool(drawn)


def _take(tab: Any, berth: Seeded, page: Page, view: View, out: Path, taken: Taken) -> None:
    from playwright.sync_api import Error

    where = f"{page.name}, {view.name}"
    try:
        answer = tab.goto(berth.url + page.path.format(**berth.names), wait_until="load")
        if answer is not None and answer.status >= 400 and page.name not in EXPECTED:
            taken.faults.append((where, f"answered with {answer.status}"))
            return
        tab.wait_for_timeout(SETTLE_MS)  # plots and fragments come after the load
        tab.wait_for_selector(".htmx-request", state="detached")
        if not _drawn(tab):
            taken.faults.append((where, "a plot was not drawn"))
    except Error as error:  # no answer in time, or, in the whole browser, one without a body
        taken.faults.append((where, error.message.partition("\n")[0]))
        return
    wide = tab.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    if wide > 0 and not page.path.startswith("/api/"):
        taken.faults.append((where, f"scrolls sideways by {wide} pixels"))
    words, height_px, kb = tab.evaluate(MEASURES)
    taken.measures.append((where, words, height_px, kb))
    path = out / f"{page.name}-{view.name}.png"
    tab.screenshot(path=str(path), full_page=True)
    taken.files.append(path)
