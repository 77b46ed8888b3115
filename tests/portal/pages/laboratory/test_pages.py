"""The laboratory's pages: the form, its refusals, an answer, several side by side, traces."""

import io

import pytest
from django.test import Client
from django.urls import reverse

from portal.pages.laboratory.models import LabTrace, Simulation
from portal.pages.laboratory.run.worker import simulation_next
from portal.pages.laboratory.services import simulation_cancel
from portal.people.tenants.models import Tenant
from tests.portal import given
from tests.portal.pages.laboratory.lab import CLUSTER, TRACE, order, simulated, trace

pytestmark = pytest.mark.django_db
FORM = {"name": "what if", "source": "generator:hops-64", "jobs": "3", "cluster": "own", "policies": ["fifo", "drf"]}


@pytest.fixture
def browser(lena):
    client = Client()
    client.force_login(lena, backend="django.contrib.auth.backends.ModelBackend")
    return client


def test_from_the_form_to_the_answer(browser):
    page = browser.post(reverse("laboratory-new"), FORM)
    made = Simulation.objects.get()
    assert page.url == reverse("laboratory-detail", args=[made.pk])
    waiting = browser.get(page.url).content.decode()
    assert "Queued" in waiting
    assert f'data-live-streams="simulation:{made.pk}"' in waiting
    assert waiting.count(f'data-fragment-url="{page.url}"') == 2, "its state and its progress"
    assert "data-ended" not in browser.get(f"{page.url}?fragment=progress").content.decode()
    simulation_next()
    assert "data-ended" in browser.get(f"{page.url}?fragment=progress").content.decode()
    done = browser.get(page.url).content.decode()
    assert "Completed" in done
    assert "Bold is best." in done
    figure = browser.get(reverse("laboratory-figure", args=[made.pk, "held"])).json()
    assert {line["name"] for line in figure["data"]} == {"fifo", "drf"}
    assert len(figure["data"][0]["x"]) > 1
    assert set(browser.get(reverse("laboratory-answer", args=[made.pk])).json()["policies"]) == {"fifo", "drf"}


def test_forms_are_counted_as_requests_are(browser):
    """No form allows an act more often than REST, which allows it thirty times a minute."""
    asked = [browser.post(reverse(name), {}) for name in ("laboratory-new", "laboratory-traces") * 15]
    assert {page.status_code for page in asked} == {400}
    for name in ("laboratory-new", "laboratory-traces"):
        refused = browser.post(reverse(name), FORM)
        assert refused.status_code == 429
        assert "Too many of these in a minute; wait" in refused.content.decode()
    assert not Simulation.objects.exists()


@pytest.mark.parametrize(
    ("changes", "field", "words"),
    [
        ({"jobs": "many"}, "jobs", "not a whole number"),
        ({"policies": []}, "policies", "Choose 1 to"),
        ({"knob_lambda": "nan"}, "lambda", "not a finite number"),
        ({"knob_lambda": "7"}, "knobs", "outside 0 to 4"),
        ({"cluster": "described", "description": "nodes: 3"}, "cluster", "not a list"),
        ({"cluster": "described", "description": ""}, "cluster", "mapping"),
        ({"cluster": "here"}, "cluster", "no node yet"),
        ({"until_h": "soon"}, "until_h", "not a number"),
    ],
)
def test_the_form_says_what_is_wrong_and_keeps_what_was_typed(browser, changes, field, words):
    page = browser.post(reverse("laboratory-new"), FORM | changes)
    text = page.content.decode()
    assert page.status_code == 400
    assert f"<strong>{field}</strong>" in text
    assert words in text
    assert 'value="what if"' in text
    assert not Simulation.objects.exists()


def test_this_cluster_is_frozen_as_it_is_when_asked(browser):
    given.node_make("n1", gpus=4, cores=8)
    given.node_make("n2", gpus=4, cores=8)
    browser.post(reverse("laboratory-new"), FORM | {"cluster": "here"})
    made = Simulation.objects.get()
    assert "count: 2" in made.cluster
    assert "tenants" not in made.cluster, "quotas of others are not a member's to see"
    given.node_make("n3", gpus=4)
    assert "2 nodes, 8 GPUs" in browser.get(reverse("laboratory-detail", args=[made.pk])).content.decode()


def test_knobs_away_from_their_default_are_kept(browser):
    browser.post(reverse("laboratory-new"), FORM | {"knob_lambda": "2", "knob_sigma": "1.4", "knob_reserve_lr": ""})
    assert Simulation.objects.get().knobs == {"lambda": 2.0}


