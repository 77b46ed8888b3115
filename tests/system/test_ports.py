"""Ports of jobs in the browser: a real Chromium, one person signed in to the portal and to two jobs, and others without a right."""

import contextlib
import json
import socket
import time
from pathlib import Path

import httpx2
import pytest

from portal.launch.broker import free_port
from tests.servers import stretched
from tests.system.helpers import served
from tests.system.helpers.client import Tenant, rows

pytestmark = [pytest.mark.system, pytest.mark.slow, pytest.mark.browser, pytest.mark.xdist_group("looks")]
PATIENCE_S = 60
SCRIPT = Path(served.__file__).read_text()
SOCKET = """(words) => new Promise(done => {
  const socket = new WebSocket(`ws://${location.host}/socket`, ["first", "second"]), heard = [];
  socket.binaryType = "arraybuffer";
  socket.onopen = () => { heard.push(socket.protocol); for (const each of words) socket.send(each);
    socket.send(new Uint8Array([0, 255])); socket.send(new Uint8Array(300000)); socket.send("close"); };
  socket.onmessage = event => heard.push(typeof event.data === "string" ? event.data : event.data.byteLength);
  socket.onclose = event => done([heard, event.code, event.reason]);
})"""
STAYS_OPEN = """() => new Promise(done => {
  window.socket = new WebSocket(`ws://${location.host}/socket`);
  window.ended = new Promise(ended => { socket.onclose = event => ended([event.code, event.reason]); });
  socket.onopen = () => done(true);
})"""
ATTACK = """async ([portal, other, number]) => {
  const tried = async act => { try { return await act(); } catch (error) { return error.name; } };
  const post = {method: "POST", credentials: "include", mode: "no-cors", body: new URLSearchParams({by: "60"})};
  const socket = address => new Promise(done => {
    const made = new WebSocket(address);
    made.onopen = () => done("opened"); made.onerror = () => done("refused"); });
  const frame = address => new Promise(done => {
    const made = document.createElement("iframe"); made.src = address;
    made.onload = () => { try { done(made.contentDocument ? "readable" : "closed"); } catch { done("closed"); } };
    document.body.append(made); });
  const window_of = async address => {
    const made = window.open(address);
    await new Promise(done => setTimeout(done, 3000));
    try { return made.document.body.innerText; } catch (error) { return error.name; } finally { made.close(); } };
  document.cookie = "sessionid=forged; Path=/; Domain=" + location.hostname.split(".").slice(-2).join(".");
  document.cookie = "sessionid=forged; Path=/; Domain=" + location.hostname.split(".").slice(1).join(".");
  return {
    opener: String(window.opener),
    read: await tried(async () => (await fetch(portal + "/jobs/", {credentials: "include"})).status),
    rest: await tried(async () => (await fetch(portal + "/api/v1/jobs", {credentials: "include"})).status),
    cancel: await tried(async () => (await fetch(`${portal}/jobs/${number}/cancel`, post)).type),
    link: await tried(async () => (await fetch(`${portal}/jobs/${number}/ports/1`, {credentials: "include"})).status),
    frame: await frame(portal + "/jobs/"),
    live: await socket(portal.replace("http", "ws") + "/ws/live"),
    window: await window_of(portal + "/jobs/"),
    other_read: await tried(async () => (await fetch(other + "/attack-read", {credentials: "include"})).status),
    other_post: await tried(async () => (await fetch(other + "/attack-post", {...post})).type),
    other_frame: await frame(other + "/attack-frame"),
    other_socket: await socket(other.replace("http", "ws") + "/socket"),
    other_window: await window_of(other + "/attack-window"),
    worker: await tried(async () => String(await navigator.serviceWorker.register("/worker.js"))),
  };
}"""


@pytest.fixture(scope="module")
def berth(berth_shared):
    return berth_shared


@pytest.fixture(scope="module")
def tenant(berth):
    return Tenant(berth)


