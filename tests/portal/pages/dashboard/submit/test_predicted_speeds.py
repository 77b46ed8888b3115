"""The form shows how fast the job would run by size and GPU type, and how many cores the reader's own earlier jobs needed."""

import re
from html import unescape

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from portal.cluster.models import GpuType
from portal.people.tenants.models import Tenant
from portal.planning.estimation.models import AttemptSpeed, Signature, ThroughputCell
from portal.planning.rounds.asking.scaling import COLUMNS, scaling, sizes_shown
from portal.work.jobs.models import CoreTuning
from portal.work.jobs.services.cores import core_tuning_record
from tests.portal.given import Cluster, member, node_make
from tests.portal.pages.dashboard.test_templates import Page

pytestmark = pytest.mark.django_db(transaction=True)
FORM = {"command": "python train.py", "gpu_mode": "set", "gpus": ["1", "2"], "model": "vgg"}


@pytest.fixture
def world():
    return Cluster.make()


@pytest.fixture
def owner(client, world):
    client.force_login(world.owner)
    return client


def measured(tenant, gpu_type="A100", label="vgg", **means):
    """Store means per GPU by number of GPUs, such as g1=100."""
    name = f"tenant:{tenant.pk}:{label}"
    signature = Signature.objects.get_or_create(name=name, defaults={"tenant": tenant, "used_at": timezone.now()})[0]
    of = {"signature": signature, "gpu_type": GpuType.objects.get(name=gpu_type)}
    for gpus, mean in means.items():
        ThroughputCell.objects.create(**of, gpus=int(gpus[1:]), count=3, mean=mean, squares=2 * (mean / 50) ** 2)


def asked(client, **fields):
    """{row's head: figures} of each panel, and all that stands there as text."""
    html = client.post(reverse("job-dry-run"), FORM | fields).content.decode()
    Page(html)
    part = re.search(r'<div id="speeds".*?</div><div id="cores-past"', html, re.DOTALL)[0]
    panels = []
    for section in re.findall(r"<section.*?</section>", part, re.DOTALL):
        rows = re.findall(r'<tr><th scope="row">(.*?)</th>(.*?)</tr>', section, re.DOTALL)
        panels.append({head: [unescape(td) for td in re.findall(r"<td.*?>(.*?)</td>", cells)] for head, cells in rows})
    return panels, " ".join(unescape(re.sub(r"<.*?>", " ", part)).split())


def test_what_was_measured_is_told_apart_from_what_follows(owner, world):
    measured(world.tenant, g1=100, g2=90)
    [panel], text = asked(owner, samples="36000")
    assert panel["GPUs"] == ["1", "2", "4"]
    assert panel["speed"] == ["100", "180", "324"], "of all GPUs; of 4 by the two sizes that were measured"
    assert panel["× 1 GPU"] == ["1.0", "1.8", "3.2"]
    assert panel["error"][:2] == ["\u00b1\u00a02\u00a0%"] * 2
    assert panel["run time"][:2] == ["6\u00a0min", "3\u00a0min"], "36 000 samples"
    assert "Measured: 1, 2; from other sizes: 4." in text
    assert "2 GPUs are 1.8 times as fast as one: from 1 on, each further GPU adds 0.8 of one." in text


def test_what_the_last_gpus_add_is_said_of_the_largest_accepted_size(owner, world):
    measured(world.tenant, g1=100, g2=60, g4=30)
    assert (
        "2 GPUs are 1.2 times as fast as one: from 1 on, each further GPU adds little, 0.2 of one." in asked(owner)[1]
    )
    assert (
        "4 GPUs are 1.2 times as fast as one: from 2 on, each further GPU adds nothing." in asked(owner, gpus=["4"])[1]
    )


def test_where_nothing_was_measured_it_says_so_and_shows_what_is_assumed(owner, world):
    node_make("n2", gpu_type=GpuType.objects.create(name="H100", relative_speed=2.0))
    panels, text = asked(owner)
    assert "No job of vision-lab with the label vgg has recorded its speed yet." in text
    assert [panel["speed"][0] for panel in panels] == ["2.00", "1.00"], "in the slower type's GPUs"
    assert "1 is one A100" in text
    assert "run time" not in panels[0]
    assert "Without a model label nothing is known" in asked(owner, model="")[1]


def test_another_tenants_measurements_tell_nothing(owner, world):
    other = Tenant.objects.create(name="nlp-group")
    member("nina", other)
    measured(other, g1=777)
    assert "has recorded its speed yet" in asked(owner)[1]
    assert asked(owner, tenant="nlp-group")[0] == []
    assert "777" not in asked(owner, tenant="nlp-group")[1]


