"""How fast every page, fragment and REST list answers at size, for a tenant's member and for an operator.

Requests go through Django's ASGI handler (`research.bench.asking`) on a filled private database, so that
middleware, queries and templates count; the network does not. Each is asked once unmeasured, then `requests` times. The
figures of a page are the worse cast's: `p95_ms` wall time, `cpu_ms` the mean processor time of this process, `sql_ms` the
median wait for statements, `queries` the most of them, `kb` the body before compression; `first_ms` the unmeasured first,
which found nothing prepared.
"""

from __future__ import annotations

import gzip
import json
from fnmatch import fnmatch
from typing import TYPE_CHECKING, Any

import numpy as np
from django.core.handlers.asgi import ASGIHandler
from django.db import connection
from django.test import Client, override_settings

from portal.foundation.loaded import portal_loaded
from portal.people.tenants.models import User
from portal.people.tenants.services import SCOPES, token_create
from portal.planning.rounds.models import OperatorSetting, Planning
from portal.planning.rounds.planning.run import planning_run
from portal.work.jobs.models import Job
from research.bench.asked import BOTH, OPERATOR, TENANT, Asked, asked_all
from research.bench.asking import Answer, asker, connection_kept
from research.bench.errors import BenchError
from research.bench.filling import contact_refresh, database_fill, texts_fill
from research.bench.filling_past import laboratory_fill, past_fill, plannings_fill
from research.workloads.queues import GPUS_PER_NODE

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

