"""The page of a job's artefacts and the card on the job's page: tree, preview, curves, pictures, downloads, removal."""

import json
import re
import threading
from collections import OrderedDict

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from portal.foundation.events.shared import Sharing
from portal.pages.dashboard.artefacts import previews, tree
from portal.pages.dashboard.artefacts.curves import curve_figure, smoothed_of
from portal.people.tenants.models import Membership, Tenant
from portal.work.artefacts.models import Artefact
from portal.work.previews import asking
from tests.portal import given
from tests.portal.work.artefacts.sending import NS, Sender
from tests.portal.work.previews.test_kinds import png

pytestmark = pytest.mark.django_db

METRICS = "".join(json.dumps({"step": step, "loss": 3 - step / 10, "<b>acc": step / 20}) + "\n" for step in range(20))


@pytest.fixture
def sender(cluster):
    return Sender(cluster, cluster.running(name="train"))


@pytest.fixture
def job(sender):
    files = {
        "config.json": b'{"lr": 0.1}',
        "metrics.jsonl": METRICS.encode(),
        "val/<i>grid.png": png(64, 32),
        "val/deep/table.csv": b"class,f1\nwater,95\n",
        "evil.svg": b"<svg onload='alert(1)'/>",
        "x.html": b"<script>alert(1)</script>",
    }
    for path, content in files.items():
        sender.send(path, content)
    return sender.attempt.job


@pytest.fixture
def lena(cluster):
    client = Client()
    client.force_login(cluster.owner)
    return client


def url(job, part="", **query):
    return reverse(f"job-artefacts{part}", args=[job.number], query=query or None)


def test_the_tree_has_folders_files_sizes_and_the_quota(job, lena):
    page = lena.get(url(job)).content.decode()
    assert re.findall(r"<summary>.*?<code>(.*?)</code>", page) == ["val/", "deep/"]
    assert re.findall(r"data-artefact .*?<code>(.*?)</code>", page) == [
        "table.csv",
        "&lt;i&gt;grid.png",
        "config.json",
        "evil.svg",
        "metrics.jsonl",
        "x.html",
    ]
    assert f"Results of {job.tenant.name}:" in page
    assert "Kept for 90 days after the job&#x27;s end" in page


def test_the_page_costs_a_set_number_of_queries(job, sender, lena, django_assert_max_num_queries):
    lena.get(url(job))
    for number in range(12):
        sender.send(f"more/{number}/x.txt", b"x")
    with django_assert_max_num_queries(24):
        lena.get(url(job, path="config.json"))


SHOWN = [
    ("config.json", "<code>  &quot;lr&quot;: 0.1</code>"),
    ("val/deep/table.csv", "<th>class</th><th>f1</th>"),
    ("evil.svg", "&lt;svg onload=&#x27;alert(1)&#x27;/&gt;"),
    ("x.html", "&lt;script&gt;alert(1)&lt;/script&gt;"),
    ("val/<i>grid.png", 'width="64" height="32"'),
    ("metrics.jsonl", "&lt;b&gt;acc"),
]


def test_a_file_is_shown_and_never_run(job, lena, subtests):
    for path, shown in SHOWN:
        with subtests.test(path=path):
            for part in (
                url(job, path=path),
                reverse("job-artefacts-fragment", args=[job.number, "shown"], query={"path": path}),
            ):
                answer = lena.get(part)
                page = answer.content.decode()
                assert shown in page
                assert "<svg onload" not in page
                assert "<script>alert" not in page
                assert "<i>grid" not in page


def test_a_picture_is_served_so_that_it_can_only_be_drawn(job, lena):
    answer = lena.get(url(job, "-picture", path="val/<i>grid.png"))
    assert answer.getvalue() == png(64, 32)
    assert answer["Content-Type"] == "image/png"
    assert answer["X-Content-Type-Options"] == "nosniff"
    assert answer["Content-Security-Policy"] == "default-src 'none'; sandbox"
    again = lena.get(url(job, "-picture", path="val/<i>grid.png"), headers={"If-None-Match": answer["ETag"]})
    assert again.status_code == 304


def test_what_is_no_picture_is_not_served_as_one(job, lena, subtests):
    for path in ["evil.svg", "x.html", "config.json", "missing.png"]:
        with subtests.test(path=path):
            assert lena.get(url(job, "-picture", path=path)).status_code == 404


