"""The house's own rules: lint, layout, types, who may import whom, and no change of a model without its migration."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
BIN = Path(sys.executable).parent
LIMIT_S = 120
CHECKS = {
    "ruff check": [BIN / "ruff", "check", "--quiet", "--output-format", "concise", ".", "berth"],
    "ruff format": [BIN / "ruff", "format", "--check", "--quiet", ".", "berth"],
    "mypy strict on scheduler": [BIN / "mypy"],
    "import rules": [BIN / "lint-imports"],
    "migrations": [sys.executable, "manage.py", "makemigrations", "--check", "--dry-run"],
}


@pytest.fixture(scope="module")
def running() -> Iterator[dict[str, subprocess.Popen[str]]]:
    """All checks at once: they are processes of their own, so two cores halve the wait."""
    started = {
        name: subprocess.Popen(argv, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        for name, argv in CHECKS.items()
    }
    yield started
    for process in started.values():
        process.kill()
        process.wait()


@pytest.mark.parametrize("name", CHECKS)
def test_house_rule(name, running):
    output, _ = running[name].communicate(timeout=LIMIT_S)
    assert running[name].returncode == 0, f"{name}:\n{output}"
