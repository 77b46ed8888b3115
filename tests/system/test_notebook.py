"""A notebook from its template: the real JupyterLab, installed on its node, reached in the browser, typed into and run.

Its usual port is taken, as by somebody's notebook on that node, so it listens on another.

JupyterLab comes as the template names it, from the package index, once: its wheels are kept in pytest's cache.
"""

import contextlib
import hashlib
import os
import re
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from portal.foundation.layout import SOURCE
from tests.system.helpers.client import Tenant
from tests.system.helpers.watching import Watch, until
from tests.together import WHEELS

pytestmark = [pytest.mark.system, pytest.mark.browser, pytest.mark.slow, pytest.mark.xdist_group("looks")]
TEMPLATE = yaml.safe_load((SOURCE / "examples/templates/notebook.yaml").read_text(encoding="utf-8"))
FETCH_S = 200


@pytest.fixture(scope="module")
def berth(berth_shared):
    return berth_shared


@pytest.fixture(scope="module")
def wheels(request, tmp_path_factory):
    """The wheels that the template's software needs. Skips loudly where no package index answers."""
    wanted = TEMPLATE["job"]["software"]["requirements"]
    name = hashlib.sha256(f"{wanted} {sys.version}".encode()).hexdigest()[:16]
    cache = getattr(request.config, "cache", None)  # none with `-p no:cacheprovider`
    kept = (cache.mkdir("wheels") if cache else tmp_path_factory.mktemp("wheels")) / name
    if not kept.exists():
        under_way = tmp_path_factory.mktemp("under-way")
        pip = [sys.executable, "-m", "pip", "download", "--only-binary=:all:", "--quiet", "--dest", str(under_way)]
        try:
            subprocess.run([*pip, wanted], capture_output=True, timeout=FETCH_S, check=True)
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired):
            pytest.skip(f"SKIPPED LOUDLY: no package index gives {wanted}")
        shutil.copytree(under_way, kept)
    return kept


@pytest.fixture
def page(readers_shared, berth, wheels):
    for wheel in wheels.iterdir():
        target = Path(berth.environment[WHEELS]) / wheel.name
        if not target.exists():
            os.link(wheel, target)
    watch = Watch(berth.url, expected=["htmx:sendAbort", "htmx:afterRequest"])
    page = readers_shared.page("viktor", watch)
    yield page
    page.close()
    watch.check()


@pytest.fixture
def usual_port_taken():
    with socket.socket() as taken:
        with contextlib.suppress(OSError):  # somebody else's notebook has it
            taken.bind(("127.0.0.1", 8888))
            taken.listen()
        yield


def test_a_notebook_from_its_template_runs_what_is_typed_into_it(page, berth, usual_port_taken):
    page.goto(f"{berth.url}/jobs/new")
    page.click("#start-from > summary")
    page.click("#start-from a:has-text('Notebook')")
    page.fill("#id_p_gpus", "1")
    page.fill("#id_p_hours", "2")
    page.locator("[data-submit]:visible").click()
    page.wait_for_url(re.compile(r"/jobs/\d+/$"))
    number, tenant = re.search(r"/jobs/(\d+)/", page.url)[1], Tenant(berth)
    until(page, "document.querySelector('[data-log-lines]')?.innerText.includes('is running at')", limit_s=300)
    with page.context.expect_page() as opened:
        page.get_by_role("link", name="Open notebook").first.click()
    lab = opened.value
    lab.wait_for_url(re.compile(rf"^http://{number}-8\d+\.localhost:{berth.port}/lab"))
    lab.get_by_role("region", name="notebook content").or_(lab.locator(".jp-LauncherCard").first).wait_for()
    lab.locator(".jp-LauncherCard[data-category=Notebook]").first.click()
    cell = lab.locator(".jp-Notebook .jp-Cell .cm-content").first
    lab.get_by_text("Python 3 (ipykernel) | Idle").wait_for()  # what is run before is forgotten
    cell.click()
    lab.keyboard.type("import os; print('job', os.environ['BERTH_JOB_ID'], 6 * 7)")
    lab.keyboard.press("Shift+Enter")
    output = lab.locator(".jp-Notebook .jp-OutputArea-output").first
    output.wait_for()
    assert output.inner_text().strip() == f"job {number} 42"
    assert tenant.job(number)["software"] == {"requirements": TEMPLATE["job"]["software"]["requirements"]}
    lab.close()
    tenant.act(number, "cancel")
    tenant.wait_state(number, "CANCELLED")