def test_a_wrong_knob_is_shown_where_it_was_typed(browser):
    text = browser.post(reverse("laboratory-new"), FORM | {"knob_lambda": "x"}).content.decode()
    assert '<details class="b-section b-numbers-like" open>' in text


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"knob_lambda": "9"}, "id_knob_lambda"),
        ({"knob_reserve_lr": "x"}, "id_knob_reserve_lr"),
        ({"seed": "-1"}, "id_seed"),
        ({"until_h": "0"}, "id_until_h"),
    ],
)
def test_the_wrong_field_is_marked_and_the_reader_brought_to_it(browser, changes, field):
    text = browser.post(reverse("laboratory-new"), FORM | changes).content.decode()
    tag = text.partition(f'id="{field}"')[2].partition(">")[0]
    assert 'aria-invalid="true" aria-describedby="form-error" autofocus' in tag
    assert text.count("autofocus") == 1
    assert (text.count("is outside 0 to 4") == 2) == (field == "id_knob_lambda"), "at the head and beside the knob"


def test_ended_without_an_answer_it_says_how_and_how_far(browser, tenant, lena):
    queued = order(tenant, lena)
    simulation_cancel(simulation=queued, actor=lena)
    text = browser.get(reverse("laboratory-detail", args=[queued.pk])).content.decode()
    assert "It was cancelled before it began." in text
    assert 'id="progress"' not in text
    broken = simulated(tenant, lena)
    Simulation.objects.filter(pk=broken.pk).update(
        state="FAILED", error="It ran too long.", figures={}, progress={"fifo": 1.0, "drf": 0.25}
    )
    text = browser.get(reverse("laboratory-detail", args=[broken.pk])).content.decode()
    assert "It ran too long." in text
    assert "25" in text.partition('id="progress"')[2]
    assert "data-live-topics" not in text.partition("<main")[2], "nothing more will come"


def test_its_state_is_told_as_it_changes_and_not_as_it_was(browser, tenant, lena):
    """The head said Queued while the bars below it ran."""
    made = order(tenant, lena)
    page = reverse("laboratory-detail", args=[made.pk])
    assert "Queued" in browser.get(f"{page}?fragment=state").content.decode()
    Simulation.objects.filter(pk=made.pk).update(state="RUNNING")
    assert "Running" in browser.get(f"{page}?fragment=state").content.decode()
    assert browser.get(f"{page}?fragment=nothing").status_code == 404


def test_jobs_that_never_started_are_told_with_the_reason(browser, tenant, lena):
    cluster = "nodes: [{count: 1, gpu_type: A100, gpus: 4, cores: 16, memory_gib: 64}]"
    stuck = simulated(tenant, lena, cluster=cluster)
    text = browser.get(reverse("laboratory-detail", args=[stuck.pk])).content.decode()
    assert "Jobs of fifo: 1 unfinished (4 came)" in text
    assert "they ask for what this cluster never has free" in text
    done = simulated(tenant, lena, trace=LabTrace.objects.get())
    assert "unfinished" not in browser.get(reverse("laboratory-detail", args=[done.pk])).content.decode()


def test_what_is_shown_as_the_best_is_marked_wherever_it_is_shown(browser, tenant, lena):
    """Means that differ beyond the digits shown."""
    done = simulated(tenant, lena, policies=["fifo", "drf", "berth"])
    figures = Simulation.objects.get(pk=done.pk).figures
    figures["berth"]["mean_lr"] = 9.0
    figures["fifo"]["mean_lr"], figures["drf"]["mean_lr"] = 1.2341, 1.2342
    Simulation.objects.filter(pk=done.pk).update(figures=figures)
    text = browser.get(reverse("laboratory-detail", args=[done.pk])).content.decode()
    assert text.count("<strong>1.23</strong>") == 2


def test_the_rule_in_force_comes_first(browser, tenant, lena):
    done = simulated(tenant, lena, policies=["fifo", "drf", "berth"])
    page = browser.get(reverse("laboratory-detail", args=[done.pk]))
    assert page.context["answer"]["rows"][0]["name"] == "berth"
    assert page.content.decode().count("in force now") == 1
    assert page.context["verdict"]["parts"]