def test_errors_of_past_predictions_are_the_error_of_the_next(owner, world):
    measured(world.tenant, g1=100)
    of = {"iterations": 9, "samples": 1100.0, "seconds": 10.0, "predicted_samples_per_s": 100.0, "at": timezone.now()}
    for _ in range(3):
        attempt = world.running()
        AttemptSpeed.objects.create(attempt=attempt, predicted_source="sizes", **of)
        world.end(attempt)
    [panel], _ = asked(owner)
    assert panel["error"][1:] == ["\u00b1\u00a010\u00a0%"] * 2


def test_a_cpu_job_and_nonsense_have_no_picture(owner, world):
    assert asked(owner, gpu_mode="cpu")[0] == []
    wild = {"model": "<script>" * 9, "gpus": ["1", "99999", "x"], "samples": "1e9", "gpu_types": ["A100", "none"]}
    [panel], _ = asked(owner, **wild)
    assert panel["GPUs"] == ["1", "2", "4"]
    assert "run time" not in panel
    assert asked(owner, gpu_mode="range", **{"gpus.min": "3", "gpus.max": "999999999"})[0][0]["GPUs"]
    assert asked(owner, gpu_mode="range", **{"gpus.min": "9", "gpus.max": "-1"})[0][0]["GPUs"] == ["1", "2", "4"]


def test_sizes_are_few_and_exist():
    assert sizes_shown({1, 2, 4}, 8) == [1, 2, 4, 8]
    assert sizes_shown({3, 500}, 8) == [1, 2, 3, 4, 8]
    assert sizes_shown(range(1, 65), 64) == [1, 13, 26, 38, 51, 64]
    assert sizes_shown(set(), 0) == []
    assert len(sizes_shown({6}, 100_000)) == COLUMNS


def test_a_size_over_several_nodes_that_is_not_offered_says_why(owner, world):
    node_make("n2")
    measured(world.tenant, g1=100)
    _, text = asked(owner, gpus=["4", "8"])
    assert "Not offered: 8; over several nodes it would lose more than the operator's limit of 1.4 allows." in text


def test_more_nodes_cost_no_more_queries(world):
    def queries():
        with CaptureQueriesContext(connection) as told:
            found = scaling(tenant=world.tenant, label="vgg", accepted={1}, gpu_types=[])
        return len(told), found.types[0].total

    few, _ = queries()
    for number in range(2, 12):
        node_make(f"n{number}")
    many, total = queries()
    assert (few, total) == (many, 44)
    assert many <= 8


def cores(client, **fields):
    html = client.post(reverse("job-dry-run"), FORM | fields).content.decode()
    part = html[html.index('<div id="cores-past"') :]
    return " ".join(unescape(re.sub(r"<.*?>", " ", part)).split())


def test_the_form_says_what_past_jobs_needed_and_with_how_many_cores_this_one_begins(owner, world):
    assert cores(owner) == ""
    assert cores(owner, cores_per_gpu="8") == "Asked 8 a GPU; it begins with 4 and is tuned."
    for found in (2, 3):
        core_tuning_record(job=world.submit(category="cv", model="vgg"), cores_per_gpu=found, steps=4)
    core_tuning_record(job=world.submit(category="cv", model="big"), cores_per_gpu=7, steps=4)
    past = "Your last 2 jobs with the label vgg kept their GPUs busy with 2 to 3 cores a GPU."
    begins = "Asked 8 a GPU; it begins with 7 and is tuned."
    assert cores(owner, cores_per_gpu="8") == f"{past} {begins}"
    assert cores(owner, cores_per_gpu="8", parameters="200000000").endswith("begins with 6 and is tuned.")
    assert cores(owner, cores_per_gpu="8", cores_exactly="on") == past
    assert cores(owner) == f"{past} It begins with 7 a GPU and is tuned."
    assert "Your last 3 cv jobs kept" in cores(owner, model="new", category="cv")
    assert cores(owner, model="new", category="nlp") == ""
    assert cores(owner, gpu_mode="cpu") == ""


def test_cores_of_others_and_those_set_by_hand_are_not(owner, world):
    mate = member("mia", world.tenant)
    core_tuning_record(job=world.submit(category="cv", model="vgg", user=mate), cores_per_gpu=6, steps=4)
    core_tuning_record(job=world.submit(category="cv", model="vgg"), cores_per_gpu=5)
    assert CoreTuning.objects.count() == 2
    assert cores(owner, category="cv") == ""


def test_the_form_itself_shows_both_where_it_begins_from_a_job(owner, world):
    measured(world.tenant, g1=100)
    job = world.submit(category="cv", model="vgg")
    core_tuning_record(job=job, cores_per_gpu=3, steps=4)
    html = owner.get(reverse("job-submit") + f"?from={job.pk}").content.decode()
    Page(html)
    assert "What jobs of vision-lab with the label vgg measured" in html
    assert "Your last job with the label vgg kept its GPUs busy with 3 cores a GPU." in html
