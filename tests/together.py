"""Files whose tests share one Berth: one process runs them, one after another, and each leaves the Berth as it found it.

A start and an end of a demo take eight seconds of processor time, a browser and its sign-ins five. Whatever a file leaves
behind fails its last test, and the next file gets a new Berth; so it does after any failure.
"""

import contextlib
import json

import pytest

from tests.berths import factory

ENVIRONMENT = {
    "BERTH_LEASE_S": "900",
    "BERTH_IDLE_CORES_PERCENT": "1",
    "BERTH_GIT_SCHEMES": "https,ssh,http",
    "BERTH_AGENT_NICE": "0",
}
"""What one of the files needs, and none is about: no job ends by a lease, one file's jobs alone have idle time-outs, and jobs get
the little of a core that stands for a virtual GPU beside whatever else computes here, so that their speed is what it should be."""
WHEELS = "BERTH_AGENT_ENVIRONMENTS_WHEELS"
"""In it stands a directory that is empty at first, in which a file may lay wheels."""
LIMIT_S = 60.0
"""Time that a file's last jobs may take to end."""
STANDING = {
    "tenants": "select name, weight, gpu_quota, core_quota, queued_jobs_quota, is_active from tenants_tenant order by name",
    "people": "select u.username, u.is_active, u.time_zone, m.role, m.tenant_id from tenants_user u "
    "left join tenants_membership m on m.user_id = u.id order by u.username, m.tenant_id",
    "nodes that take jobs": "select name from cluster_node where drained_at is null and dead_at is null order by name",
    "their GPUs that take none": 'select n.name, g."index" from cluster_gpu g join cluster_node n on n.id = g.node_id '
    "where n.drained_at is null and (g.cordoned_at is not null or g.missing_since is not null)",
    "GPUs for sharing": "select g.id, g.mode from cluster_gpu g join cluster_node n on n.id = g.node_id "
    "where n.drained_at is null and g.mode <> 'exclusive'",
    "secrets": "select tenant_id, name from secrets_secret order by tenant_id, name",
    "webhooks": "select url from notifications_hook order by url",
    "open jobs": "select id, name, state from jobs_job where ended_at is null and id not in (select job_id from estimation_linkprobe)",
    "open simulations": "select id, name, state from simulations_simulation where ended_at is null",
}
"""Things that one file could leave to the next one."""


def standing(berth):
    """{what: rows} of all that a file must leave as it was, and which processes run."""
    from portal.planning.rounds.settings.knobs import KNOBS  # late: few processes that run tests need it, or httpx2
    from tests.system.helpers.client import rows

    found = {what: rows(berth, query) for what, query in STANDING.items()}
    kept = {name: json.loads(value) for name, value in rows(berth, "select name, value from rounds_operatorsetting")}
    found["operator settings"] = {knob.name: kept.get(knob.name, knob.default) for knob in KNOBS}
    return found | {"processes": sorted(name for role in ROLES for name in berth.pids(role))}


ROLES = ("supervisor", "broker", "portal", "worker", "beat", "agent")


def changed(before, after):
    """Say in words what is not as it was."""
    return {what: (before[what], after[what]) for what in before if before[what] != after[what]}


class Together:
    """The Berth of the files that run now, and the browser whose people are signed in to it."""

    def __init__(self, request):
        self.request, self._started = request, contextlib.ExitStack()
        self._berth = self._readers = None
        self.failures = 0

    def berth(self):
        if self._berth is None:
            start = self._started.enter_context(factory(self.request))
            wheels = self.request.getfixturevalue("tmp_path_factory").mktemp("wheels")
            self._berth = start(demo=True, workload=False, environment=ENVIRONMENT | {WHEELS: str(wheels)})
        return self._berth

    def readers(self):
        from tests.system.helpers import watching  # late: it needs conftest.py, which needs this

        if self._readers is None:
            self._readers = watching.Readers(self._started.enter_context(watching.browser_started()), self.berth())
        return self._readers

    def end(self):
        self._berth = self._readers = None
        self._started.close()


KEPT = pytest.StashKey()
FAILED_IN = pytest.StashKey()


@pytest.fixture(scope="session")
def together(request):
    made = request.config.stash[KEPT] = Together(request)
    yield made
    made.end()


@pytest.fixture(scope="module")
def berth_shared(request, together):
    """A demo without its workload which the other files of the `xdist_group` use too. A file changes back what it changes of it.

    A file with `SPENDS_ITS_BERTH` leaves it unfit for others. It stands last in its group.
    """
    assert group_of(request.node), "the file has no mark `xdist_group`"
    berth, failed = together.berth(), together.failures
    before = standing(berth)
    yield berth
    if together.failures > failed or hasattr(request.module, "SPENDS_ITS_BERTH"):
        together.end()
        return
    with contextlib.suppress(AssertionError):  # reported below, without all logs
        berth.wait(lambda: not changed(before, standing(berth)), limit_s=LIMIT_S)
    berth.wait_healthy()
    if left := changed(before, standing(berth)):
        together.end()
        pytest.fail(f"{request.path.name} left behind (before, after):\n{json.dumps(left, indent=1)}", pytrace=False)


@pytest.fixture(scope="module")
def readers_shared(together, berth_shared):
    """People who are signed in to it, each once for all files of a group."""
    return together.readers()


def group_of(item):
    mark = item.get_closest_marker("xdist_group")
    return mark and mark.args[0]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item):
    """Count failures, also of tests that are run again."""
    report = yield
    if report.failed and (made := item.config.stash.get(KEPT, None)):
        made.failures += 1
        item.stash[FAILED_IN] = getattr(item, "execution_count", 0)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item, nextitem):
    """End a group's Berth with its last test, for it idles at five seconds of processor time a minute.

    Its fixtures of wider scope stay for a test that is run again, and they need it.
    """
    try:
        return (yield)
    finally:
        made = item.config.stash.get(KEPT, None)
        again = item.get_closest_marker("flaky") and item.stash.get(FAILED_IN, None) == 1 == getattr(
            item, "execution_count", 0
        )
        if made and not again and (nextitem is None or group_of(item) != group_of(nextitem)):
            made.end()
