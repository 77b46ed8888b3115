"""Which tests failed or were skipped: `./berth test` runs some that failed again, `.ci/run` as root those that were skipped without it."""

from pathlib import Path

import pytest


class Named:
    """A plug-in that adds the name of each test of this outcome, its fixtures included, to a file of its run."""

    def __init__(self, outcome, file):
        self.outcome, self.file = outcome, Path(file)

    @pytest.hookimpl
    def pytest_runtest_logreport(self, report):
        if report.outcome == self.outcome:
            with self.file.open("a", encoding="utf-8") as told:
                told.write(f"{report.nodeid}\n")
