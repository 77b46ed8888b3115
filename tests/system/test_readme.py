"""The blocks of README, examples and guides, typed as they stand into a shell that knows nothing else, against a fresh demo.

The two commands of README's first block are what CI itself runs. Only the port is another, so that this runs beside a Berth.
"""

import os
import re
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from portal.foundation.layout import SOURCE
from tests.conftest import LOUD
from tests.system.helpers.watching import browser_started, sign_in, until

pytestmark = pytest.mark.system
LIMIT_S = 300
ENDED = {"COMPLETED", "FAILED", "TIMEOUT", "CANCELLED", "OUT_OF_MEMORY", "NODE_FAIL"}


def blocks(document, chapter=""):
    """The indented blocks of a document, or of one of its chapters, dedented, in order."""
    text = (SOURCE / document).read_text()
    if chapter:
        text = re.split(rf"^#+ {chapter}$", text, flags=re.MULTILINE)[1]
        text = re.split(r"^## ", text, flags=re.MULTILINE)[0]
    found = re.findall(r"(?:^    .*\n(?:^\n(?=    ))?)+", text, re.MULTILINE)
    return [re.sub(r"^    ", "", block, flags=re.MULTILINE) for block in found]


class Terminal:
    """A shell in a clone beside a running Berth, with nothing but Debian's own directories on its PATH."""

    def __init__(self, berth, home):
        self.berth, self.clone = berth, home / "clone"
        self.clone.mkdir()
        self.directory = str(self.clone)
        for name in ("berth", "examples"):
            (self.clone / name).symlink_to(SOURCE / name)
        self.own = {path.name: path.read_text() for path in SOURCE.glob("[!.]*.*")}
        for name, text in self.own.items():
            (self.clone / name).write_text(text)
        (self.clone / "var").symlink_to(berth.data)
        self.environment = {
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "HOME": str(home),
            "BERTH_DATA_DIR": str(berth.data),
        }

    def type(self, block):
        """Run a block; returns what it printed. Exports and the directory hold for the next one."""
        text = block.replace("http://127.0.0.1:8000", self.berth.url)
        python = text.startswith("import ")
        done = subprocess.run(
            ["/usr/bin/env", "python3", "-I", "-"] if python else ["/bin/sh", "-eu"],
            input=text if python else f"{text}\nexport PWD\nenv -0 >{self.clone}/.env\n",
            cwd=self.directory,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
        )
        assert done.returncode == 0, f"{block}\n{done.stdout}{done.stderr}"
        if not python:
            pairs = (self.clone / ".env").read_text().rstrip("\0").split("\0")
            self.environment = dict(pair.split("=", 1) for pair in pairs)
            self.directory = self.environment["PWD"]
        return done.stdout

    def overwritten(self):
        """Berth's own files that no longer are what the clone brought."""
        return [name for name, text in self.own.items() if (self.clone / name).read_text() != text]


@pytest.fixture(scope="module")
def terminal(berth_up, tmp_path_factory):
    if not Path("/usr/bin/curl").exists():
        pytest.skip(f"SKIPPED LOUDLY: {LOUD['curl']}")
    return Terminal(berth_up(demo=True), tmp_path_factory.mktemp("home"))


def jobs(berth):
    status, answer = berth.request("/api/v1/jobs?page_size=100", token=berth.tokens["vision-lab"])
    assert status == 200, answer
    return {job["name"]: job for job in answer["results"]}


def all_ended(berth):
    found = jobs(berth)
    return found if found and all(job["state"] in ENDED for job in found.values()) else None


