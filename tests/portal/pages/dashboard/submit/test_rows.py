"""The folded rows of the form: every field of a job is in one of them or above, and a closed row says what is in force."""

import re

import pytest
from django.http import QueryDict
from django.urls import reverse

from portal.pages.dashboard.submit.form import initial_of, initial_of_post
from portal.pages.dashboard.submit.rows import lines_make
from portal.work.jobs.declaration.table import INPUTS
from tests.portal.given import member
from tests.portal.pages.dashboard.test_templates import Page

BESIDE = {"gpus", "gpus.min", "gpus.max", "files", "code_from", "save_as"}
USUAL = {
    "software": "as on the node",
    "speed": "always 1 GPU, no expected duration",
    "limits": "no time limit, no memory limit, 100 GiB of disk",
    "more": "no variables or secrets, one run",
}
SAID = [
    ({"software": {"requirements": "numpy\ntqdm\n"}}, {"software": "the node with 2 packages"}),
    ({"software": {"requirements_file": "a.txt"}}, {"software": "the node with the packages of a.txt"}),
    ({"software": {"environment": "torch"}}, {"software": "environment torch"}),
    ({"software": {"image": "docker.io/a/b:1"}}, {"software": "docker.io/a/b:1"}),
    ({"gpus": [4, 8]}, {"speed": "4 or 8 GPUs, no expected duration"}),
    ({"gpus": {"min": 1, "max": 8}}, {"speed": "1 to 8 GPUs, no expected duration"}),
    ({"gpus": 0, "cores": 3}, {"speed": "no GPU, no expected duration", "limits": USUAL["limits"] + ", 3 cores"}),
    (
        {"category": "cv", "expected_duration_s": 7200, "checkpointable": True},
        {"speed": "always 1 GPU, images, about 2 h, saves checkpoints, may be moved"},
    ),
    (
        {"time_limit_s": 5400, "memory_mib": 24 * 1024, "disk_gib": 50, "idle_timeout_s": 1800, "cores_per_gpu": 2},
        {
            "limits": "at most 1.5 h, 24 GiB of memory, 50 GiB of disk, 2 cores a GPU asked, ended when not used for 30 min"
        },
    ),
    (
        {"environment": {"A": "1", "B": "2"}, "secrets": {"C": "c"}, "array": {"size": 24}, "grace_s": 90},
        {"more": "2 variables and 1 secret, 24 runs, grace"},
    ),
    ({"shareable": True, "gpu_compute": 0.25, "gpu_memory_mib": 4096}, {"more": USUAL["more"] + ", may share a GPU"}),
]


def test_a_closed_row_says_what_is_in_force(subtests):
    for given, wanted in SAID:
        with subtests.test(given=given):
            lines = lines_make(initial_of({"command": "true", "gpus": 1} | given), None, [])
            for row, line in (USUAL | wanted).items():
                assert lines[row].startswith(line) if "shareable" in given else lines[row] == line


def test_what_is_typed_is_said_with_its_unit_and_nonsense_as_it_stands():
    post = QueryDict(mutable=True)
    post.update({"gpus": "1", "memory_mib": "24", "time_limit_s": "90 min", "disk_gib": "much <b>", "category": "zzz"})
    lines = lines_make(initial_of_post(post), None, ["3.11", "3.11"])
    assert lines["limits"] == "at most 1.5 h, 24 GiB of memory, much <b> of disk"
    assert lines["software"] == "Python 3.11, as on the node"
    assert lines["speed"] == USUAL["speed"]


@pytest.fixture
def owner(client, cluster):
    client.force_login(cluster.owner)
    return client


@pytest.mark.django_db
def test_every_field_of_the_table_is_on_the_form(owner, cluster):
    from portal.people.tenants.models import Tenant

    member(cluster.owner.username, Tenant.objects.create(name="nlp-lab"))  # in one tenant there is nothing to choose
    text = owner.get(reverse("job-submit")).content.decode()
    page = Page(text)
    controls = {attrs["name"] for _, attrs in page.tags if "name" in attrs}
    assert controls >= set(INPUTS) | BESIDE
    in_rows = {attrs["data-field"] for _, attrs in page.tags if "data-field" in attrs}
    assert in_rows >= set(INPUTS)


@pytest.mark.django_db
def test_the_dry_run_keeps_the_closed_rows_in_step(owner):
    fields = {"command": "true", "gpus": ["1", "4"], "time_limit_s": "2 h", "environment": "A=1"}
    text = owner.post(reverse("job-dry-run"), fields).content.decode()
    lines = dict(re.findall(r'<span id="line-(\w+)" hx-swap-oob="innerHTML">(.*?)</span>', text))
    assert lines["speed"] == "1 or 4 GPUs, no expected duration"
    assert lines["limits"] == "at most 2 h, no memory limit, 100 GiB of disk"
    assert lines["more"] == "1 variable, one run, results kept 90 days"


@pytest.mark.django_db
def test_a_refusal_opens_its_row(owner):
    text = owner.post(reverse("job-submit"), {"command": "true", "gpus": "1", "memory_mib": "much"}).content.decode()
    assert re.findall(r'id="(\w+)-fields" open', text) == ["limits"]


@pytest.mark.django_db
def test_of_several_counts_the_first_is_pressed_and_the_others_are_also_accepted(owner):
    text = owner.post(
        reverse("job-submit"), {"command": "true", "gpus": ["2", "3", "8"], "memory_mib": "much"}
    ).content.decode()
    pressed = re.findall(r'<input type="(radio|checkbox)" name="gpus" value="(\d+)" checked>', text)
    assert pressed == [("radio", "2"), ("checkbox", "3"), ("checkbox", "8")]
