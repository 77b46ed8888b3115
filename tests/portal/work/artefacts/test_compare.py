"""Jobs side by side: what differs first, how it went, curves on one pair of axes; what one may not see is missing."""

import html
import json
import re

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from portal.pages.dashboard.jobs.compare.asked import asked_of
from portal.pages.dashboard.jobs.compare.curves import ATTEMPTS_MOST
from portal.pages.dashboard.jobs.compare.rows import CHARS_MOST, ROWS_MOST
from portal.pages.dashboard.jobs.facts import OWN_WORDS
from portal.people.tenants.models import Tenant
from portal.planning.estimation.models import AttemptSpeed
from portal.work.jobs.declaration.table import PLAIN
from portal.work.jobs.models import Attempt, Job
from portal.work.secrets.services import secret_set
from tests.portal import given
from tests.portal.work.artefacts.sending import Sender

pytestmark = pytest.mark.django_db

MOST_QUERIES = 45


def metrics(slope, count=20):
    return "".join(json.dumps({"step": step, "loss": 3 - slope * step}) + "\n" for step in range(count)).encode()


@pytest.fixture
def lena(cluster):
    client = Client()
    client.force_login(cluster.owner)
    return client


def url(*jobs, name=None, **query):
    path = reverse("job-compare-figure", args=[name]) if name else reverse("job-compare")
    numbers = "&".join(f"job={getattr(job, 'number', job)}" for job in jobs)
    return f"{path}?{numbers}" + "".join(f"&{key}={value}" for key, value in query.items())


def rows(page):
    """{label: text of each job's cell} of the table."""
    found = re.findall(r'<tr><th scope="row">(.*?)</th>(.*?)</tr>', page, re.DOTALL)
    return {
        label: [
            " ".join(re.sub("<.*?>", " ", cell).split()) for cell in re.findall(r"<td.*?>(.*?)</td>", cells, re.DOTALL)
        ]
        for label, cells in found
    }


def alike(page):
    return dict(re.findall(r"<dt>(.*?)</dt><dd>(.*?)</dd>", page.partition("Alike in all of them")[2], re.DOTALL))


def test_what_differs_comes_first_and_what_is_alike_is_folded(lena, cluster):
    one = cluster.submit(
        name="a", command="python train.py --lr 0.1", environment={"SEED": "1", "MODE": "fast"}, memory_mib=1024
    )
    two = cluster.submit(
        name="b",
        command="python train.py --lr 0.2",
        environment={"SEED": "2", "MODE": "fast"},
        gpus=[1, 2],
        files={"train.py": "x", "own.txt": "y"},
    )
    page = lena.get(url(one, two)).content.decode()
    found = rows(page)
    assert list(found)[:2] == ["Command", "GPUs"]
    assert found["Command"] == ["python train.py --lr 0.1", "python train.py --lr 0.2"]
    assert found["Variable SEED"] == ["1", "2"]
    assert found["Memory"] == ["1.0 GiB", "–"]
    assert found["File own.txt"][0] == "–"
    assert found["File own.txt"][1].startswith("1 B, ")
    assert found["State"] == ["Waiting", "Waiting"]
    assert alike(page)["Variable MODE"] == "fast"
    assert "Variable MODE" not in found
    assert page.index("What they asked for differently") < page.index("How it went")


def test_inputs_and_kept_files_are_told(lena, cluster):
    begun = cluster.running()
    Sender(cluster, begun).send("last.pt", b"weights")
    given = [{"job": begun.job_id, "path": "last.pt"}]
    jobs = [cluster.submit(inputs=given, artefacts=["out/*.pt"]), cluster.submit()]
    found = rows(lena.get(url(*jobs)).content.decode())
    assert found["Begins with"] == [f"last.pt of #{begun.job_id} as last.pt", "–"]
    assert found["Files kept"] == ["out/*.pt", "–"]


