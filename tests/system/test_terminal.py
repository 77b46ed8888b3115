"""A terminal inside a running job (story 12): from the browser to a shell that the job's shim started, and back."""

import asyncio
import json
import re
import time

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus

from tests.system.helpers.client import Tenant, rows, signed_in
from tests.system.helpers.ledger import alive
from tests.system.helpers.watching import Watch, browser_started, sign_in, until

pytestmark = [pytest.mark.system, pytest.mark.slow, pytest.mark.xdist_group("shells")]
FLOOD = "yes 0123456789012345678901234567890123456789 | head -c 30000000; echo flood-$((40+2))-over"


@pytest.fixture(scope="module")
def berth(berth_shared):
    return berth_shared


@pytest.fixture
def tenant(berth):
    return Tenant(berth)


@pytest.fixture
def job(tenant):
    number = tenant.submit("export MINE=1; touch made-by-the-job; sleep 600", name="interactive", grace_s=3)
    tenant.wait_state(number, "RUNNING")
    yield number
    if tenant.state(number) == "RUNNING":
        tenant.act(number, "cancel")


def cookie_of(berth, name):
    with signed_in(berth, name) as browser:
        return browser.cookies["sessionid"]


class Terminal:
    """One socket as the page opens it. `shown` is all that it has shown."""

    def __init__(self, berth, cookie, number, *, origin=None, query="rank=0"):
        self.url = f"ws{berth.url.removeprefix('http')}/ws/jobs/{number}/terminal?{query}"
        self.headers, self.origin = {"Cookie": f"sessionid={cookie}"}, origin or berth.url
        self.shown, self.said = bytearray(), []

    async def __aenter__(self):
        self.socket = await connect(self.url, additional_headers=self.headers, origin=self.origin, proxy=None)
        return self

    async def __aexit__(self, *_):
        await self.socket.close()

    async def hear(self):
        message = await asyncio.wait_for(self.socket.recv(), 60)
        if isinstance(message, bytes):
            self.shown += message
        else:
            self.said.append(json.loads(message))

    async def until(self, text):
        at = 0  # looked through once: each piece again would take longer than a flood
        while self.shown.find(text, at) < 0:
            at = max(0, len(self.shown) - len(text))
            await self.hear()

    async def ended(self):
        try:
            while True:
                await self.hear()
        except ConnectionClosed:
            return self.said[-1]

    async def type(self, text):
        await self.socket.send(text.encode())


def talk(coroutine):
    return asyncio.run(asyncio.wait_for(coroutine, 150))


async def shell_pid(terminal):
    """The pid that the shell itself writes; what was typed is echoed too, with `$$` as it stands there."""
    await terminal.type("echo pid-$$-\n")
    while not (found := re.search(rb"pid-([0-9]+)-", terminal.shown)):
        await terminal.hear()
    return int(found[1])


def test_the_shell_is_in_the_job_and_dies_with_it(berth, tenant, job):
    cookie = cookie_of(berth, "viktor")

    async def session():
        async with Terminal(berth, cookie, job) as terminal:
            await terminal.socket.send(json.dumps({"columns": 91, "rows": 33}))
            await terminal.type("stty size; ls made-by*; echo job-$BERTH_JOB_ID-$BERTH_GPUS\n")
            pid = await shell_pid(terminal)
            assert alive(pid)
            await asyncio.to_thread(tenant.act, job, "cancel")
            return terminal.shown, pid, await terminal.ended()

    shown, pid, end = talk(session())
    assert b"33 91" in shown
    assert b"made-by-the-job" in shown
    assert f"job-{job}-1".encode() in shown
    assert end["state"] == "ended"
    tenant.wait_state(job, "CANCELLED")
    berth.wait(lambda: not alive(pid), what="the end of the shell with its job")
    trail = rows(
        berth, "select action, target, actor_name, detail from tenants_auditevent where action like 'job.terminal%'"
    )
    mine = [each for each in trail if each[1] == f"job:{job}"]
    assert [each[0] for each in mine] == ["job.terminal", "job.terminal_end"]
    assert {each[2] for each in mine} == {"viktor"}
    assert "made-by" not in str(mine)