@pytest.mark.browser
def test_a_newcomer_sees_jobs_run_and_one_wait_and_reads_why(berth_once):
    """Story 1: after `./berth up --demo`, with the demo's own jobs, and the sign-in with what it printed."""
    berth = berth_once(demo=True, workload=True)
    with browser_started() as browser:
        page = browser.new_page()
        page.set_default_timeout(60_000)
        sign_in(page, berth.url, "vera", berth.users["vera"]["password"])
        page.goto(f"{berth.url}/?view=vision-lab")
        groups = "[...document.querySelectorAll('.b-home-group strong')].map((each) => each.innerText)"
        until(page, f"['Running', 'Waiting'].every((name) => {groups}.includes(name))", limit_s=LIMIT_S)
        waiting = page.locator(".b-home-group:has-text('Waiting') + ul a").first
        name = waiting.inner_text()
        waiting.click()
        page.wait_for_url(re.compile(r"/jobs/[0-9_]+/$"))
        why = page.locator("#starts .b-say, #ended .b-say, #over").first.inner_text()  # it may start meanwhile
        assert len(why.split()) > 2, (name, why)


@pytest.mark.slow
def test_readme_s_blocks_and_the_guides_first_ones_work_as_typed(terminal):
    commands, exports, first = blocks("README.md")
    assert [line.split("#")[0].strip() for line in commands.splitlines()] == ["./berth up --demo", "./berth test"]
    terminal.type(exports)
    assert "hello, GPUs: " in terminal.type(first)
    assert terminal.overwritten() == [], "Berth's own requirements.txt, say: the next ./berth would install another"
    curl, python = blocks("docs/rest-api.md", "A first call")
    assert '"id"' in terminal.type(curl)
    told = terminal.type(python)
    assert told.startswith("COMPLETED"), told
    assert "step 20 loss" in told
    told = terminal.type(blocks("docs/command-line.md")[1])
    assert "step 20 loss" in told
    assert "COMPLETED" in told, "the list of all jobs"
    found = terminal.berth.wait(lambda: all_ended(terminal.berth), limit_s=LIMIT_S, what="the guides' jobs to end")
    assert {name: job["state"] for name, job in found.items()} == dict.fromkeys(found, "COMPLETED")
    assert "hello" in found
    for line in blocks("docs/simulator.md", "Try it")[0].splitlines():
        assert "berth" in terminal.type(line)
    assert (terminal.clone / "last-week.html").stat().st_size > 10_000
    join, node = blocks("docs/operators-guide.md", "Add a node")
    assert node.startswith("./berth node --join ")
    joins(terminal, join)


def joins(terminal, block):
    """The line that `./berth join-token` prints adds a node when it is typed on another machine."""
    line = terminal.type(block).strip().splitlines()[-1]
    assert line.startswith(f"./berth node --join {terminal.berth.url} --token berthjoin_")
    directory = terminal.clone.parent / "node"
    process = subprocess.Popen(
        ["/bin/sh", "-c", f"exec {line} --dir {directory}"],
        cwd=terminal.clone,
        env=terminal.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )

    def known():
        operator = terminal.berth.tokens["vision-lab"]
        status, answer = terminal.berth.request("/api/v1/nodes?page_size=100", token=operator)
        return status == 200 and "gpu-07" in {each["name"] for each in answer["results"]}

    try:
        terminal.berth.wait(known, limit_s=120, what="the new node")
    finally:
        os.kill(process.pid, signal.SIGTERM)
        process.communicate(timeout=60)


@pytest.mark.slow
def test_the_examples_blocks_work_as_typed(terminal):
    exports = blocks("README.md")[1]
    terminal.type(exports)
    command, submit = blocks("examples/README.md")
    assert command.startswith("$BERTH_PYTHON")
    assert len(terminal.type(submit).split()) == 2
    found = terminal.berth.wait(lambda: all_ended(terminal.berth), limit_s=LIMIT_S, what="the examples to end")
    assert {name: job["state"] for name, job in found.items()} == dict.fromkeys(found, "COMPLETED")
    assert {"charlm", "wordcount"} <= set(found)


def test_a_minimal_debian_has_what_the_blocks_call():
    """Python's standard library, sh, sed and curl; no jq, no uuidgen, no package."""
    text = "\n".join(
        block for document in ("README.md", "examples/README.md", "docs/rest-api.md") for block in blocks(document)
    )
    assert not re.search(r"uuidgen|httpx|jq |requests", text)
    assert shutil.which("sed")