def test_of_a_secret_the_name_alone_is_told(lena, cluster):
    for name in ("one", "two"):
        secret_set(tenant=cluster.tenant, name=name, value=f"veiled-{name}", actor=cluster.owner)
    jobs = [cluster.submit(secrets={"TOKEN": name}) for name in ("one", "two")]
    page = lena.get(url(*jobs)).content.decode()
    assert rows(page)["Variable TOKEN"] == ["the secret one", "the secret two"]
    assert "veiled-" not in page


def test_each_field_of_a_description_is_told(cluster):
    job, samples = cluster.submit(), {"flag": True, "choice": "cv", "text": "words", "time": timezone.now()}
    told = [each for each in PLAIN if each.name not in OWN_WORDS]
    for each in told:
        setattr(job, each.name, samples.get(each.kind, 90))
    assert {each.label for each in told} <= asked_of([job])[0].keys()


def test_texts_that_are_looked_for_in_the_log_are_told(lena, cluster):
    one, two = cluster.submit(log_matches=["loss: nan", "val_loss*"]), cluster.submit()
    told = rows(lena.get(url(one, two)).content.decode())["Lines told of"][0]
    assert html.unescape(told) == '"loss: nan", "val_loss*"'


def test_of_long_texts_only_the_lines_that_differ_are_told(lena, cluster):
    script = "\n".join(f"echo {number}" for number in range(300))
    one, two = cluster.submit(command=script), cluster.submit(command=script + "\npython other.py")
    cells = rows(lena.get(url(one, two)).content.decode())["Command"]
    assert cells == ["300 lines alike", "python other.py 300 lines alike"]
    swapped = cluster.submit(command="b\na")
    cells = rows(lena.get(url(cluster.submit(command="a\nb"), swapped)).content.decode())["Command"]
    assert cells == ["the same lines in another order"] * 2


def test_texts_without_a_common_line_are_told_whole_without_a_count(lena, cluster):
    one, two = (cluster.submit(command=text) for text in ("python a.py", "cd code\npython b.py"))
    assert rows(lena.get(url(one, two)).content.decode())["Command"] == ["python a.py", "cd code python b.py"]


def test_how_it_went_and_the_curves_of_several_jobs_on_one_pair_of_axes(lena, cluster):
    one, two = cluster.running(name="a"), cluster.running(name="b")
    for attempt, slope in ((one, 0.1), (two, 0.05)):
        Sender(cluster, attempt, secret=f"berthnode_{attempt.pk}").send("metrics.jsonl", metrics(slope))
    cluster.end(two, exit_code=3)
    jobs = [one.job, two.job]
    page = lena.get(url(*jobs)).content.decode()
    found = rows(page)
    assert found["State"] == ["Running", "Failed"]
    assert found["Cause"][1].startswith("exit 3")
    assert found["Ran on"] == ["n1", "n1"]
    assert f"ends at #{one.job_id} 1.1, #{two.job_id} 2.05" in page
    figure = lena.get(url(*jobs, name="curve", curve="loss")).json()
    assert [(line["name"], line["token"]) for line in figure["lines"]] == [
        (f"#{one.job_id}", "plot-1"),
        (f"#{two.job_id}", "plot-2"),
    ]
    assert [line["y"][-1] for line in figure["lines"]] == [1.1, 2.05]
    assert lena.get(url(*jobs, name="curve", curve="loss", scale="log")).json()["y"] == {"log": True}
    assert lena.get(url(*jobs, name="curve", curve="gone")).status_code == 404
    assert lena.get(url(*jobs, name="nothing")).status_code == 404


def test_the_throughput_of_each_attempt_is_drawn_over_the_time_since_the_first_start(lena, cluster):
    attempt, other = cluster.running(), cluster.running()
    AttemptSpeed.objects.create(attempt=attempt, samples=600, seconds=60, at=attempt.job.submitted_at)
    line = lena.get(url(attempt.job, other.job, name="speed")).json()["lines"]
    assert [each["name"] for each in line] == [f"#{attempt.job_id}"]
    assert line[0]["y"] == [10, 10, None]
    assert line[0]["x"][0] == pytest.approx(0, abs=0.1)


