"""How fast the pages that show jobs answer with a long queue: the views as they are, on a filled private database.

Requests go through Django's own handler with a signed-in operator and a tenant's member, so that middleware, queries and
templates count, the network does not. The process's own processor time stands beside the wall time, and the number of
SQL statements beside both.
"""

from __future__ import annotations

import json
import time
from typing import Any

import numpy as np
from django.db import connection
from django.test import Client, override_settings
from django.urls import reverse

from portal.bench.errors import BenchError
from portal.bench.filling import contact_refresh, database_fill
from portal.bench.round import queries_counted
from portal.rounds.planning import planning_run
from portal.tenants.models import User

TARGET_P95_S = 0.15
PAGES = (
    ("jobs", "job-list", ""),
    ("jobs, page 100", "job-list", "?page=100"),
    ("jobs, waiting for one reason", "job-list", "?state=PENDING&reason=outside-window"),
    ("overview", "overview", ""),
    ("queue", "queue", ""),
)
PLAIN = {"staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}}


def pages_measure(*, gpus: int, jobs: int, seed: int, requests: int) -> dict[str, Any]:
    """Fill the present database, which must be empty, plan once, and ask for each page `requests` times."""
    if requests < 1:
        raise BenchError("--requests must be at least 1.")
    database_fill(gpus=gpus, jobs=jobs, seed=seed)
    contact_refresh()
    planning_run()
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("VACUUM ANALYZE")  # as autovacuum would have
    operator = User.objects.create(username="operator", is_staff=True, is_superuser=True)
    figures: dict[str, Any] = {"database": connection.vendor, "gpus": gpus, "jobs": jobs, "target_p95_s": TARGET_P95_S}
    with override_settings(ALLOWED_HOSTS=["*"], STORAGES=PLAIN, SECURE_SSL_REDIRECT=False):
        for cast, user in (("operator", operator), ("member", User.objects.get(username="member-1"))):
            client = Client()
            client.force_login(user, backend="django.contrib.auth.backends.ModelBackend")
            figures[cast] = {name: _page(client, reverse(view) + query, requests) for name, view, query in PAGES}
    return figures


def _page(client: Client, path: str, requests: int) -> dict[str, Any]:
    wall, cpu, sent = [], [], set()
    for _ in range(requests + 1):
        contact_refresh()
        began_s, began_cpu_s = time.monotonic(), time.process_time()
        with queries_counted() as count:
            answer = client.get(path)
        wall.append(time.monotonic() - began_s)
        cpu.append(time.process_time() - began_cpu_s)
        sent.add(count[0])
        if answer.status_code != 200:
            raise BenchError(f"{path} answered {answer.status_code}")
    return {
        "first_s": round(wall[0], 4),
        "p50_s": round(float(np.percentile(wall[1:], 50)), 4),
        "p95_s": round(float(np.percentile(wall[1:], 95)), 4),
        "cpu_p50_s": round(float(np.percentile(cpu[1:], 50)), 4),
        "queries": max(sent),
        "bytes": len(answer.content),
    }


def pages_report(figures: dict[str, Any], *, as_json: bool) -> str:
    if as_json:
        return json.dumps(figures)
    rows = [f"{figures['jobs']} jobs, {figures['gpus']} GPUs, {figures['database']}; target p95 150 ms"]
    for cast in ("operator", "member"):
        for name, own in figures[cast].items():
            times = f"p50 {1000 * own['p50_s']:.0f} ms, p95 {1000 * own['p95_s']:.0f} ms"
            rows.append(
                f"{cast:8} {name:30} {times}, processor {1000 * own['cpu_p50_s']:.0f} ms, {own['queries']} queries"
            )
    return "\n".join(rows)
