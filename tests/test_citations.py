"""The sections of docs/algorithms.md and docs/architecture.md that the code cites exist, and so do the tests that these name."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
ROOMS = ("portal", "scheduler", "workers", "client", "research", "tests", "templates", "static/js", "static/css")
ENDINGS = {".py", ".html", ".js", ".css"}
SECTIONS = re.compile(
    r"algorithms(?:\.md)?,? \(?sections? (\d+(?:(?:, (?:and )?| and | to )\d+)*)|\b[Ss]ections? (\d+(?:(?:, | and )\d+)*)"
)
INVARIANTS = re.compile(r"\binvariants? (\d+(?:(?:, | and )\d+)*)", re.IGNORECASE)
DOCUMENTS = re.compile(r"\bdocs/[\w/.-]+\.md\b")
ALGORITHMS = (ROOT / "docs" / "algorithms.md").read_text()
ARCHITECTURE = (ROOT / "docs" / "architecture.md").read_text()
HEADINGS = set(re.findall(r"^## (\d+)\. ", ALGORITHMS, re.MULTILINE))
ROWS = set(re.findall(r"^\| (\d+) \| ", ARCHITECTURE, re.MULTILINE))


def cited(pattern):
    """{(file, number)} of all that the pattern finds in the code's own text."""
    found = set()
    for room in ROOMS:
        for path in (ROOT / room).rglob("*"):
            if path.suffix in ENDINGS and path != Path(__file__):
                for hit in pattern.finditer(path.read_text()):
                    numbers = next(filter(None, hit.groups()))
                    found |= {(str(path.relative_to(ROOT)), number) for number in re.findall(r"\d+", numbers)}
    return found


def test_every_named_document_exists():
    named = {
        (str(path.relative_to(ROOT)), name)
        for room in ROOMS
        for path in (ROOT / room).rglob("*")
        if path.suffix in ENDINGS
        for name in DOCUMENTS.findall(path.read_text())
    }
    assert len(named) > 20, "the pattern finds what it is meant to"
    assert {each for each in named if not (ROOT / each[1]).exists()} == set()


def test_every_cited_section_is_a_heading():
    found = cited(SECTIONS)
    assert len(found) > 100, "the pattern finds what it is meant to"
    assert {each for each in found if each[1] not in HEADINGS} == set()


def test_every_cited_invariant_is_a_row():
    found = cited(INVARIANTS)
    assert len(found) > 5
    assert {each for each in found if each[1] not in ROWS} == set()


def test_a_test_that_holds_an_invariant_exists(subtests):
    for path in sorted(set(re.findall(r"`(tests/[\w/]+\.py)`", ARCHITECTURE))):
        with subtests.test(path=path):
            assert "def test_" in (ROOT / path).read_text()