TARGET_P95_MS, TARGET_KB = 150.0, 300.0
ROWS_A_PAGE = 50
NAMES_SETTING = "bench-pages"
PLAIN = {"staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}}
WORSE = ("p95_ms", "cpu_ms", "sql_ms", "queries", "kb", "first_ms")


def pages_fill(*, nodes: int, jobs: int, seed: int) -> dict[str, Any]:
    """Fill the present database, which must be empty, with a queue of `jobs` and a week's past; plan once."""
    if nodes < 1:
        raise BenchError("--nodes must be at least 1.")
    database_fill(gpus=nodes * GPUS_PER_NODE, jobs=jobs, seed=seed)
    names = past_fill(jobs=jobs, seed=seed) | laboratory_fill()
    texts_fill()
    contact_refresh()
    planning_run()
    plannings_fill()
    User.objects.create(username="operator", is_staff=True, is_superuser=True)
    last = Planning.objects.select_related("round").order_by("-number").first()
    rows = Job.objects.top_level().count()
    names |= {"planning": last.number, "round": last.round.number} if last else {}
    names |= {"page_last": -(-rows // ROWS_A_PAGE)}
    names |= {f"page_{page}": min(page, names["page_last"]) for page in (100, 1000)}
    OperatorSetting.objects.create(name=NAMES_SETTING, value=names)
    if connection.vendor == "postgresql" and not connection.in_atomic_block:
        with connection.cursor() as cursor:
            cursor.execute("VACUUM ANALYZE")  # as autovacuum would have
    return names


def pages_measure(
    *, nodes: int, jobs: int, seed: int, requests: int, only: str = "*", filled: bool = False
) -> dict[str, Any]:
    """Fill the present database (`filled`: it is already), and ask for each page whose name matches `only`."""
    if requests < 1:
        raise BenchError("--requests must be at least 1.")
    if filled:
        kept = OperatorSetting.objects.filter(name=NAMES_SETTING).values_list("value", flat=True).first()
        if kept is None:
            raise BenchError("This database was not filled by `bench pages`; leave --filled out.")
        names = kept
    else:
        names = pages_fill(nodes=nodes, jobs=jobs, seed=seed)
    wanted = [each for each in asked_all(names) if fnmatch(each.name, only)]
    if not wanted:
        raise BenchError(f"No page is named {only}.")
    figures: dict[str, Any] = {
        "database": connection.vendor,
        "nodes": nodes,
        "jobs": jobs,
        "requests": requests,
        "target_p95_ms": TARGET_P95_MS,
        "target_kb": TARGET_KB,
    }
    portal_loaded()  # as the portal does when it starts
    with override_settings(ALLOWED_HOSTS=["*"], STORAGES=PLAIN, SECURE_SSL_REDIRECT=False), connection_kept():
        figures["pages"], figures["failed"] = _pages(wanted, requests)
    return figures


def _pages(wanted: list[Asked], requests: int) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the figures by page, and of those that did not answer 200 what they answered."""
    ask = asker(ASGIHandler())
    headers = {cast: _headers(cast) for cast in BOTH}
    pages: dict[str, Any] = {}
    failed: dict[str, str] = {}
    for each in wanted:
        contact_refresh()
        try:
            own = {cast: _page(ask, each, headers[cast][each.by_token], requests) for cast in each.casts}
        except BenchError as error:
            failed[each.name] = str(error)
            continue
        worse = {name: max(one[name] for one in own.values()) for name in WORSE}
        pages[each.name] = worse | {"most_queries": each.most_queries} | own
    return pages, failed


def _headers(cast: str) -> dict[bool, dict[str, str]]:
    """Return what a cast sends: {False: the headers of a session, True: those of a token}."""
    user = User.objects.get(username={TENANT: "member-1", OPERATOR: "operator"}[cast])
    client = Client()
    client.force_login(user, backend="django.contrib.auth.backends.ModelBackend")
    cookie = "; ".join(f"{name}={morsel.value}" for name, morsel in client.cookies.items())
    scopes = [scope for scope in SCOPES if cast == OPERATOR or scope != "operator"]
    _, secret = token_create(user=user, name="bench", scopes=scopes, actor=None)
    return {False: {"cookie": cookie}, True: {"authorization": f"Bearer {secret}"}}


def _page(
    ask: Callable[[str, Mapping[str, str]], Answer], wanted: Asked, headers: Mapping[str, str], requests: int
) -> dict[str, Any]:
    answers = [ask(wanted.path, headers) for _ in range(requests + 1)]
    for answer in answers:
        if answer.status not in wanted.statuses:
            raise BenchError(f"{wanted.path} answered {answer.status}: {answer.body[:200]!r}")
    first, *measured = answers
    body = measured[-1].body
    if measured[-1].headers.get("content-encoding") == "gzip":
        body = gzip.decompress(body)
    return {
        "p95_ms": _ms(np.percentile([each.wall_s for each in measured], 95)),
        "p50_ms": _ms(np.percentile([each.wall_s for each in measured], 50)),
        "cpu_ms": _ms(np.mean([each.cpu_s for each in measured])),
        "sql_ms": _ms(np.median([each.sql_s for each in measured])),
        "first_ms": _ms(first.wall_s),
        "queries": max(each.queries for each in measured),
        "kb": round(len(body) / 1000, 2),
    }


def _ms(seconds: Any) -> float:
    return round(1000 * float(seconds), 1)


def is_over(own: Mapping[str, Any]) -> bool:
    """Whether a page sends more queries than its line in the registry allows."""
    return own["most_queries"] is not None and own["queries"] > own["most_queries"]


def pages_report(figures: dict[str, Any], *, as_json: bool) -> str:
    if as_json:
        return json.dumps(figures)
    size = f"{figures['jobs']} jobs in the queue, {figures['nodes']} nodes, {figures['database']}"
    rows = [f"{size}; targets: p95 {TARGET_P95_MS:g} ms, {TARGET_KB:g} kB, queries as registered; * misses one"]
    for name, own in sorted(figures["pages"].items(), key=lambda item: -item[1]["cpu_ms"]):
        missed = "*" if own["p95_ms"] > TARGET_P95_MS or own["kb"] > TARGET_KB or is_over(own) else " "
        rows.append(
            f"{missed} {name:36} p95 {own['p95_ms']:6.0f} ms  processor {own['cpu_ms']:6.0f} ms  "
            f"SQL {own['sql_ms']:6.0f} ms  {own['queries']:3d} queries  {own['kb']:7.1f} kB"
        )
    rows += [f"! {name}: {said}" for name, said in figures["failed"].items()]
    return "\n".join(rows)
