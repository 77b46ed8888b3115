"""A worker that is killed leaves nothing in the machine's temporary folder."""

import os
import secrets
import signal
import subprocess
import sys

import pytest

from portal.foundation.layout import SOURCE

WORKER = ["celery", "-A", "portal", "worker", "--pool", "prefork", "--concurrency", "1", "--loglevel", "INFO"]


@pytest.mark.impure
def test_a_killed_worker_leaves_no_folder_behind(broker_server, tmp_path):
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    (tmp_path / "key").write_text(secrets.token_urlsafe(48))
    environment = os.environ | {
        "TMPDIR": str(temporary),
        "REDIS_URL": broker_server.url,
        "BERTH_SECRET_KEY_FILE": str(tmp_path / "key"),
        "BERTH_DATA_DIR": str(tmp_path),
        "DJANGO_SETTINGS_MODULE": "portal.settings",
    }
    worker = subprocess.Popen(
        [sys.executable, "-m", *WORKER],
        env=environment,
        cwd=SOURCE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        said = []
        for line in worker.stdout:  # to its end, where the worker ends by itself
            said.append(line)
            if " ready." in line:
                break
        assert " ready." in said[-1], "".join(said)
    finally:
        os.killpg(worker.pid, signal.SIGKILL)
        worker.communicate()
    assert list(temporary.iterdir()) == []
