"""Ports of jobs below a wildcard, behind a proxy that ends TLS: portal and jobs are one *site* there, where cookies are no wall."""

import asyncio
import contextlib
import ssl
import threading

import pytest

from portal.foundation.layout import Layout
from portal.launch.broker import free_port
from portal.launch.tls import certificate_ensure
from tests.berths import factory
from tests.conftest import chromium_path
from tests.system.helpers.client import Tenant
from tests.system.helpers.watching import credentials_send
from tests.system.test_ports import attack, serve

pytestmark = [pytest.mark.system, pytest.mark.slow, pytest.mark.browser]
PORTAL = "berth.example.org"


@contextlib.contextmanager
def tls_before(target, directory):
    """A proxy that ends TLS and passes all on as it is; yields its port."""
    made = certificate_ensure(Layout.at(directory), "127.0.0.1")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(made.certificate, made.key)
    loop, port = asyncio.new_event_loop(), free_port()

    async def copy(reader, writer):
        with contextlib.suppress(OSError):
            while data := await reader.read(65_536):
                writer.write(data)
                await writer.drain()
        writer.close()

    async def serve_one(reader, writer):
        inner, out = await asyncio.open_connection("127.0.0.1", target)
        await asyncio.gather(copy(reader, out), copy(inner, writer))

    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    asyncio.run_coroutine_threadsafe(asyncio.start_server(serve_one, "127.0.0.1", port, ssl=context), loop).result(30)
    yield port
    loop.call_soon_threadsafe(loop.stop)
    thread.join(30)


def test_one_site_and_still_no_way_from_a_job_to_portal_or_neighbour(request, tmp_path):
    from playwright.sync_api import sync_playwright

    inner = free_port()
    layout = Layout.at(tmp_path)
    layout.prepare()
    with tls_before(inner, tmp_path) as port, factory(request) as start, sync_playwright() as playwright:
        url = f"https://{PORTAL}:{port}"
        named = {
            "BERTH_BASE_URL": url,
            "BERTH_ALLOWED_HOSTS": f"{PORTAL},127.0.0.1,localhost",
            "BERTH_JOBS_NAMES": "*.jobs.example.org",
            "BERTH_LEASE_S": "900",
        }
        berth = start(environment=named, flags=["--port", str(inner)])
        berth.port = inner
        tenant = Tenant(berth)
        (number, own), (other, others) = serve(tenant), serve(tenant)
        arguments = ["--no-sandbox", "--host-resolver-rules=MAP *.example.org 127.0.0.1"]
        browser = playwright.chromium.launch(executable_path=chromium_path(), args=arguments)
        context = browser.new_context(ignore_https_errors=True)
        context.set_default_timeout(120_000)
        page = context.new_page()
        page.goto(f"{url}/login")
        credentials_send(page, "viktor", berth.users["viktor"]["password"])
        page.wait_for_url(f"{url}/")
        names = {each["name"] for each in context.cookies(url)}
        assert {"__Host-sessionid", "__Host-csrftoken"} <= names

        def opened(job, at):
            made = context.new_page()
            made.goto(f"{url}/jobs/{job}/ports/{at}")
            made.wait_for_url(f"https://{job}-{at}.jobs.example.org:{port}/")
            return made

        theirs, mine = opened(other, others), opened(number, own)
        attack(mine, theirs, url, f"https://{other}-{others}.jobs.example.org:{port}", other)
        assert tenant.state(other) == "RUNNING"
        assert page.goto(f"{url}/jobs/{other}/").status == 200
        assert "/login" not in page.url, "a cookie for the whole domain signs nobody out, or in as another"
        browser.close()
