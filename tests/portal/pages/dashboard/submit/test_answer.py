"""The answer beside the form: when a job would start and be over, why it would not, and changes that would have it over sooner."""

import json
import re
from html import unescape

import pytest
from django.template.loader import render_to_string
from django.urls import reverse

from portal.cluster.models import GpuType
from portal.people.tenants.models import Tenant
from portal.planning.rounds.asking import alternatives
from portal.work.jobs.models import Job
from tests.portal.given import node_make

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def ask(client, cluster):
    """The card's words, and the marks of the Submit button."""
    client.force_login(cluster.owner)

    def asked(name="job-dry-run", **fields):
        html = client.post(reverse(name), {"command": "true", "gpus": ["1"]} | fields).content.decode()
        card = html.partition('<div id="form-problems"')[0]
        marks = [mark for mark in ("data-blocks", "data-anyway") if mark in html]
        return " ".join(unescape(re.sub(r"<.*?>", "", card)).split()), marks

    return asked


def test_it_says_where_when_it_is_over_and_what_the_tenant_then_holds(ask, cluster):
    words, marks = ask(expected_duration_s="2 h")
    assert re.search(r"Starts at once on \S+, over at about \d\d:\d\d\. vision-lab then holds 1 GPU\.", words)
    assert marks == []
    Tenant.objects.update(gpu_quota=20)
    assert "vision-lab then holds 2 of its 20 GPUs." in ask(gpus=["2"])[0]
    assert "Give an expected duration to see when it ends." in ask()[0]
    assert re.search(r"over by \d\d:\d\d, its time limit\.", ask(time_limit_s="1 h")[0])
    longer = ask(time_limit_s="1 h", expected_duration_s="2 h")[0]
    assert re.search(r"over by \d\d:\d\d, its time limit\.", longer), "it ends before it is done"
    assert " with 2 GPUs" in ask(gpus=["1", "2"])[0]
    assert "Starts at once its first run on " in ask(**{"array.size": "5"})[0]


def test_a_job_that_would_wait_says_about_when_and_why(ask, cluster):
    cluster.started(gpus=4)
    words, marks = ask(gpus=["4"], gpu_types="A100")
    assert re.search(r"Starts about \d\d:\d\d 4 A100, none free\..* Between .* and .*\.", words)
    assert marks == []


def test_a_time_in_the_cause_is_printed_in_the_reader_s_zone():
    verdict = {"tone": "wait", "title": "Waits", "cause": "Kept for #38 until 2026-11-30T03:24Z <b>"}
    html = render_to_string("submit/_where.html", {"verdict": verdict})
    assert html.startswith("Kept for #38 until <time")
    assert 'datetime="2026-11-30T03:24' in html
    assert "&lt;b&gt;." in html


def test_what_no_node_can_hold_is_blocked_and_what_may_fit_later_is_not(ask, cluster):
    words, marks = ask(memory_mib="900 TiB")
    assert words.startswith("If you submit now Cannot start The largest node has")
    assert marks == ["data-blocks"]
    words, marks = ask(memory_mib="much", priority="x")
    assert "Cannot start Memory: 'much' is not an amount; write it like 24 GiB or 512 MiB. 1 more problem" in words
    assert marks == [], "the form can be sent, and its refusal leads to the field"
    assert not Job.objects.exists()


def test_an_alternative_fills_in_what_it_says(ask, client, cluster):
    node_make("h1", gpu_type=GpuType.objects.create(name="H100", relative_speed=2.0))
    fields = {"command": "true", "gpus": ["1"], "gpu_types": "A100", "expected_duration_s": "2 h"}
    html = client.post(reverse("job-alternatives"), fields).content.decode()
    assert re.findall(r"<strong>(.*?)</strong>", html) == ["1 H100", "2 GPUs"]
    fills = [json.loads(unescape(each)) for each in re.findall(r'data-use="(.*?)"', html)]
    assert fills[0] == {"gpu_types": "H100", "expected_duration_s": "60 min"}
    assert fills[1]["gpus"] == "2"
    assert ask("job-alternatives", command="", expected_duration_s="2 h") == (
        "What else would be over sooner is not worked out yet.",
        [],
    )
    with alternatives._working:
        assert "not worked out yet" in ask("job-alternatives", expected_duration_s="2 h")[0]


def test_it_says_what_similar_jobs_took_and_one_press_declares_the_middle(ask, client, cluster):
    assert "took" not in ask()[0]
    for place in range(12):
        cluster.ran(6600.0 + 120 * place, ago_s=1000 - place)
    words = ask()[0]
    said = "Your last 12 jobs of this size without a category mostly took 1 h 52 min to 2 h 12 min.Expect 2 h "
    assert said in words.replace("\xa0", " ")
    assert "Give an expected duration" not in words, "that is the button's"
    html = client.post(reverse("job-dry-run"), {"command": "true", "gpus": ["1"]}).content.decode()
    fields = json.loads(unescape(re.search(r'data-similar>.*?data-use="(.*?)"', html)[1]))
    assert fields == {"expected_duration_s": "2 h"}
    words = ask(**fields)[0]
    assert "took" not in words
    assert re.search(r"over at about \d\d:\d\d", words)
    assert "took" not in ask(category="cv")[0], "none of that kind has ended"
