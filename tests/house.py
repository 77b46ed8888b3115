"""The linters and other checks of the house, run as processes beside the tests."""

import contextlib
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BIN = Path(sys.executable).parent
CHECKS = {
    "ruff check": [BIN / "ruff", "check", "--quiet", "--output-format", "concise", ".", "berth"],
    "ruff format": [BIN / "ruff", "format", "--check", ".", "berth"],
    "mypy strict": [BIN / "mypy"],
    "import rules": [BIN / "lint-imports"],
    "migrations": [sys.executable, "manage.py", "makemigrations", "--check", "--dry-run"],
}


@contextlib.contextmanager
def running_checks():
    """All at once: on two cores that halves the wait."""
    with contextlib.ExitStack() as stack:
        started = {}
        for name, argv in CHECKS.items():
            process = subprocess.Popen(argv, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            stack.callback(process.wait)
            stack.callback(process.kill)
            started[name] = process
        yield started