def test_one_job_is_offered_others_and_none_asks_for_numbers(lena, cluster):
    first, same = cluster.submit(name="train"), cluster.submit(name="train")
    others = [cluster.submit(name=f"later-{number}") for number in range(12)]
    array = cluster.submit(gpus=0, array={"size": 3})
    page = lena.get(url(first)).content.decode()
    assert f'href="{url(first, same).replace("&", "&amp;")}"' in page
    assert page.index(f"#{same.number} train") < page.index(f"#{others[-1].number} ")
    assert f"#{array.pk} " not in page
    task = Job.objects.get(array=array, array_index=1)
    assert f"#{array.pk}_2" in lena.get(url(task)).content.decode(), "a task is compared with the others of its array"
    assert "tick two to 4 jobs" in lena.get(url()).content.decode()
    assert rows(lena.get(url(task, f"{array.pk}_2")).content.decode())["Array task"] == ["1", "2"]
    assert f'job={first.number}"' in lena.get(reverse("job-detail", args=[first.number])).content.decode()


@pytest.mark.parametrize("number", ["987654", "0", "x", "1_9", "9" * 30, "-1"])
def test_what_is_missing_foreign_or_no_number_answers_alike(lena, cluster, number):
    own = cluster.submit()
    foreign = cluster.submit(user=given.member("zoe", Tenant.objects.create(name="speech")))
    answers = [lena.get(url(own, each, **more)) for each in (number, foreign) for more in ({}, {"name": "speed"})]
    assert {answer.status_code for answer in answers} == {404}
    assert lena.get(url(foreign)).status_code == 404


@pytest.mark.parametrize(
    ("query", "field"), [("job=1&job=2&job=3&job=4&job=5", "job"), ("scale=x", "scale"), ("smooth=2", "smooth")]
)
def test_an_address_that_means_nothing_is_refused_by_its_field(lena, query, field):
    answer = lena.get(f"{reverse('job-compare')}?{query}", headers={"accept": "application/json"})
    assert answer.status_code == 400
    assert f"`{field}`" in answer.content.decode() or "at most 4" in answer.content.decode()


def test_a_job_named_twice_stands_once(lena, cluster):
    one, two = cluster.submit(), cluster.submit()
    page = lena.get(url(one, two, one, f" {two.number} ")).content.decode()
    assert len(rows(page)["State"]) == 2


def test_hostile_descriptions_stay_small_and_are_escaped(lena, cluster, django_assert_max_num_queries):
    def hostile(mark):
        return cluster.submit(
            name="<script>x</script>",
            command=f"<b>{mark}</b>" + "x" * 50_000,
            environment={f"V{number}": f"{mark}{number}" * 50 for number in range(900)},
            files={f"f{number}.txt": mark for number in range(90)},
            gpus=0,
        )

    jobs = [hostile(mark) for mark in "abcd"]
    with django_assert_max_num_queries(MOST_QUERIES):
        answer = lena.get(url(*jobs))
    page = answer.content.decode()
    assert "<script>x" not in page
    assert "<b>a</b>" not in page
    assert "More differs than is shown here." in page
    assert len(rows(page)) <= ROWS_MOST + 20
    assert max(len(cell) for cells in rows(page).values() for cell in cells) < 6 * CHARS_MOST
    assert len(answer.content) < 300_000


def test_many_attempts_are_read_up_to_a_number(lena, cluster, django_assert_max_num_queries):
    attempt, other = cluster.running(), cluster.submit()
    now = attempt.job.submitted_at
    Attempt.objects.filter(pk=attempt.pk).update(state="FAILED", ended_at=now, epoch=500)
    more = [
        Attempt(
            job=attempt.job,
            epoch=epoch,
            gpus=1,
            cores=1,
            rendezvous_port=1,
            created_at=now,
            started_at=now,
            ended_at=now,
            state="FAILED",
        )
        for epoch in range(1, 401)
    ]
    for row in Attempt.objects.bulk_create(more):
        AttemptSpeed.objects.create(attempt=row, samples=1, seconds=1, at=now)
    with django_assert_max_num_queries(12):
        line = lena.get(url(attempt.job, other, name="speed")).json()["lines"][0]
    assert len(line["x"]) == 3 * ATTEMPTS_MOST
