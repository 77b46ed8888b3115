"""What README and docs name exists: commands, flags, URLs, files, reasons, knobs and fields."""

import re
from pathlib import Path

import pytest
from django.core.management import get_commands
from django.urls import Resolver404, resolve

from portal.health.health import health
from portal.jobs.imports.options import OPTIONS
from scheduler.model import Reason
from workers.agent.settings_list import SETTINGS

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


def by_document(pattern, but=()):
    """(document, what the pattern finds in it), as parameters; `but`: paths of documents that are left out."""
    found = {(path, hit) for path in DOCUMENTS if path not in but for hit in re.findall(pattern, path.read_text())}
    return [pytest.param(path, hit, id=f"{path.name}:{hit}") for path, hit in sorted(found)]


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
OF_TESTS = {"BERTH_TRACE_DATA", "BERTH_TEST_TORCH"}
"""Read by tests alone: where public traces lie, and which Python has PyTorch and a GPU."""


@pytest.mark.parametrize(("document", "verb"), by_document(r"\./berth ([a-z-]+)"))
def test_command_exists(document, verb):
    script = (ROOT / "berth").read_text()
    own = re.search(r"command not in \(([^)]*)\)", script).group(1)
    asking = re.search(r"CLIENT_VERBS = \(([^)]*)\)", script).group(1)
    assert f'"{verb}"' in own or verb == "help" or verb in re.findall(r"[a-z-]+", asking)
    if verb in {"join-token", "bench"}:
        assert verb.replace("-", "_") in get_commands()


@pytest.mark.parametrize(("document", "path"), by_document(PATH, ENDED))
def test_path_exists(document, path):
    assert (ROOT / path).exists(), "a map that leads nowhere is worse than none"


@pytest.mark.parametrize(("document", "name"), by_document(r"\./berth manage ([a-z_]+)"))
def test_management_command_exists(document, name):
    assert name in get_commands()


@pytest.mark.parametrize(("document", "flag"), by_document(r"(?<![\w-])(--[a-z][a-z0-9-]+)"))
def test_flag_exists(document, flag):
    agents = {setting.flag for setting in SETTINGS} | {"--join"}
    campaign = re.findall(r'"(--[a-z]+)"', (ROOT / "tests/system/campaign/__main__.py").read_text())
    foreign = {
        "--nproc",
        "--exclude",
        "--data-binary",
        "--steps",
        "--lr",
        "--mixed",
        "--epochs",
        "--start",
        "--no-browser",
        "--ip",
    }  # of torchrun, Django, curl, squeue, jupyter and an example
    assert flag in agents | foreign | QUOTED | {*campaign} or flag[2:] in OPTIONS, "OPTIONS: of sbatch"


@pytest.mark.parametrize(("document", "url"), by_document(rf"(?<![\w.-])((?:{'|'.join(OWN_PATHS)})[\w/{{}}.-]*)"))
def test_url_resolves(document, url):
    path = re.sub(r"\{[^}]*\}?", "1", url).rstrip(".")
    tried = [path] if path.endswith("/") else [path, path + "/"]
    if path == "/api/v1":
        tried = ["/api/v1/docs"]
    assert any(_resolves(each) for each in tried), f"{document.name} names {url}"


def _resolves(path):
    try:
        return bool(resolve(path).url_name) or path == "/admin/"
    except Resolver404:
        return False


@pytest.mark.parametrize(("document", "target"), by_document(r"\]\(([^)#:]+)\)"))
def test_link_leads_somewhere(document, target):
    found = (document.parent / target).resolve()
    assert found.exists()


@pytest.mark.parametrize(("document", "name"), by_document(r"`([a-z]+(?:_[a-z]+)+)`"))
def test_name_exists_in_the_code(document, name):
    assert name in WORDS or name == "pg_dump"


@pytest.mark.parametrize(("document", "name"), by_document(r"\b(BERTH_[A-Z_]*[A-Z])\b"))
def test_variable_exists(document, name):
    agents = {setting.env for setting in SETTINGS}
    assert name in SERVICES | agents | OF_TESTS | QUOTED


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
    for path in (ROOT / "docs/decisions").glob("*.md"):
        text = path.read_text()
        assert all(f"**{part}.**" in text for part in ("Context", "Decision", "Why", "Cost")), path.name
        assert len(text.split()) < 260, path.name


TOLD = [
    *(path for path in (*DOCUMENTS, *(ROOT / "client").rglob("*.md")) if path not in ENDED),
    *(path for room in ("portal", "client", "workers", "examples") for path in sorted((ROOT / room).rglob("*.py"))),
    *(path for room in ("templates", "static/js", "examples") for path in sorted((ROOT / room).rglob("*.*"))),
]
"""What people read before they write a command: guides, help, messages, placeholders, examples, templates."""


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