def test_a_flood_waits_for_who_does_not_read_and_none_of_it_is_lost(berth, job):
    """The job prints 30 MB; the browser reads nothing for a while, and another terminal of the job answers meanwhile."""
    cookie = cookie_of(berth, "viktor")

    async def session():
        async with Terminal(berth, cookie, job) as flooded, Terminal(berth, cookie, job) as other:
            await flooded.type(f"stty -echo; {FLOOD}\n")
            await asyncio.sleep(3)
            began = time.monotonic()
            await other.type("echo still-$((40+2))-here\n")
            await other.until(b"still-42-here")
            answered_s = time.monotonic() - began
            await flooded.until(b"flood-42-over")
            return answered_s, len(flooded.shown)

    answered_s, size = talk(session())
    assert size > 30_000_000
    assert answered_s < 30


def test_what_is_refused(berth, tenant, job):
    """A foreign job and a missing one, another origin, another port of this host, and no session: nothing opens."""
    own, foreign = cookie_of(berth, "viktor"), cookie_of(berth, "sofia")
    host = berth.url.rsplit(":", 1)[0]

    async def opened(cookie, number, **more):
        try:
            async with Terminal(berth, cookie, number, **more):
                return True
        except InvalidStatus:
            return False

    async def all_asked():
        return {
            "missing": await opened(own, 987654),
            "origin": await opened(own, job, origin="https://evil.example"),
            "port": await opened(own, job, origin=f"{host}:1"),
            "anonymous": await opened("none", job),
            "rank": await opened(own, job, query="rank=7"),
            "foreign": await opened(foreign, job),
            "own": await opened(own, job),
        }

    found = talk(all_asked())
    assert found.pop("own")
    assert not any(found.values()), found


def test_the_next_one_opens_after_the_agent_or_the_portal_was_killed(berth, tenant, job):
    cookie = cookie_of(berth, "viktor")

    async def echoes():
        async with Terminal(berth, cookie, job) as terminal:
            await terminal.type("echo once-$((40+2))-more; echo pid-$$-\n")
            await terminal.until(b"once-42-more")
            return True

    async def cut(kill):
        async with Terminal(berth, cookie, job) as terminal:
            pid = await shell_pid(terminal)
            await asyncio.to_thread(kill)
            await terminal.ended()
            return pid

    for name in ("agent", "portal"):
        pid = talk(cut(lambda name=name: berth.kill(name)))
        berth.wait(lambda pid=pid: not alive(pid), what="the end of a shell whose channel is gone")
        berth.wait(lambda: again(echoes), limit_s=90, what=f"a new terminal after the {name} was killed")
    assert tenant.state(job) == "RUNNING"


@pytest.mark.browser
def test_in_a_browser(berth, job):
    """Type `echo`, see it; the page's policy holds; and when the job ends the page says so."""
    watch = Watch(berth.url)
    with browser_started() as browser:
        page = browser.new_page()
        watch.on(page)
        sign_in(page, berth.url, "viktor", berth.users["viktor"]["password"])
        page.wait_for_url(f"{berth.url}/")
        page.goto(f"{berth.url}/jobs/{job}/")
        page.click("text=Terminal")
        until(page, "document.querySelector('[data-terminal-said]')?.dataset.state === 'open'")
        page.keyboard.type("echo seen-$((40+2))-here\n")
        until(page, "document.querySelector('.xterm-rows').innerText.includes('seen-42-here')")
        page.keyboard.type("exit\n")
        until(page, "document.querySelector('[data-terminal-said]').dataset.state === 'ended'")
        page.click("[data-terminal-again]")
        until(page, "document.querySelector('[data-terminal-said]').dataset.state === 'open'")
        page.keyboard.type("echo anew-$((40+2))-here\n")
        until(page, "document.querySelector('.xterm-rows').innerText.includes('anew-42-here')")
    watch.check()


def again(echoes):
    try:
        return talk(echoes())
    except (OSError, ConnectionClosed, InvalidHandshake, TimeoutError):  # it may die while it answers
        return False
