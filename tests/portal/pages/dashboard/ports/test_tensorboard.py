"""From an event file among a job's results to the form of a job that shows it."""

import pytest
from django.http import QueryDict

from portal.pages.dashboard.artefacts.tree import tensorboard_url
from portal.pages.dashboard.submit.start import TENSORBOARD, again_values
from portal.work.jobs.description import description_parse

pytestmark = pytest.mark.django_db


def test_event_files_lead_to_a_valid_job_that_begins_with_their_folder(cluster):
    job = cluster.running().job
    assert tensorboard_url(job, "runs/model.pt") is None
    for path, folder in (
        ("runs/a/events.out.tfevents.17.n1", "runs/a/"),
        ("events.out.tfevents.17", "events.out.tfevents.17"),
    ):
        query = QueryDict(tensorboard_url(job, path).partition("?")[2])
        values = again_values(job, query)
        assert values["inputs"] == f"{job.number}:{folder} as events/{folder}".rstrip("/")
        assert values["command"] == TENSORBOARD["command"]
        inputs = [{"job": job.pk, "path": folder, "as": f"events/{folder}".rstrip("/")}]
        assert description_parse(TENSORBOARD | {"inputs": inputs}).name == "tensorboard"