def serve(tenant, **more):
    """(number, port) of a job that serves, once its node has reported the port."""
    port = free_port()
    files = {"served.py": SCRIPT}
    number = tenant.submit(f"exec $BERTH_PYTHON served.py {port}", name="serves", gpus=0, cores=1, files=files, **more)
    tenant.wait_state(number, "RUNNING")
    told = f"select ports from jobs_allocation where released_at is null and ports = '[{port}]'"
    tenant.berth.wait(lambda: rows(tenant.berth, told), limit_s=PATIENCE_S)
    return number, port


@pytest.fixture(scope="module")
def jobs(tenant):
    """Two jobs that serve, of one tenant."""
    made = [serve(tenant), serve(tenant)]
    yield made
    for number, _ in made:
        if tenant.state(number) == "RUNNING":
            tenant.act(number, "cancel")


def host(berth, number, port):
    return f"{number}-{port}.localhost:{berth.port}"


def open_port(context, berth, number, port):
    """A page of that port, signed in as its button does it."""
    page = context.new_page()
    page.goto(f"{berth.url}/jobs/{number}/ports/{port}")
    page.wait_for_url(f"http://{host(berth, number, port)}/")
    return page


def seen(page):
    return page.evaluate("fetch('/seen').then(answer => answer.json())")


def asked(berth, number, port, path="/", *, cookie="", **headers):
    """Ask without a browser, as somebody who has a cookie does."""
    own = {"Host": host(berth, number, port), "Sec-Fetch-Site": "none", "Sec-Fetch-Mode": "navigate"}
    sent = {**own, **({"Cookie": cookie} if cookie else {}), **headers}
    return httpx2.get(f"{berth.url}{path}", headers=sent, timeout=stretched(PATIENCE_S))


def cookie_of(context, berth, number, port):
    found = context.cookies(f"http://{host(berth, number, port)}/")
    return "; ".join(f"{each['name']}={each['value']}" for each in found)


def test_a_port_opens_from_its_job_and_carries_what_browsers_send(berth, readers_shared, jobs):
    number, port = jobs[0]
    context = readers_shared.context("viktor")
    page = context.new_page()
    page.goto(f"{berth.url}/jobs/{number}/")
    with context.expect_page() as opened:
        page.get_by_role("link", name=f"Open port {port}").click()
    page.close()
    page = opened.value
    page.wait_for_url(f"http://{host(berth, number, port)}/")
    assert page.inner_text("h1") == "served by the job"
    (ours,) = (each for each in context.cookies(page.url) if each["name"].startswith("__Host-"))
    assert (ours["secure"], ours["httpOnly"], ours["sameSite"], ours["path"]) == (True, True, "Strict", "/")
    page.evaluate("fetch('/cookies')")
    assert page.evaluate("document.cookie") == "own=1", "one for its own name stays, one with a domain does not"
    assert cookie_of(context, berth, number, port).count("__Host-berth-port") == 1
    assert ours["value"] in cookie_of(context, berth, number, port), "the job sets none of ours"
    told = seen(page)
    assert [each["path"] for each in told if "sign-in" in each["path"]] == []
    page.evaluate("fetch('/again')")
    headers = seen(page)[-1]["headers"]
    assert headers["cookie"] == "own=1"
    assert headers["host"] == f"localhost:{port}"
    assert headers["x-forwarded-host"] == host(berth, number, port)
    assert not {"authorization", "x-csrftoken"} & set(headers)
    assert page.evaluate(SOCKET, ["hé"]) == [["second", "hé", 2, 300_000], 4321, "as asked"]
    post = "fetch('/', {method: 'POST', body: new Uint8Array(12000000)}).then(answer => answer.text())"
    assert page.evaluate(post) == "12000000"
    big = "fetch('/big?9000000').then(answer => answer.arrayBuffer()).then(all => all.byteLength)"
    assert page.evaluate(big) == 9_000_000
    first = "fetch('/slow').then(answer => answer.body.getReader().read()).then(({value}) => value.length)"
    assert page.evaluate(first) < 200, "a stream comes as it is sent"
    assert page.evaluate("fetch('/there').then(answer => answer.url)") == f"http://{host(berth, number, port)}/seen"
    page.close()
    trail = rows(berth, "select detail from tenants_auditevent where action = 'job.port'")
    assert any(json.loads(detail)["port"] == port for (detail,) in trail)


