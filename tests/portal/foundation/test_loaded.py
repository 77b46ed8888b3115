"""The modules of each process, and that a portal's garbage collector does not walk those that it has loaded for good."""

import ast
import functools
import os
import subprocess
import sys

import pytest

from portal.foundation.layout import SOURCE
from portal.planning.rounds.settings.schedule import FIXED_S, QUEUES

pytestmark = pytest.mark.impure  # processes of their own

CODE = """
import gc, sys, django
django.setup()
from portal.foundation.loaded import portal_loaded
portal_loaded()
assert "portal.pages.dashboard.pages" in sys.modules or "portal.pages.dashboard.views" in sys.modules, "the first request would load them"
print(gc.get_freeze_count(), len(gc.get_objects()))
before = gc.get_stats()
rows = [{"job": number, "nodes": [number]} for number in range(60_000)]
passes = [now["collections"] - then["collections"] for now, then in zip(gc.get_stats(), before)]
assert passes[0] <= 13 and passes[2] == 0, passes
"""


def test_views_are_loaded_and_what_stands_then_is_out_of_the_collectors_way():
    environment = os.environ | {"DJANGO_SETTINGS_MODULE": "tests.settings"}
    ran = subprocess.run([sys.executable, "-c", CODE], cwd=SOURCE, env=environment, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    frozen, watched = map(int, ran.stdout.split())
    assert frozen > 100_000 > 100 * watched


LOOKED_FOR = (
    "portal.planning.rounds.tasks portal.pages.laboratory.tasks portal.operate.backups.tasks portal.urls portal.foundation.console.base psycopg cryptography.x509 "
    "scheduler.policies scheduler.simulator.engine"
).split()


@functools.cache
def loaded_by(app):
    """The modules of LOOKED_FOR and the tasks in a process of Celery that begins by importing the app's tasks."""
    program = (
        f"import sys; from portal.foundation import celery; celery.{app}.loader.import_default_modules(); "
        f"print(([name for name in {LOOKED_FOR} if name in sys.modules], sorted(celery.{app}.tasks)))"
    )
    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "portal.settings"}
    environment.pop("CELERY_SKIP_CHECKS", None)
    environment.pop("DATABASE_URL", None)  # SQLite
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, cwd=SOURCE, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return ast.literal_eval(done.stdout)


def test_celery_s_processes_load_what_they_work_with_alone():
    """Pages, console and REST would make each a quarter slower and 18 MiB larger; the simulator waits for a simulation."""
    rooms = ["portal.planning.rounds.tasks", "portal.pages.laboratory.tasks", "portal.operate.backups.tasks"]
    assert loaded_by("app")[0] == [*rooms, "scheduler.policies"]
    assert loaded_by("laboratory")[0] == rooms[1:]
    assert loaded_by("clock")[0] == []


def test_each_worker_knows_all_tasks_of_its_queue():
    """Asked of processes of their own: here all rooms' tasks are loaded. What a worker does not know it throws away."""
    assert QUEUES.keys() <= set(loaded_by("laboratory")[1])
    assert {"rounds.plan", *FIXED_S} - QUEUES.keys() <= set(loaded_by("app")[1])
