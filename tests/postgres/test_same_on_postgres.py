"""The tests of constraints, locks and races again, on a real Postgres: there writers really run side by side."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
AGAIN = [
    "tests/portal/people/accounts/test_guesses.py",
    "tests/portal/foundation/api/test_walks.py",
    "tests/portal/work/jobs/test_invariant_resources.py",
    "tests/portal/work/jobs/test_invariant_once.py",
    "tests/portal/work/jobs/test_losses_made_good.py",
    "tests/portal/work/jobs/test_ending.py",
    "tests/portal/work/jobs/test_arrays.py",
    "tests/portal/work/jobs/test_races.py",
    "tests/portal/work/jobs/test_retry.py",
    "tests/portal/work/jobs/test_queue_counts.py",
    "tests/portal/work/jobs/test_state_machine.py",
    "tests/portal/work/jobs/test_log_both.py",
    "tests/portal/work/jobs/test_lines.py",
    "tests/portal/work/artefacts/test_odd_texts.py",
    "tests/portal/hostile/test_odd_texts.py",
    "tests/portal/cluster/test_telemetry.py",
    "tests/portal/pages/dashboard/test_at_size.py",
    "tests/portal/pages/dashboard/test_one_count.py",
    "tests/portal/planning/rounds/settings/test_effects.py",
    "tests/portal/planning/rounds/asking/test_first_starts.py",
    "tests/portal/work/sweeps/test_sweeps.py",
    "tests/portal/planning/rounds/record/test_metrics.py",
    "tests/portal/planning/rounds/planning/test_plannings.py",
    "tests/portal/planning/rounds/planning/test_queue_kept.py",
    "tests/portal/planning/rounds/planning/test_sharing.py",
    "tests/portal/planning/rounds/planning/test_stops.py",
    "tests/portal/foundation/test_bulk.py",
    "tests/portal/planning/estimation/test_records.py",
    "tests/portal/planning/estimation/test_cells.py",
    "tests/portal/test_migrations.py::test_there_and_back",
]


@pytest.mark.slow
@pytest.mark.postgres
def test_the_same_on_postgres(postgres_url):
    names = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *AGAIN],
        cwd=ROOT,
        env=names | {"DATABASE_URL": postgres_url},
        capture_output=True,
        text=True,
        timeout=2400,  # for a hang, not for a busy machine
        check=False,
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