def test_where_nobody_can_look_now_the_page_says_so_and_later_shows_it(job, lena, monkeypatch):
    picture, curve = url(job, "-picture", path="val/<i>grid.png"), url(job, "-figure", name="loss")
    monkeypatch.setattr(previews, "_kept", OrderedDict())
    with monkeypatch.context() as busy:
        busy.setattr(asking, "PATIENCE_S", 0.01)
        busy.setattr(asking, "_slots", threading.BoundedSemaphore(1))
        assert asking._slots.acquire()
        for asked in (picture, curve):
            answer = lena.get(asked)
            assert (answer.status_code, answer["Retry-After"]) == (503, "2")
            assert "Try again" in answer.content.decode()
        page = lena.get(url(job, path="val/<i>grid.png")).content.decode()
        assert "Other files are being looked into at the moment. Try again in some seconds." in page
    assert lena.get(picture).status_code == 200
    Sharing().forget(f"curves:{job.pk}")
    assert lena.get(curve).status_code == 200


def test_downloads_of_one_a_folder_and_all(job, lena):
    one = lena.get(url(job, "-download", path="x.html"), headers={"Range": "bytes=0-7"})
    assert (one.status_code, one.getvalue(), one["Content-Type"]) == (206, b"<script>", "application/octet-stream")
    assert one["Content-Disposition"].startswith("attachment")
    assert b"val/deep/table.csv" in lena.get(url(job, "-download", under="val")).getvalue()
    assert b"config.json" in lena.get(url(job, "-download")).getvalue()


def test_a_curve_is_a_figure_over_steps(job, lena):
    figure = lena.get(url(job, "-figure", name="loss")).json()
    assert figure["lines"][0]["x"] == list(range(20))
    assert figure["lines"][0]["y"][:2] == [3.0, 2.9]
    named = lena.get(url(job, "-figure", name="<b>acc")).json()
    assert named["lines"][0]["name"] == "<b>acc"
    assert lena.get(url(job, "-figure", name="nothing")).status_code == 404


def test_a_logarithmic_scale_leaves_out_what_is_not_above_zero():
    figure = curve_figure("a", [1, 2, 3], [0.0, -1.0, 100.0], scale="log")
    assert figure["lines"][0]["y"] == [None, None, 100.0]
    assert figure["y"] == {"log": True}


def test_half_a_surrogate_pair_in_a_jobs_file_fails_no_page(job, sender, lena):
    for path in ("metrics.jsonl", "half.jsonl", "half.ipynb"):
        sender.send(path, b'{"step": 1, "\\ud800a\\u0000": 1, "b": "\\udfff"}\n', ns=NS + 1)
        for page in (url(job), url(job, path=path), f"/jobs/{job.number}/", f"/jobs/compare?job={job.number}"):
            assert lena.get(page).status_code == 200, (path, page)


def test_smoothing_keeps_gaps_and_begins_at_the_first_value():
    assert smoothed_of([4.0, None, 4.0], 0.9) == pytest.approx([4.0, None, 4.0])
    smooth = smoothed_of([0.0, 10.0], 0.5)
    assert smooth == pytest.approx([0.0, 20 / 3])


def test_while_it_runs_many_readers_read_the_files_once(broker_settings, job, lena, monkeypatch):
    from portal.pages.dashboard.artefacts import curves

    read = []
    asked = curves.asked
    monkeypatch.setattr(curves, "asked", lambda *given: read.append(1) or asked(*given))
    curves.Sharing().forget(f"curves:{job.pk}")
    for _ in range(5):
        lena.get(url(job, "-figure", name="loss"))
    assert len(read) == 1


def test_curves_of_an_ended_job_are_those_of_its_files(broker_settings, job, sender, lena):
    lena.get(url(job, "-figure", name="loss"))
    sender.send("metrics.jsonl", (METRICS + '{"step": 20, "loss": 0}\n').encode(), ns=NS + 1)
    type(job).objects.filter(pk=job.pk).update(state="COMPLETED")
    assert lena.get(url(job, "-figure", name="loss")).json()["lines"][0]["x"][-1] == 20


@pytest.mark.parametrize("query", [{"scale": "cubic"}, {"smooth": "7"}, {"path": "a\0b"}, {"under": "x" * 2000}])
def test_an_address_that_cannot_be_names_its_field(job, lena, query):
    answer = lena.get(url(job, **query))
    assert answer.status_code == 400
    assert f"`{next(iter(query))}`" in answer.content.decode()


def test_many_files_are_shown_in_part_and_the_chosen_one_always(job, sender, lena, monkeypatch):
    monkeypatch.setattr(tree, "MOST_ROWS", 3)
    page = lena.get(url(job, path="x.html")).content.decode()
    assert "2 more files" in page
    assert 'aria-current="true"' in page


def test_what_is_not_kept_says_why(job, lena):
    Artefact.objects.filter(path="x.html").update(size=None, blob="", reason="its quota is full")
    page = lena.get(url(job, path="x.html")).content.decode()
    assert page.count("not kept: its quota is full") >= 2
    assert lena.get(url(job, "-download", path="x.html")).status_code == 409


