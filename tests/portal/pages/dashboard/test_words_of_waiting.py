"""The pages' words about waiting, and a node's memory is the requested one."""

import re

import pytest

from portal.pages.dashboard.jobs.facts import facts_asked
from portal.pages.dashboard.jobs.rows import gpus_words
from portal.pages.dashboard.parts.formatting import count_of, memory
from tests.portal import given

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(("gpus", "words"), [(4, "4"), ([1, 2, 4], "1, 2 or 4")])
def test_a_choice_of_sizes_is_told_in_words(cluster, gpus, words):
    job = cluster.submit(gpus=gpus)
    assert gpus_words(job, None) == words
    assert ("GPUs", words) in facts_asked(job)


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
    page = client.get("/cluster/n2/").content.decode()
    assert f"Memory asked for {words}" in " ".join(re.sub(r"<[^>]*>", " ", page).split())
