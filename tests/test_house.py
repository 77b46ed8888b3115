"""The house's own rules: lint, types, allowed imports, no change of a model without its migration, nothing left lying."""

import contextlib
import subprocess
import sys
from fnmatch import fnmatch
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
BIN = Path(sys.executable).parent
CHECKS = {
    "ruff check": [BIN / "ruff", "check", "--quiet", "--output-format", "concise", ".", "berth"],
    "ruff format": [BIN / "ruff", "format", "--check", ".", "berth"],
    "mypy strict": [BIN / "mypy"],
    "import rules": [BIN / "lint-imports"],
    "migrations": [sys.executable, "manage.py", "makemigrations", "--check", "--dry-run"],
}
LIMIT_S = 240
DOORSTEP = set(
    """
        .ci .git .gitattributes .github .gitignore CHANGELOG.md CONTRIBUTING.md LICENSE README.md SECURITY.md berth client
        docs examples manage.py portal pyproject.toml requirements-dev.lock requirements-dev.txt requirements.lock
        requirements.txt research scheduler static templates tests workers
    """.split()
)
"""What may lie at the top of the repository, beside what .gitignore names. A new name is a choice, and is made here."""


@pytest.fixture(scope="module")
def checks():
    """{rule: process} of the linters, all at once."""
    with contextlib.ExitStack() as stack:
        started = {}
        for name, argv in CHECKS.items():
            process = subprocess.Popen(argv, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            stack.callback(process.wait)
            stack.callback(process.kill)
            started[name] = process
        yield started


@pytest.mark.parametrize("name", CHECKS)
def test_house_rule(name, checks):
    output, _ = checks[name].communicate(timeout=LIMIT_S)
    assert checks[name].returncode == 0, f"{name}:\n{output}"


def strays(root=ROOT):
    ignored = [line.rstrip("/") for line in (ROOT / ".gitignore").read_text().split()]
    found = {path.name for path in root.iterdir()} - DOORSTEP
    return sorted(name for name in found if not any(fnmatch(name, pattern) for pattern in ignored))


def test_nothing_lies_on_the_doorstep_that_does_not_belong_there():
    """Tests and commands that write into the folder they were called in leave files that somebody commits by mistake."""
    assert strays() == []


def test_a_stray_file_is_found(tmp_path):
    for name in ("memorydb_default", "README.md", "kept.pyc", "var"):
        (tmp_path / name).touch()
    assert strays(tmp_path) == ["memorydb_default"]
