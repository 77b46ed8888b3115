"""What each process loads, and that a portal's garbage collector does not walk what it has loaded for good."""

import os
import subprocess
import sys

import pytest

from portal.layout import SOURCE

pytestmark = pytest.mark.impure  # processes of their own

CODE = """
import gc, sys, django
django.setup()
from portal.loaded import portal_loaded
portal_loaded()
assert "portal.dashboard.pages" in sys.modules or "portal.dashboard.views" in sys.modules, "the first request would load them"
print(gc.get_freeze_count(), len(gc.get_objects()))
"""


def test_views_are_loaded_and_what_stands_then_is_out_of_the_collectors_way():
    environment = os.environ | {"DJANGO_SETTINGS_MODULE": "tests.settings"}
    ran = subprocess.run([sys.executable, "-c", CODE], cwd=SOURCE, env=environment, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    frozen, watched = map(int, ran.stdout.split())
    assert frozen > 100_000 > 100 * watched


def test_worker_and_beat_load_no_pages():
    """They begin by importing the tasks; pages, console and REST would make each a quarter slower and 18 MiB larger."""
    program = (
        "import sys; from portal.celery import app; app.loader.import_default_modules();"
        "print([name for name in ('portal.rounds.tasks', 'portal.urls', 'unfold.admin') if name in sys.modules])"
    )
    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "portal.settings"}
    environment.pop("CELERY_SKIP_CHECKS", None)
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, cwd=SOURCE, env=environment, capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "['portal.rounds.tasks']", done.stdout + done.stderr


def test_what_only_sets_django_up_loads_no_board_and_no_policies():
    """Each process of a Berth and each `./berth manage` begins so. What needs the board or the policies loads them later."""
    program = (
        "import sys, django; django.setup();"
        "print([name for name in ('portal.dashboard.board', 'scheduler.policies', 'portal.jobs') if name in sys.modules])"
    )
    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "portal.settings"}
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, cwd=SOURCE, env=environment, capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "['portal.jobs']", done.stdout + done.stderr
