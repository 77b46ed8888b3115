"""The calm cells of a node's GPUs, as operators and as tenants see them."""

import pytest
from django.core.cache import cache
from django.template.loader import render_to_string
from django.utils import timezone

from portal.cluster.models import Gpu, Node
from portal.pages.dashboard.parts.gpus import UNUSED_S, gpu_groups, gpu_key
from portal.pages.dashboard.parts.snapshot import Snapshot
from portal.people.tenants.models import Tenant
from portal.work.jobs.models import Attempt
from tests.portal import given

pytestmark = pytest.mark.django_db


@pytest.fixture
def busy(cluster):
    """Eight GPUs: two of lena's, one of a member of her tenant, one of another tenant, two free, one out, one for sharing."""
    cache.clear()
    cluster.node.delete()
    cluster.node = given.node_make("a100-01", gpus=8, cores=16)
    cluster.running(gpus=2, name="train")
    given.member("tomas", cluster.tenant)
    cluster.running(user=given.member("tomas", cluster.tenant), name="notebook")
    other = Tenant.objects.create(name="speech-co")
    cluster.running(user=given.member("james", other), name="asr-eval")
    Gpu.objects.filter(node=cluster.node, index=6).update(cordoned_at=timezone.now(), cordon_reason="memory errors")
    given.shared(cluster.node, 7)
    return cluster


def measure(node, uses, *, ago_s=5.0):
    gpus = {str(index): {"utilisation": [use] * 5} for index, use in enumerate(uses)}
    start = timezone.now().timestamp() - ago_s
    given.measured(node=Node.objects.get(pk=node.pk), batch={"start": start, "period_s": 1.0, "count": 5, "gpus": gpus})


def told(user, name="a100-01"):
    snapshot = Snapshot(user)
    node = next(each for each in snapshot.nodes if each.name == name)
    groups = gpu_groups(node, snapshot)["groups"]
    return [([cell["look"] for cell in group["cells"]], group["caption"]) for group in groups]


def test_a_tenant_sees_whose_each_gpu_is_and_of_foreign_jobs_no_name(busy):
    looks, captions = zip(*told(busy.owner), strict=True)
    assert looks == (["mine", "mine"], ["ours"], ["others"], ["free", "free"], ["out"], ["share"])
    assert [caption.text for caption in captions] == [
        "train",
        "notebook",
        "another tenant",
        "",
        "memory errors",
        "for sharing",
    ]
    assert captions[1].note == "tomas"
    assert (captions[2].url, captions[2].note) == (None, "")


def test_an_operator_sees_how_busy_each_is_in_five_steps(busy):
    measure(busy.node, [97.0, 12.0, 0.0, 45.0, 0.0, 0.0, 0.0, 0.0])
    looks, captions = zip(*told(given.operator()), strict=True)
    assert looks[:3] == (["u5", "u1"], ["u1"], ["u3"])
    assert [(caption.text, caption.note) for caption in captions[:3]] == [
        ("train", "vision-lab"),
        ("notebook", "vision-lab"),
        ("asr-eval", "speech-co"),
    ]


def test_what_is_held_and_did_not_compute_for_ten_minutes_is_amber(busy):
    Attempt.objects.update(created_at=timezone.now() - timezone.timedelta(hours=2))
    measure(busy.node, [97.0, 90.0, 0.0, 45.0, 0.0, 0.0, 0.0, 0.0])
    node = Node.objects.get(pk=busy.node.pk)
    node.live["unused"]["2"] -= UNUSED_S
    node.save()
    measure(busy.node, [97.0, 90.0, 1.0, 45.0, 0.0, 0.0, 0.0, 0.0], ago_s=1.0)  # still: below the limit
    assert told(given.operator())[1][0] == ["lazy"]
    measure(busy.node, [97.0, 90.0, 30.0, 45.0, 0.0, 0.0, 0.0, 0.0], ago_s=0.0)
    assert told(given.operator())[1][0] == ["u2"]


def test_after_a_while_without_measurements_nobody_says_for_how_long_nothing_was_computed(busy):
    measure(busy.node, [0.0] * 8, ago_s=600.0)
    measure(busy.node, [0.0] * 8)
    node = Node.objects.get(pk=busy.node.pk)
    assert timezone.now().timestamp() - node.unused_gpus["0"] < 60


def test_what_is_kept_is_drawn_as_the_last_free_ones(busy, monkeypatch):
    monkeypatch.setattr("portal.pages.dashboard.board.facts.kept_gpus", lambda: {busy.node.pk: 1})
    assert [look for look, _ in told(busy.owner)][3:5] == [["free"], ["kept"]]


def test_cells_say_in_words_what_they_show_and_escape_names(busy):
    busy.running(name="<b>x</b>")
    snapshot = Snapshot(given.operator())
    html = render_to_string("parts/_gpus.html", {"gpus": gpu_groups(snapshot.nodes[0], snapshot)})
    assert 'title="GPU 6, cordoned: memory errors"' in html
    assert "&lt;b&gt;x&lt;/b&gt;" in html
    assert "<b>x" not in html
    key = render_to_string("parts/_gpu_key.html", {"key": gpu_key(Snapshot(busy.owner))})
    assert "vision-lab" in key


def test_tasks_of_an_array_that_stand_beside_each_other_have_one_caption(busy):
    array = busy.submit(array={"size": 2}, name="sweep")
    for task in array.tasks.order_by("pk"):
        busy.start(task)
    looks, caption = told(busy.owner)[3]
    assert (looks, caption.text, caption.url) == (["mine", "mine"], "sweep", f"/jobs/{array.number}/")