def test_plots_have_a_legend_and_a_table_each(browser, tenant, lena):
    done = simulated(tenant, lena)
    page = browser.get(reverse("laboratory-detail", args=[done.pk]))
    text = page.content.decode()
    plots = page.context["plots"]
    assert text.count("<summary>As a table</summary>") == len(plots) == 3
    for plot in plots:
        assert {line["name"] for line in browser.get(plot["url"]).json()["data"] if "name" in line} == {"fifo", "drf"}
        assert {row["label"] for row in plot["legend"]} == {"fifo", "drf"}
        assert {row[0] for row in plot["table"]["rows"]} == {"fifo", "drf"}


def test_the_last_days_are_simulated_by_one_form(browser, tenant, lena):
    cluster = given.Cluster(tenant, lena, given.node_make("n1", gpus=4, cores=8))
    asked = FORM | {"source": "history", "days": "7", "cluster": "here"}
    refused = browser.post(reverse("laboratory-new"), asked)
    assert refused.status_code == 400
    assert "has run; take more days" in refused.content.decode()
    cluster.running()
    for wrong in ({"days": "week"}, {"policies": []}, {"name": ""}):
        assert browser.post(reverse("laboratory-new"), asked | wrong).status_code == 400
    assert not LabTrace.objects.exists(), "what was taken for an order that is refused is not kept"
    browser.post(reverse("laboratory-new"), asked)
    made = Simulation.objects.get()
    assert (made.trace.name, made.trace.origin, made.trace.jobs) == ("the last 7 days", "history", 1)
    simulation_next()
    made.refresh_from_db()
    assert (made.state, made.error) == ("COMPLETED", "")


def test_a_trace_is_simulated_from_its_row(browser, tenant, lena):
    kept = trace(tenant, lena)
    ask = reverse("laboratory-new") + f"?trace={kept.pk}"
    assert ask in browser.get(reverse("laboratory-traces")).content.decode()
    typed = browser.get(ask).context["typed"]
    assert (typed["name"], typed["source"]) == ("last week", f"trace:{kept.pk}")
    assert browser.get(reverse("laboratory-new") + "?trace=999").status_code == 404


@pytest.mark.parametrize("days", ["0", "-1", "1e9"])
def test_days_that_cannot_be_are_refused_in_one_sentence(browser, days):
    text = browser.post(reverse("laboratory-traces"), {"origin": "history", "days": days}).content.decode()
    assert "<strong>days</strong>: " in text
    assert "days</strong>: days" not in text
    assert "is not above 0 and at most 3650" in text


def test_a_list_that_is_cut_says_so(browser, tenant, lena, monkeypatch):
    for module in ("selectors", "pages.shown"):
        monkeypatch.setattr(f"portal.pages.laboratory.{module}.SHOWN", 2)
    simulated(tenant, lena)
    assert "are shown" not in browser.get(reverse("laboratory")).content.decode()
    for _ in range(2):
        order(tenant, lena, trace=LabTrace.objects.get())
    text = browser.get(reverse("laboratory")).content.decode()
    assert "the newest 2 are shown" in text


def test_the_list_follows_what_has_not_ended(browser, tenant, lena):
    simulated(tenant, lena, name="done")
    trace = LabTrace.objects.get()
    open_ = [order(tenant, lena, name=name, trace=trace) for name in ("one", "two")]
    text = browser.get(reverse("laboratory")).content.decode()
    assert f'data-live-streams="{" ".join(f"simulation:{each.pk}" for each in open_)}"' in text


def test_asked_again_the_form_holds_what_was_asked(browser, tenant, lena):
    done = simulated(tenant, lena, knobs={"lambda": 2.0}, seed=7, until_h=1.5, policies=["drf"])
    page = reverse("laboratory-new") + f"?from={done.pk}"
    assert page in browser.get(reverse("laboratory-detail", args=[done.pk])).content.decode()
    context = browser.get(page).context
    knobs = {each["name"]: each["value"] for each in context["knobs"]}
    chosen = [each["name"] for each in context["policies"] if each["checked"]]
    typed = {name: value for name, value in context["typed"].items() if not name.startswith("knob_")}
    sent = browser.post(reverse("laboratory-new"), typed | knobs | {"policies": chosen})
    assert sent.status_code == 302, sent.content.decode()
    again = Simulation.objects.first()
    for name in ("name", "trace_id", "cluster", "policies", "knobs", "seed", "until_h"):
        assert getattr(again, name) == getattr(done, name), name


