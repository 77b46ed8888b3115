"""The pages' words about waiting: the notice knows every reason, and a node's memory is the requested one."""

import re

import pytest
from django.utils import timezone

from portal.pages.dashboard.jobs.facts import facts_asked
from portal.pages.dashboard.jobs.rows import gpus_words
from portal.pages.dashboard.overview.queue import idle_notice
from portal.pages.dashboard.parts.formatting import count_of, memory
from portal.pages.dashboard.parts.snapshot import Snapshot
from portal.work.jobs.models import Job
from scheduler.model import Reason
from scheduler.planning.decided import INELIGIBLE
from tests.portal import given

pytestmark = pytest.mark.django_db
COUNTED = [reason for reason in Reason if reason not in INELIGIBLE and reason is not Reason.NOT_PLANNED_YET]


@pytest.mark.parametrize("reason", COUNTED)
def test_the_notice_names_every_reason_for_which_a_job_may_wait_beside_idle_gpus(cluster, reason):
    for count in (1, 2):
        job = cluster.submit(gpus=4)
        Job.objects.filter(pk=job.pk).update(reason=reason, waiting_since=timezone.now())
        text = idle_notice(Snapshot(cluster.owner))["text"]
        assert re.match(rf"{count} \w", text), text
        assert str(reason) not in text, "in words"
    assert text.endswith(".")


@pytest.mark.parametrize(("gpus", "words"), [(4, "needs 4"), ([1, 2, 4], "needs {1, 2, 4}")])
def test_only_a_choice_of_sizes_stands_in_braces(cluster, gpus, words):
    job = cluster.submit(gpus=gpus)
    assert "".join(part["text"] for part in gpus_words(job, None)) == words
    assert ("GPUs", words.removeprefix("needs ")) in facts_asked(job)


@pytest.mark.parametrize(
    ("value", "word", "words"), [(1, "GPU", "1 GPU"), (0, "GPU", "0 GPUs"), (2, "core", "2 cores")]
)
def test_one_is_not_several(value, word, words):
    assert count_of(value, word) == words


@pytest.mark.parametrize(("mib", "words"), [(81920, "80 GiB"), (9001, "8.79 GiB"), (512, "0.5 GiB")])
def test_memory_is_told_in_gib(mib, words):
    assert memory(mib) == words


@pytest.mark.parametrize(("asked", "words"), [(None, "none of 16 GiB"), (4000, "3.9 of 16 GiB")])
def test_a_node_shows_the_memory_that_jobs_asked_for(client, cluster, asked, words):
    node = given.node_make("n2", memory_mib=16 * 1024)
    cluster.start(cluster.submit(gpus=1), node, memory_mib=asked or 0)
    client.force_login(cluster.owner, backend="django.contrib.auth.backends.ModelBackend")
    page = client.get("/cluster/").content.decode()
    row = re.search(r'<tr data-node="n2">.*?</tr>', page, re.DOTALL).group()
    assert words in re.sub(r"<[^>]*>|\s+", " ", row)