def test_what_was_refused_is_listed_with_a_count_of_the_rest(job, sender, lena):
    sender.tell(
        *((f"a\t{number}", 1, NS) for number in range(80)), notes=[["pipe", "it is no plain file"]], notes_more=5
    )
    page = lena.get(url(job)).content.decode()
    assert all(f"<code>a\\t{number}</code>" in page for number in range(50))
    assert "<code>pipe</code> it is no plain file" in page
    assert "and 35 more" in page


def test_an_ended_job_of_which_nothing_was_kept_says_where_to_read_why(sender, lena):
    job = sender.attempt.job
    sender.tell(("a\tb", 1, NS))
    type(job).objects.filter(pk=job.pk).update(state="COMPLETED", ended_at=timezone.now())
    page = lena.get(reverse("job-detail", args=[job.number])).content.decode()
    assert "No file was kept" in page
    assert url(job) in page


def test_the_jobs_page_counts_what_was_not_kept_beside_what_was(sender, lena):
    job = sender.attempt.job
    sender.send("plain.txt", b"1")
    sender.tell(
        ("plain.txt", 1, NS), ("a\tb", 1, NS), ("c\td", 1, NS), notes=[["pipe", "it is no plain file"]], notes_more=5
    )
    page = lena.get(reverse("job-detail", args=[job.number])).content.decode()
    assert f'<a href="{url(job)}">8 not kept</a>' in page


def test_removal_asks_for_a_name_and_for_the_right(job, cluster, lena):
    assert lena.post(url(job, "-remove")).status_code == 400
    assert lena.post(url(job, "-remove"), {"path": "val"}).status_code == 302
    assert not Artefact.objects.filter(job=job, path__startswith="val/").exists()
    viewer = given.member("vera", cluster.tenant)
    Membership.objects.filter(user=viewer).update(role=Membership.Role.VIEWER)
    client = Client()
    client.force_login(viewer)
    assert "Remove" not in client.get(url(job, path="x.html")).content.decode()
    assert client.post(url(job, "-remove"), {"path": "x.html"}).status_code == 403
    assert Artefact.objects.filter(job=job, path="x.html").exists()


def test_another_tenant_sees_what_a_missing_job_would_answer(job):
    client = Client()
    client.force_login(given.member("otto", Tenant.objects.create(name="others")))
    for part in ("", "-figure", "-picture", "-download"):
        assert client.get(url(job, part, path="x.html", name="loss")).status_code == 404
    assert client.post(url(job, "-remove"), {"path": "x.html"}).status_code == 404


def test_the_jobs_page_has_the_newest_files_and_the_first_curves(job, lena):
    page = lena.get(reverse("job-detail", args=[job.number])).content.decode()
    assert '<section class="b-card" id="artefacts"' in page
    assert "6 files" in page
    assert page.count("artefacts/figure?name=") == 2
    for part in ("artefacts", "curves"):
        assert lena.get(reverse("job-fragment", args=[job.number, part])).status_code == 200


def test_a_running_job_without_files_says_where_to_write(sender, lena):
    page = lena.get(reverse("job-detail", args=[sender.attempt.job.number])).content.decode()
    assert "$BERTH_ARTEFACTS appear here" in page
    assert "Nothing was written yet." in lena.get(url(sender.attempt.job)).content.decode()


def test_an_ended_job_without_files_has_no_card(sender, lena):
    job = sender.attempt.job
    type(job).objects.filter(pk=job.pk).update(state="COMPLETED", ended_at=timezone.now())
    assert 'id="artefacts"' not in lena.get(reverse("job-detail", args=[job.number])).content.decode()


def test_the_tenants_page_says_which_jobs_take_most(job, cluster, lena):
    other = Sender(cluster, cluster.running(name="tiny"))
    other.send("a", b"12")
    page = lena.get(reverse("tenant", args=[cluster.tenant.name])).content.decode()
    assert page.index(f"#{job.number} train") < page.index(f"#{other.attempt.job.number} tiny")
    assert "of 50\u00a0GiB" in page


def test_a_curve_can_be_drawn_over_time_where_its_lines_tell_it(sender, lena):
    told = "".join(json.dumps({"step": step, "loss": 1, "time": 1_700_000_000 + step}) + "\n" for step in range(3))
    sender.send("metrics.jsonl", told.encode())
    job = sender.attempt.job
    assert ">By time</a>" in lena.get(url(job)).content.decode()
    figure = lena.get(url(job, "-figure", name="loss", axis="time")).json()
    assert figure["lines"][0]["x"][0] == 1_700_000_000
    assert figure["x"] == {"kind": "time"}
    assert lena.get(url(job, axis="depth")).status_code == 400


def test_a_curve_whose_lines_tell_no_time_is_drawn_over_steps(job, lena):
    assert "By time" not in lena.get(url(job)).content.decode()
    assert lena.get(url(job, "-figure", name="loss", axis="time")).json()["lines"][0]["x"][:2] == [0, 1]