def test_side_by_side(browser, tenant, lena):
    own = trace(tenant, lena)
    first, second = (simulated(tenant, lena, trace=own, policies=["fifo"], name=name) for name in ("one", "two"))
    url = f"{reverse('laboratory-compare')}?run={first.pk}&run={second.pk}"
    text = browser.get(url).content.decode()
    assert f"fifo (one, {first.pk})" in text
    assert f"fifo (two, {second.pk})" in text
    waiting = order(tenant, lena, trace=own)
    assert browser.get(f"{reverse('laboratory-compare')}?run={first.pk}&run={waiting.pk}").status_code == 404


def test_a_trace_is_uploaded_and_one_that_is_broken_is_refused(browser):
    def upload(content):
        return browser.post(
            reverse("laboratory-traces"), {"file": io.BytesIO(content), "format": "berth-csv", "name": "mine"}
        )

    assert upload(TRACE).status_code == 302
    assert LabTrace.objects.get().jobs == 4
    page = upload(TRACE.replace(b",600", b",six"))
    assert page.status_code == 400
    assert "line 2, column duration_s" in page.content.decode()
    assert LabTrace.objects.count() == 1


def test_a_member_takes_the_history_of_the_tenant_and_an_operator_everybodys(tenant, browser):
    cluster = given.Cluster(tenant, given.member("lena", tenant), given.node_make("n1"))
    other = Tenant.objects.create(name="speech")
    theirs = given.Cluster(other, given.member("mara", other), cluster.node)
    for each in (cluster, theirs):
        each.running()
    browser.post(reverse("laboratory-traces"), {"origin": "history", "days": "1"})
    assert [(each.jobs, each.all_tenants) for each in LabTrace.objects.all()] == [(1, False)]
    olga = Client()
    olga.force_login(given.operator(), backend="django.contrib.auth.backends.ModelBackend")
    olga.post(reverse("laboratory-traces"), {"origin": "history", "days": "1", "tenant": "vision-lab"})
    taken = LabTrace.objects.get(all_tenants=True)
    assert taken.jobs == 2
    share = reverse("laboratory-trace-act", args=[taken.pk, "share"])
    assert olga.post(share, {"shared_with": "tenant"}).status_code == 403
    assert olga.post(share, {"shared_with": "operators"}).status_code == 302
    assert browser.post(reverse("laboratory-traces"), {"origin": "history", "days": "0"}).status_code == 400


def test_nothing_of_it_is_an_outsiders(tenant, lena):
    done = simulated(tenant, lena, cluster=CLUSTER)
    outsider = Client()
    outsider.force_login(
        given.member("mara", Tenant.objects.create(name="speech")), backend="django.contrib.auth.backends.ModelBackend"
    )
    assert outsider.get(reverse("laboratory-detail", args=[done.pk])).status_code == 404
    assert "what if" not in outsider.get(reverse("laboratory")).content.decode()
    assert "last week" not in outsider.get(reverse("laboratory-new")).content.decode()


def damaged(packed):
    return packed[: len(packed) // 2]


def test_curves_that_cannot_be_read_take_neither_the_page_nor_the_figures_along(browser, lena, tenant):
    made = [simulated(tenant, lena), simulated(tenant, lena)]
    curves = Simulation.objects.get(pk=made[0].pk).curves
    Simulation.objects.filter(pk=made[0].pk).update(curves=damaged(bytes(curves)))
    for url in (
        reverse("laboratory-detail", args=[made[0].pk]),
        f"{reverse('laboratory-compare')}?run={made[0].pk}&run={made[1].pk}",
    ):
        page = browser.get(url)
        assert page.status_code == 200
        text = page.content.decode()
        assert "Bold is best." in text
        assert f"The curves of simulation {made[0].pk} cannot be read any more" in text
    assert browser.get(reverse("laboratory-figure", args=[made[0].pk, "cdf-jct-h"])).status_code == 410
    assert browser.get(reverse("laboratory-answer", args=[made[0].pk])).status_code == 410
    whole = browser.get(reverse("laboratory-detail", args=[made[1].pk])).content.decode()
    assert "cannot be read" not in whole


def test_a_trace_that_cannot_be_read_fails_its_simulation_with_what_to_do(browser, lena, tenant):
    made = order(tenant, lena)
    LabTrace.objects.update(content=damaged(bytes(LabTrace.objects.get().content)))
    simulation_next()
    failed = Simulation.objects.get(pk=made.pk)
    assert (failed.state, failed.error) == ("FAILED", "trace: what is stored of it is damaged; upload it again")
