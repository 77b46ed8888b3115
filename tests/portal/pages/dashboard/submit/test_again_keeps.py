"""Edit and relaunch: the form begins with each value of an earlier description, and reads the same value from it."""

import pytest
from django.http import QueryDict
from django.urls import reverse

from portal.pages.dashboard.submit.form import fields_make, initial_of
from portal.pages.dashboard.submit.reading import description_read
from portal.work.jobs.description import description_parse
from portal.work.jobs.services.submission import job_submit


def form_of(description):
    """The form as a browser sends it where nobody changes it."""
    values = initial_of(description)
    fields = fields_make(values, tenants=[], gpu_types=["A"], software=[], secrets=[], errors={}, effects={})
    sent = QueryDict(mutable=True)
    sent["gpu_mode"] = values["gpu_mode"]
    sent.setlist("gpus", [str(each) for each in values["gpus"]])
    for name in ("gpus.min", "gpus.max"):
        sent[name] = str(values.get(name, ""))
    for name, field in fields.items():
        if field["kind"] == "check":
            if field["checked"]:
                sent[name] = "on"
        elif "choices" in field:
            sent.setlist(name, [each["value"] for each in field["choices"] if each["selected"]])
        else:
            sent[name] = field["value"].replace("\n", "\r\n")
    return sent


GIVEN = [
    {"labels": ["a", "b"]},
    {"labels": {"a": "", "b": "c"}},
    {"time_limit_s": 12_345_678},
    {"time_limit_s": 316_223_999},
    {"time_limit_s": 5400},
    {"idle_timeout_s": 1_000_001},
    {"expected_duration_s": 0.5},
    {"expected_duration_s": 1_000_000.5},
    {"disk_gib": 123_456.789},
    {"memory_mib": 549_755_813_888},
    {"epochs": 2, "dataset_size": 5},
    {"epochs": 2.0, "dataset_size": 5},
    {"samples": 5.76e6, "batch_per_gpu": 64.0},
    {"gpus": {"min": 1.0, "max": 4.0}},
    {"gpus": 2.0},
    {"gpus": None, "cores": 1},
    {"gpus": 0, "cores": 1},
    {"array": {"size": 3.0, "concurrency": 2.0}},
    {"depends_on": [{"job": 2, "kind": None}, {"job": 3, "kind": "any"}, {"kind": "singleton"}]},
    {"start_after": "2030-12-01T08:00:00.123456+01:00"},
    {"time_limit_s": None, "labels": None, "array": None, "depends_on": None, "epochs": None, "software": None},
]


def test_each_value_comes_back(subtests):
    for given in GIVEN:
        with subtests.test(given=given):
            description = {"command": "true", "gpus": 1, **given}
            read = description_read(form_of(description))
            assert read.problems == []
            assert description_parse(read.description) == description_parse(description)


def test_a_duration_that_is_whole_hours_is_told_in_hours():
    told = initial_of({"time_limit_s": 5400, "idle_timeout_s": 90, "grace_s": 86_399, "expected_duration_s": 7200})
    names = ("time_limit_s", "idle_timeout_s", "grace_s", "expected_duration_s")
    assert [told[name] for name in names] == ["1.5 h", "90 s", "86399 s", "2 h"]


@pytest.mark.django_db
@pytest.mark.parametrize("given", [{}, {"gpus": None}])
def test_a_job_without_gpus_begins_as_one_again(cluster, client, given):
    """Without `gpus` it is a CPU job: its page said 500, or the form asked for a GPU."""
    job = job_submit(user=cluster.owner, description={"command": "true", **given})
    client.force_login(cluster.owner)
    page = client.get(reverse("job-submit") + f"?from={job.pk}")
    assert [each["value"] for each in page.context["gpus"]["counts"] if each["selected"]] == [0]
