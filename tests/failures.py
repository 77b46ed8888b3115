"""Which tests failed, for `./berth test`: those that need servers are run again alone."""

from pathlib import Path

import pytest


class Failures:
    """A plug-in that adds the name of each test that failed, its fixtures included, to a file of its run."""

    def __init__(self, file):
        self.file = Path(file)

    @pytest.hookimpl
    def pytest_runtest_logreport(self, report):
        if report.failed:
            with self.file.open("a", encoding="utf-8") as told:
                told.write(f"{report.nodeid}\n")
