"""Things that README and docs name exist: commands, flags, URLs, files, reasons, knobs and fields."""

import re
import runpy
from pathlib import Path

import pytest
from django.core.management import get_commands
from django.urls import Resolver404, resolve

from berth_client.cli.verbs import VERBS
from portal.operate.health.health import health
from portal.work.jobs.imports.options import OPTIONS
from scheduler.model import Reason
from workers.agent.settings import SETTINGS, flag_of, variable_of
from workers.bridge import settings as bridge

ROOT = Path(__file__).resolve().parents[1]
DOCUMENTS = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
DOCUMENTS = [path for path in DOCUMENTS if path.name not in {"agent-protocol.md", "settings.md"}]
OWN_PATHS = (
    "/admin/",
    "/api/",
    "/jobs",
    "/cluster",
    "/rounds",
    "/account",
    "/healthz",
    "/metrics",
    "/login",
)
SERVICES = {"BERTH_URL", "BERTH_TOKEN"}


def missing(pattern, is_there, but=()):
    """Return {document: what the pattern finds in it that is not there}. `but`: paths of documents that are left out."""
    found = {path: set(re.findall(pattern, path.read_text())) for path in DOCUMENTS if path not in but}
    assert any(found.values()), "the pattern finds what it is meant to"
    lost = {path.name: sorted(each for each in hits if not is_there(each)) for path, hits in found.items()}
    return {name: hits for name, hits in lost.items() if hits}


def code():
    files = [
        ROOT / "berth",
        *(
            path
            for room in ("portal", "scheduler", "workers", "client", "research")
            for path in (ROOT / room).rglob("*.py")
        ),
    ]
    return "\n".join(path.read_text() for path in files)


CODE = code()
WORDS, QUOTED = set(re.findall(r"\w+", CODE)), set(re.findall(r'(?<=")[\w-]+(?=")', CODE))
"""Looked up a thousand times: to search ten thousand pages of code each time takes seven seconds."""
PATH = r"`((?:portal|scheduler|workers|client|research|tests|templates|static|docs|examples)/(?![\w/.-]*(?:NAME|ROOM))[\w./-]*)`"
"""NAME and ROOM stand for the reader's own."""
ENDED = {ROOT / "CHANGELOG.md", *(ROOT / "docs/decisions").glob("*.md")}
"""They tell of what was."""
OF_TESTS = {"BERTH_TRACE_DATA", "BERTH_TEST_TORCH", "--fast", "--all", "--fewer-examples", "xdist_group"}
"""Only tests read them: where public traces lie, which Python has PyTorch and a GPU; their flags, and a mark."""
FOREIGN = set(
    "--nproc --exclude --data-binary --steps --lr --mixed --epochs --start --no-browser --ip --dist --data".split()
)
"""Flags of torchrun, Django, curl, squeue, jupyter, pytest and an example."""


def test_commands_exist():
    known = {*runpy.run_path(str(ROOT / "berth"))["COMMANDS"], *VERBS, "node", "bridge", "help"}
    assert missing(r"\./berth ([a-z-]+)", known.__contains__) == {}
    assert {"join_token", "bench"} <= set(get_commands())
    assert missing(r"\./berth manage ([a-z_]+)", get_commands().__contains__) == {}


def test_paths_exist():
    assert missing(PATH, lambda path: (ROOT / path).exists(), ENDED) == {}, (
        "a map that leads nowhere is worse than none"
    )


def test_flags_exist():
    agents = {flag_of(setting) for setting in SETTINGS} | {"--join"} | {bridge.flag(each) for each in bridge.SETTINGS}
    campaign = re.findall(r'"(--[a-z]+)"', (ROOT / "tests/system/campaign/__main__.py").read_text())
    sbatch = {f"--{name}" for name in OPTIONS}
    known = {*agents, *FOREIGN, *QUOTED, *campaign, *sbatch, *OF_TESTS}
    assert missing(r"(?<![\w-])(--[a-z][a-z0-9-]+)", known.__contains__) == {}


def test_urls_resolve():
    own = rf"(?<![\w.-])((?:{'|'.join(OWN_PATHS)})[\w/{{}}.-]*)"
    assert missing(own, resolves) == {}


