"""The tests have a data directory of their own: they neither read nor write that of an installation in the same clone."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from django.conf import settings

from tests.settings import MARK

ROOT = Path(__file__).resolve().parents[1]


def test_the_data_directory_is_not_the_installation_s():
    assert not settings.DATA_DIR.is_relative_to(ROOT)
    assert stat.S_IMODE(settings.DATA_DIR.stat().st_mode) == 0o700


@pytest.mark.impure
def test_commands_that_tests_start_get_it_too():
    asked = "import django; django.setup(); from django.conf import settings; print(settings.DATA_DIR)"
    done = subprocess.run([sys.executable, "-c", asked], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == str(settings.DATA_DIR), done.stderr


@pytest.mark.impure
def test_a_directory_that_the_caller_named_is_not_used(tmp_path):
    """An operator's shell may name the data of a Berth that serves people."""
    (tmp_path / "test_it.py").write_text(
        "def test_it(settings):\n    print('DATA', settings.DATA_DIR)\n    assert not settings.DATA_DIR.is_relative_to('/named')\n"
    )
    (tmp_path / "pytest.ini").write_text("[pytest]\nDJANGO_SETTINGS_MODULE = tests.settings\n")
    environment = os.environ | {"BERTH_DATA_DIR": "/named/by/the/caller", "PYTHONPATH": str(ROOT)}
    del environment[MARK]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-s", "-p", "no:cacheprovider", str(tmp_path)],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    used = Path(done.stdout.partition("DATA ")[2].split("\n")[0])
    assert not used.exists(), "it went with the tests"
