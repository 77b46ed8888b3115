"""A part that took more of a shared GPU's memory than it was granted: how its job ends, and what its page says."""

import pytest

from portal.dashboard.jobs.remedies import remedy_for
from portal.dashboard.jobs.why import why_make
from portal.jobs.models import Attempt, Job
from portal.jobs.services.ending import attempt_end_state
from portal.jobs.states import AttemptState, JobState

pytestmark = pytest.mark.django_db
DETAIL = "out of GPU memory: used 1200 MiB of 1000 MiB granted (gpu_memory_mib)"


@pytest.mark.parametrize("others", [[], [("stopped", None)], [("exit", 0)]])
def test_the_attempt_is_out_of_memory_whatever_its_partners_did(others):
    ended = attempt_end_state(parts=[("gpu_memory_limit", None), *others], stop_reason="")
    assert ended == AttemptState.OUT_OF_MEMORY


def test_the_job_says_how_much_it_took_and_what_to_do(cluster):
    cluster.end(cluster.running(), reason="gpu_memory_limit", exit_code=None, detail=DETAIL)
    job = Job.objects.get()
    assert (job.state, job.end_detail) == (JobState.OUT_OF_MEMORY, DETAIL)
    assert "more gpu_memory_mib" in remedy_for(job)
    sentence = why_make(job, {}, list(Attempt.objects.all()))["sentence"]
    assert "Stopped" in sentence
    assert sentence.endswith(f": {DETAIL}.")
    assert "memory than it asked for" not in sentence
    assert Attempt.objects.get().allocations.get().end_reason == "gpu_memory_limit"