def resolves(url):
    path = re.sub(r"\{[^}]*\}?", "1", url).rstrip(".")
    if path == "/api/v1":
        path = "/api/v1/docs"
    return any(_is_page(each) for each in {path, path.rstrip("/") + "/"})


def _is_page(path):
    try:
        return bool(resolve(path).url_name) or path == "/admin/"
    except Resolver404:
        return False


def test_links_lead_somewhere():
    lost = {
        (path.name, target)
        for path in DOCUMENTS
        for target in re.findall(r"\]\(([^)#:]+)\)", path.read_text())
        if not (path.parent / target).exists()
    }
    assert lost == set()


def test_names_exist_in_the_code():
    known = {*WORDS, *OF_TESTS, "pg_dump"}
    assert missing(r"`([a-z]+(?:_[a-z]+)+)`", known.__contains__) == {}


def test_variables_exist():
    known = {*QUOTED, *SERVICES, *OF_TESTS, *map(variable_of, SETTINGS)}
    assert missing(r"\b(BERTH_[A-Z_]*[A-Z])\b", known.__contains__) == {}


def test_each_reason_is_explained_once():
    text = (ROOT / "docs/concepts.md").read_text()
    assert sorted(re.findall(r"^\| `([a-z-]+)` \|", text, re.MULTILINE)) == sorted(Reason)


@pytest.mark.django_db
def test_health_has_the_documented_keys():
    text = (ROOT / "docs/operators-guide.md").read_text()
    answer, _ = health()
    for key in ("database", "broker", "beat_age_s", "last_planning_age_s", "nodes", "disk", "state"):
        assert key in answer
        assert f"`{key}`" in text


def test_each_decision_has_its_parts():
    for path in (ROOT / "docs/decisions").glob("[0-9]*.md"):
        text = path.read_text()
        assert all(f"**{part}.**" in text for part in ("Context", "Decision", "Why", "Cost")), path.name
        assert len(text.split()) < 260, path.name


def test_each_decision_stands_once_in_the_index():
    listed = re.findall(r"^- \[\d{4}\]\((\d{4}-[^)]*)\)", (ROOT / "docs/decisions/README.md").read_text(), re.MULTILINE)
    assert sorted(listed) == sorted(path.name for path in (ROOT / "docs/decisions").glob("[0-9]*.md"))


TOLD = [
    *(path for path in (*DOCUMENTS, *(ROOT / "client").rglob("*.md")) if path not in ENDED),
    *(path for room in ("portal", "client", "workers", "examples") for path in sorted((ROOT / room).rglob("*.py"))),
    *(path for room in ("templates", "static/js", "examples") for path in sorted((ROOT / room).rglob("*.*"))),
]
"""Texts that people read before they write a command: guides, help, messages, placeholders, examples, templates."""


def test_a_jobs_program_is_run_by_python_everywhere():
    """By one word, which each node has (workers/environments/programs.py); what readers run on their own machine is no job's."""
    texts = {path.relative_to(ROOT).as_posix(): path.read_text(errors="replace") for path in TOLD}
    other = r"\bpython[\d.]+,? +(?:-[umB]+ +)*(?:[\w./$-]+\.py\b|-m )"
    assert {path: hits for path, text in texts.items() if (hits := re.findall(other, text))} == {}
    named = {name for text in texts.values() for name in re.findall(r"\$BERTH_PYTHON\"? (\w+\.py)", text)}
    ours = {path.name for room in ("examples", "workers/instrument") for path in (ROOT / room).rglob("*.py")}
    assert named <= ours, "it has numpy, for the examples; others have software of their own"


def test_each_page_of_evidence_has_its_parts_and_a_line_in_the_index():
    folder = ROOT / "docs/evidence"
    index = folder / "README.md"
    claims = sorted({*folder.glob("*.md")} - {index})
    assert set(re.findall(r"\]\(([a-z0-9-]+\.md)\)", index.read_text())) == {path.name for path in claims}
    for path in claims:
        text = path.read_text()
        assert all(f"**{part}.**" in text for part in ("Question", "Command", "Verdict")), path.name
        assert len(text.encode()) <= 6000, path.name