def test_a_link_works_once_and_at_its_own_origin(berth, readers_shared, jobs):
    (number, port), (other, other_port) = jobs
    context = readers_shared.context("viktor")
    session = "; ".join(f"{each['name']}={each['value']}" for each in context.cookies(berth.url))

    def link():
        made = httpx2.get(f"{berth.url}/jobs/{number}/ports/{port}", headers={"Cookie": session})
        assert made.status_code == 302
        return made.headers["location"].partition("//")[2].partition("/")[2]

    path = f"/{link()}"
    frame = {"Sec-Fetch-Dest": "iframe", "Sec-Fetch-Mode": "navigate"}
    assert asked(berth, number, port, path, **frame).status_code == 403, "no page does it out of sight"
    first = asked(berth, number, port, path)
    assert (first.status_code, "set-cookie" in first.headers) == (200, True)
    again = asked(berth, number, port, path)
    assert (again.status_code, "set-cookie" in again.headers) == (403, False)
    assert asked(berth, other, other_port, f"/{link()}").status_code == 403
    cookie = first.headers["set-cookie"].partition(";")[0]
    assert asked(berth, number, port, cookie=cookie).status_code == 200
    assert asked(berth, other, other_port, cookie=cookie).status_code == 403, "a cookie is of its own origin"
    assert asked(berth, number, other_port, cookie=cookie).status_code == 403
    assert asked(berth, number, port, cookie=cookie[:-2] + "xx").status_code == 403
    assert asked(berth, number, port).status_code == 403
    for site in ("same-site", "cross-site"):
        answer = asked(berth, number, port, cookie=cookie, **{"Sec-Fetch-Site": site})
        assert (answer.status_code, "served by the job" in answer.text) == (403, False)


def test_the_portal_answers_nothing_on_a_jobs_name_and_a_malformed_one_is_refused(berth, jobs):
    number, port = jobs[0]
    for path in (
        "/login",
        "/livez",
        "/healthz",
        "/api/v1/jobs",
        "/api/agent/v1/sync",
        "/static/css/berth.css",
        "/admin/",
    ):
        answer = asked(berth, number, port, path)
        assert (answer.status_code, "csrf" in answer.text, "Berth" in answer.text) == (403, False, False), path
    for bad in (
        "x",
        f"{number}-0",
        f"{number}-65536",
        f"0{number}-{port}",
        f"{number}-{port}-1-1",
        f"a.{number}-{port}",
    ):
        answer = httpx2.get(f"{berth.url}/", headers={"Host": f"{bad}.localhost:{berth.port}"})
        assert (answer.status_code, answer.headers["content-type"]) == (404, "text/plain; charset=utf-8"), bad
    with socket.create_connection(("127.0.0.1", berth.port)) as wire:
        own, job = f"127.0.0.1:{berth.port}", host(berth, number, port)
        wire.sendall(f"GET /login HTTP/1.1\r\nHost: {own}\r\nHost: {job}\r\n\r\n".encode())
        assert wire.recv(100).startswith((b"HTTP/1.1 400", b"HTTP/1.1 404"))


