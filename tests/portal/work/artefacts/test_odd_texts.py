"""Characters that no page, no answer and no database takes, in every file that a job writes: shown, or said why not."""

import pytest
from django.db import transaction
from django.test import Client
from django.urls import reverse
from hypothesis import HealthCheck, Phase, example, given, settings

from portal.pages.dashboard.artefacts.curves import curves_of
from portal.work.artefacts.models import Artefact
from tests.portal.odd_texts import TEXTS, read
from tests.portal.work.artefacts.odd_files import files, raw
from tests.portal.work.artefacts.sending import NS, Sender

pytestmark = [pytest.mark.django_db, pytest.mark.slow]
SEVERAL = settings(
    max_examples=1, deadline=None, suppress_health_check=list(HealthCheck), phases=(Phase.explicit, Phase.generate)
)


@pytest.fixture
def lena(cluster):
    client = Client()
    client.force_login(cluster.owner)
    return client


@pytest.fixture
def senders(cluster):
    return [Sender(cluster, cluster.running(gpus=0, cores=1)) for _ in range(2)]


@SEVERAL
@given(TEXTS)
@example("\ud800a\0\udfff\ufffe\u202e")
@example("\udcff\uffff\x85\u2028\x1b[31m\r<b>'\"\\{{")
def test_a_jobs_own_files_fail_no_page_and_no_answer(senders, lena, text):
    with transaction.atomic():
        given_files = files(text)
        for sender, sent in zip(senders, (given_files, ["metrics.jsonl", "run/metrics.jsonl"]), strict=True):
            for path in sent:
                sender.send(path, given_files[path])
        jobs = [sender.attempt.job for sender in senders]
        first = jobs[0].number
        assert Artefact.objects.filter(job=jobs[0], kept_at__isnull=False).count() == len(given_files)
        for path in given_files:
            read(lena, reverse("job-artefacts-fragment", args=[first, "shown"], query={"path": path}))
        both = "&".join(f"job={job.number}" for job in jobs)
        pages = [reverse("job-artefacts", args=[first]), reverse("job-detail", args=[first]), f"/jobs/compare?{both}"]
        for page in [*pages, f"/api/v1/jobs/{first}/artefacts", f"/api/v1/jobs/{first}"]:
            read(lena, page)
        names = list(curves_of(jobs[0])["series"])
        assert {"a", "run/a"} <= set(names)
        for name in names:
            read(lena, reverse("job-artefacts-figure", args=[first], query={"name": name}))
            compared = reverse("job-compare-figure", args=["curve"], query={"curve": name})
            read(lena, f"{compared}&{both}")
        transaction.set_rollback(True)


@settings(SEVERAL, max_examples=30)
@given(TEXTS)
def test_a_name_that_a_node_tells_fails_no_page(senders, lena, text):
    """As the agent sends it: JSON, and bytes that are no text as halves of pairs."""
    with transaction.atomic():
        sender = senders[0]
        number = sender.attempt.job.number
        sender.send("good.txt", b"x")
        for path in (text, f"folder/{text}", f"{text}/x.txt"):
            status, answer = sender.tell((path, 1, NS))
            assert status in {200, 400}, answer
            notes = [{"path": path, "why": text}]
            assert sender.tell(notes=notes)[0] in {200, 400}
        for page in (f"/api/v1/jobs/{number}/artefacts", reverse("job-artefacts", args=[number])):
            assert "good.txt" in read(lena, page)
        read(lena, reverse("job-detail", args=[number]))
        transaction.set_rollback(True)


def test_the_files_hold_what_was_drawn():
    """The test's own writers: a text that they drop would test nothing."""
    assert [path for path, data in files("\ud800q").items() if b"q" not in data] == []
    assert sum(raw("\ud800") in data for data in files("\ud800q").values()) > 12
