"""What each process loads, and that a portal's garbage collector does not walk what it has loaded for good."""

import ast
import os
import subprocess
import sys

import pytest

from portal.celery import laboratory
from portal.layout import SOURCE
from portal.rounds.settings.schedule import QUEUES

pytestmark = pytest.mark.impure  # processes of their own

CODE = """
import gc, sys, django
django.setup()
from portal.loaded import portal_loaded
portal_loaded()
assert "portal.dashboard.pages" in sys.modules or "portal.dashboard.views" in sys.modules, "the first request would load them"
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
    "portal.rounds.tasks portal.laboratory.tasks portal.backups.tasks portal.urls unfold.admin psycopg cryptography.x509 "
    "scheduler.policies scheduler.simulator.engine"
).split()


def loaded_by(app):
    """What of LOOKED_FOR a process of Celery has loaded that begins by importing the app's tasks."""
    program = (
        f"import sys; from portal import celery; celery.{app}.loader.import_default_modules();"
        f"print([name for name in {LOOKED_FOR} if name in sys.modules])"
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
    rooms = ["portal.rounds.tasks", "portal.laboratory.tasks", "portal.backups.tasks"]
    assert loaded_by("app") == [*rooms, "scheduler.policies"]
    assert loaded_by("laboratory") == rooms[1:]
    assert loaded_by("clock") == []


def test_the_laboratory_s_worker_knows_each_task_of_its_queue():
    laboratory.loader.import_default_modules()
    laboratory.finalize()
    assert QUEUES.keys() <= laboratory.tasks.keys()


def test_what_only_sets_django_up_loads_no_board_no_policies_and_no_numpy():
    """Each process of a Berth and each `./berth manage` begins so. What needs the board or the policies loads them later."""
    looked_for = ["portal.dashboard.board", "scheduler.policies", "scheduler.model", "numpy", "portal.jobs"]
    program = f"import sys, django; django.setup(); print([name for name in {looked_for} if name in sys.modules])"
    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "portal.settings"}
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, cwd=SOURCE, env=environment, capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "['portal.jobs']", done.stdout + done.stderr
