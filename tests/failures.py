"""Which tests were skipped: `.ci/run` as root runs those that were skipped without its rights."""

from pathlib import Path

import pytest

SKIPPED = "TESTS_SKIPPED_IN"
"""Names the file; `.ci/run` gives it."""


class Skipped:
    """A plug-in that adds the name of each skipped test, also by a fixture of it, to a file of its run."""

    def __init__(self, file):
        self.file = Path(file)

    @pytest.hookimpl
    def pytest_runtest_logreport(self, report):
        if report.outcome == "skipped":
            with self.file.open("a", encoding="utf-8") as told:
                told.write(f"{report.nodeid}\n")
