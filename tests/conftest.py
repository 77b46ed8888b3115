"""What all tests share: real servers on free ports and private directories, and skips that nobody can overlook."""

import gc
import os
import shutil
import sys

import pytest
from _pytest import runner

from portal.deep_calls import roomy
from portal.launch.testing import COSTS, FAILED, SKIPPED
from research.screenshots.camera import BROWSERS
from tests.berths import berth_once, berth_up, demo_template, template  # noqa: F401 - fixtures
from tests.costs import Costs
from tests.databases import django_db_setup  # noqa: F401 - a fixture
from tests.examples import examples_cut
from tests.failures import Named
from tests.house import running_checks
from tests.purity import is_pure, leave_django_out, none_is_pure
from tests.servers import broker_server, postgres_server, postgres_url  # noqa: F401 - fixtures

# The tests start two thousand processes of ours: each module is compiled once, not in each of them, whatever the
# caller's environment says (a third of what such a process needs before it does anything).
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
gc.disable()  # until all tests are collected: what is imported stays

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
    """Count what each file costs, when `./berth test` asks; not in the process that only hands out work to others."""
    config.pluginmanager.import_plugin("tests.together")
    hands_out = config.getoption("numprocesses", None) and "PYTEST_XDIST_WORKER" not in os.environ
    if COSTS in os.environ and not hands_out:
        config.pluginmanager.register(Costs(os.environ.pop(COSTS)))
    for outcome, variable in (("failed", FAILED), ("skipped", SKIPPED)):
        if variable in os.environ and not hasattr(config, "workerinput"):
            config.pluginmanager.register(Named(outcome, os.environ.pop(variable)))


def chromium_path():
    """The browser on PATH, or None."""
    return next(filter(None, map(shutil.which, BROWSERS)), None)


@pytest.fixture(scope="session", autouse=True)
def house_checks(request):
    """{rule: process} of the linters, started first when the house's rules are among the tests, which come last."""
    if not any(item.path.name == "test_house.py" for item in request.session.items):
        yield {}
        return
    with running_checks() as started:
        yield started


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item, nextitem):
    """Run the test as pytest does, with room for deep calls: it begins thirty calls down."""
    return roomy(runner.pytest_runtest_protocol, item, nextitem)


def pytest_ignore_collect(collection_path, config):
    """Where impure tests are left out, files of which no test is pure are not even imported."""
    left_out = "not impure" in config.option.markexpr and none_is_pure(collection_path, config.rootpath)
    return True if left_out else None


def pytest_collection_modifyitems(config, items):
    """Mark what is not pure; the core needs no Django; without a browser skip browser tests; the house's rules come last."""
    for item in items:
        if not is_pure(item):
            item.add_marker(pytest.mark.impure)
        leave_django_out(item)
    items.sort(key=lambda item: item.path.name == "test_house.py")
    if config.getoption("--fewer-examples"):
        examples_cut(getattr(item.obj, "__func__", item.obj) for item in items)
    if chromium_path() is None:
        for item in items:
            if item.get_closest_marker("browser"):
                item.add_marker(pytest.mark.skip(reason=f"SKIPPED LOUDLY: {LOUD['browser']}"))


def pytest_collection_finish(session):
    """What was imported and collected stays until the end: the garbage collector need not walk it after each thousand objects."""
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
