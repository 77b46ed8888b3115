"""Fixtures of all tests: real servers on free ports and private directories, and skips that nobody can overlook."""

import functools
import gc
import os
import shutil
import sys

import pytest
import pytest_rerunfailures
from _pytest import runner
from xdist.scheduler import LoadFileScheduling

from portal.foundation.deep_calls import roomy
from research.screenshots.camera import BROWSERS
from tests.berths import berth_once, berth_up, demo_template, template  # noqa: F401 - fixtures
from tests.costs import Costs
from tests.databases import django_db_setup  # noqa: F401 - a fixture
from tests.ending import Ending
from tests.examples import examples_cut
from tests.failures import SKIPPED, Skipped
from tests.order import group_of, put_in_order, waits
from tests.purity import all_are_left_out, is_pure, leave_django_out
from tests.servers import broker_server, postgres_server, postgres_url  # noqa: F401 - fixtures

# The tests start two thousand processes of ours: each module is compiled once, not in each of them, even if the
# caller's environment forbids it (it takes a third of such a process's start).
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
gc.disable()  # until all tests are collected: imported modules stay

LOUD = {
    "browser": "no Chromium on this machine (`apt install chromium-headless-shell` or `chromium`)",
    "postgres": "no Postgres could be started here",
    "curl": "no curl on this machine (`apt install curl`)",
    "gcc": "no gcc: the NVML stub could not be built (`apt install gcc libc6-dev`)",
}


def pytest_addoption(parser):
    """`./berth test --fast` gives this: the whole suite draws all examples."""
    parser.addoption("--fewer-examples", action="store_true", help="let Hypothesis draw a quarter of the examples")


def pytest_configure(config):
    """Watch over what the tests start and cost. A process that gets its tests from another one tells that one."""
    config.pluginmanager.import_plugin("tests.together")
    config.pluginmanager.register(Costs())
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Ending())
        if SKIPPED in os.environ:
            config.pluginmanager.register(Skipped(os.environ.pop(SKIPPED)))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Let the files of a group come to one process. (`--dist loadgroup` of xdist 3.8 finds no group with pytest 9.2.)"""

    class ByGroup(LoadFileScheduling):
        def _split_scope(self, nodeid):
            return group_of(super()._split_scope(nodeid))

    return ByGroup(config, log) if config.getvalue("dist") == "loadfile" else None


@functools.cache
def chromium_path():
    """The browser on PATH, or None."""
    return next(filter(None, map(shutil.which, BROWSERS)), None)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item, nextitem):
    """Run the test as pytest does, with room for deep calls: it begins thirty calls down."""
    protocol = pytest_rerunfailures if item.get_closest_marker("flaky") else runner
    return roomy(protocol.pytest_runtest_protocol, item, nextitem)


def pytest_ignore_collect(collection_path, config):
    """Files whose tests are all left out are not even imported."""
    return all_are_left_out(collection_path, config.rootpath, config.option.markexpr) or None


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(config, items):
    """Mark the tests that are not pure and those that may fail once. Skip browser tests where no browser is."""
    for item in items:
        if not is_pure(item):
            item.add_marker(pytest.mark.impure)
        if waits(item):
            item.add_marker(pytest.mark.flaky(reruns=1))
        if chromium_path() is None and item.get_closest_marker("browser"):
            item.add_marker(pytest.mark.skip(reason=f"SKIPPED LOUDLY: {LOUD['browser']}"))
        leave_django_out(item)
    if config.getoption("--fewer-examples"):
        examples_cut(getattr(item.obj, "__func__", item.obj) for item in items)
    yield
    put_in_order(items)  # after pytest-django, which would tear files apart


def pytest_collection_finish(session):
    """Imported modules and collected tests stay until the end: the garbage collector need not walk them again and again."""
    gc.enable()
    gc.collect()
    gc.freeze()
    gc.set_threshold(200_000, 20, 100)  # a search for rings after each 700 new objects takes a twentieth of the time


def pytest_terminal_summary(terminalreporter):
    """Say in one line each what did not run because the machine lacks something."""
    loud = {}
    for report in terminalreporter.stats.get("skipped", []):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        if "SKIPPED LOUDLY" in reason:
            loud.setdefault(reason.partition("SKIPPED LOUDLY: ")[2], []).append(report.nodeid)
    for reason, skipped in loud.items():
        terminalreporter.write_line(f"!!! SKIPPED: {len(skipped)} tests did not run: {reason}", red=True, bold=True)
    stats = terminalreporter.stats
    failed = {report.nodeid for outcome in ("failed", "error") for report in stats.get(outcome, [])}
    for name in {report.nodeid: None for report in stats.get("rerun", []) if report.nodeid not in failed}:
        terminalreporter.write_line(f"FLAKY: failed, and passed when it was run again: {name}", red=True, bold=True)