def test_another_tenant_a_viewer_and_who_has_signed_out_reach_nothing(berth, tenant, readers_shared):
    number, port = serve(tenant)
    outsider = readers_shared.context("nils").new_page()
    assert outsider.goto(f"{berth.url}/jobs/{number}/ports/{port}").status == 404
    outsider.close()
    context = readers_shared.browser.new_context()
    page = context.new_page()
    page.goto(f"{berth.url}/login")
    page.fill("#id_username", "viktor")
    page.fill("#id_password", berth.users["viktor"]["password"])
    page.click("button[type=submit]")
    page.wait_for_url(f"{berth.url}/")
    job = open_port(context, berth, number, port)
    cookie = cookie_of(context, berth, number, port)
    try:
        with role(berth, "viktor", "viewer"):
            deadline = time.monotonic() + stretched(PATIENCE_S)
            while asked(berth, number, port, cookie=cookie).status_code != 403:
                assert time.monotonic() < deadline
                time.sleep(0.5)
            assert page.goto(f"{berth.url}/jobs/{number}/ports/{port}").status == 403
        until_opened(job)
        page.goto(f"{berth.url}/")
        page.evaluate("document.querySelector('form[action$=\"/logout\"]').submit()")
        code, reason = job.evaluate("window.ended")
        assert (code, "signed out" in reason) == (4401, True)
        answer = asked(berth, number, port, cookie=cookie)
        assert (answer.status_code, "signed out" in answer.text) == (403, True)
    finally:
        context.close()
        tenant.act(number, "cancel")


@contextlib.contextmanager
def role(berth, username, wanted):
    """Let a person have another role meanwhile, as a manager gives it."""
    name = berth.users[username]["tenant"]
    before = berth.users[username]["role"]

    def give(what):
        script = (
            "from portal.people.tenants.models import Membership as M; "
            f"M.objects.filter(user__username={username!r}, tenant__name={name!r}).update(role={what!r})"
        )
        berth.command("manage", "shell", "-c", script)

    give(wanted)
    try:
        yield
    finally:
        give(before)


def until_opened(page):
    """Open a socket that stays open: rights that came back count within seconds."""
    deadline = time.monotonic() + stretched(PATIENCE_S)
    while "served by the job" not in (page.goto(page.url), page.inner_text("body"))[1]:
        assert time.monotonic() < deadline
        time.sleep(0.5)
    assert page.evaluate(STAYS_OPEN) is True


def test_a_job_that_ends_takes_its_pages_with_it(berth, tenant, readers_shared):
    number, port = serve(tenant)
    page = open_port(readers_shared.context("viktor"), berth, number, port)
    until_opened(page)
    tenant.act(number, "cancel")
    code, _ = page.evaluate("window.ended")
    assert code != 1000
    tenant.wait_state(number, "CANCELLED")
    deadline = time.monotonic() + stretched(PATIENCE_S)
    while (answer := page.reload()).status != 410:
        assert time.monotonic() < deadline, answer.text()
        time.sleep(0.5)
    assert f"Job {number} has ended" in page.inner_text("body")
    page.close()


def test_a_jobs_page_neither_reads_nor_acts_in_the_portal_or_in_another_job(berth, tenant, readers_shared, jobs):
    (number, port), (other, other_port) = jobs
    context = readers_shared.context("viktor")
    theirs = open_port(context, berth, other, other_port)
    page = open_port(context, berth, number, port)
    attack(page, theirs, berth.url, f"http://{host(berth, other, other_port)}", other)
    assert tenant.state(other) == "RUNNING"
    assert "forged" not in {each["value"] for each in context.cookies(berth.url)}
    for each in (page, theirs):
        each.close()


def attack(page, theirs, portal, other_url, other):
    """Try all from `page`, as one who is signed in to the portal and to the other job too; nothing of it may work."""
    before = len(seen(theirs))
    found = page.evaluate(ATTACK, [portal, other_url, other])
    unread, closed = {"TypeError"}, {"closed", "SecurityError", "TypeError"}
    assert found["opener"] == "null"
    assert {found["read"], found["rest"], found["link"], found["other_read"]} == unread, found
    assert {found["frame"], found["window"], found["other_frame"], found["other_window"]} <= closed, found
    assert {found["live"], found["other_socket"]} == {"refused"}, found
    assert "Error" in found["worker"], found
    assert [each["path"] for each in seen(theirs)[before:]] == [], "nothing of it reached the other job"
