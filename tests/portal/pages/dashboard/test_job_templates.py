"""Pages of job templates: the form that parameters make, errors at fields, saved settings, relaunch, versions, import."""

import json
import re
from html import unescape

import pytest
from django.core.cache import cache
from django.test import Client

from portal.people.tenants.models import Tenant
from portal.planning.templating.models import JobTemplate, SavedValues
from portal.planning.templating.services import template_save
from portal.work.jobs.models import Job
from tests.portal import given
from tests.portal.planning.templating.samples import TEXT, document, one

pytestmark = pytest.mark.django_db
BACKEND = "django.contrib.auth.backends.ModelBackend"
FORM = {"p_lr": "0.1", "p_epochs": "3", "p_sizes": "1, 2", "p_kind": "small", "p_note": ""}


def signed_in(user):
    client = Client()
    client.force_login(user, backend=BACKEND)
    return client


@pytest.fixture
def browser(cluster):
    cache.clear()
    return signed_in(cluster.owner)


@pytest.fixture
def kept(cluster):
    return template_save(actor=cluster.owner, tenant=cluster.tenant, document=document())[0]


def page(answer, status=200):
    assert answer.status_code == status, answer.content[:2000]
    return answer.content.decode()


def test_two_clicks_from_the_submit_page_to_a_job(browser, kept):
    assert f'href="/templates/{kept.pk}/use"' in page(browser.get("/jobs/new"))
    form = page(browser.get(f"/templates/{kept.pk}/use"))
    for words in ("Learning rate", "The step. Between 0.0001 and 1.", 'value="0.1"', 'value="1,2"', "<option"):
        assert words in form
    answer = browser.post(f"/templates/{kept.pk}/use", FORM | {"act": "submit", "p_mixed": "true", "name": "mine"})
    job = Job.objects.get()
    assert answer["Location"] == f"/jobs/{job.number}/"
    assert job.name == "mine"
    assert job.payload.command == "echo train --lr=0.1 --epochs 3 --mixed ''"


def test_errors_stand_at_their_fields_and_what_was_typed_stays(browser, kept):
    wrong = FORM | {"act": "submit", "p_lr": "7", "p_epochs": "many", "p_note": "kept"}
    text = page(browser.post(f"/templates/{kept.pk}/use", wrong), 400)
    assert "2 things to correct" in text
    assert "`Learning rate` must be between 0.0001 and 1." in text
    assert 'value="many"' in text
    assert 'value="kept"' in text
    assert Job.objects.count() == 0


def test_the_card_beside_the_form_tells_what_would_happen_and_the_command_line(browser, kept):
    text = page(browser.post(f"/templates/{kept.pk}/plan", FORM | {"p_lr": "0.5"}))
    assert "Starts at once" in text
    assert "berth submit --template train --template-version 1 --set lr=0.5" in text
    text = page(browser.post(f"/templates/{kept.pk}/plan", FORM | {"p_lr": "5"}))
    assert "Cannot start" in text
    assert "p_lr" in text
    assert Job.objects.count() == 0


def test_a_job_is_relaunched_with_one_value_changed(browser, kept):
    browser.post(f"/templates/{kept.pk}/use", FORM | {"act": "submit", "p_lr": "0.25"})
    first = Job.objects.get()
    assert f"/templates/{kept.pk}/use?from={first.number}" in page(browser.get(f"/jobs/{first.number}/"))
    assert 'value="0.25"' in page(browser.get(f"/templates/{kept.pk}/use?from={first.number}"))
    browser.post(f"/templates/{kept.pk}/use", FORM | {"act": "submit", "p_lr": "0.25", "p_epochs": "9"})
    second = Job.objects.order_by("pk").last()
    assert second.payload.template["values"] == first.payload.template["values"] | {"epochs": 9}
    kept.delete()
    assert "Change values and relaunch" not in page(browser.get(f"/jobs/{first.number}/"))


def test_saved_settings_are_ones_own(browser, cluster, kept):
    answer = browser.post(f"/templates/{kept.pk}/use", FORM | {"act": "save", "save_as": "mine", "p_lr": "0.75"})
    saved = SavedValues.objects.get()
    assert answer["Location"] == f"/templates/{kept.pk}/use?saved={saved.pk}"
    assert 'value="0.75"' in page(browser.get(answer["Location"]))
    other = signed_in(given.member("tim", cluster.tenant))
    assert other.get(answer["Location"]).status_code == 404
    assert other.post(f"/templates/saved/{saved.pk}/delete").status_code == 404
    assert "mine" not in page(other.get(f"/templates/{kept.pk}/use"))
    assert "is blank" in page(browser.post(f"/templates/{kept.pk}/use", FORM | {"act": "save"}), 400)
    browser.post(f"/templates/saved/{saved.pk}/delete")
    assert SavedValues.objects.count() == 0


def test_saved_settings_of_a_template_that_lost_a_parameter_still_open(browser, cluster, kept):
    browser.post(f"/templates/{kept.pk}/use", FORM | {"act": "save", "save_as": "mine", "p_lr": "0.75"})
    changed = document(parameters=[], job={"command": "true"})
    template_save(actor=cluster.owner, tenant=cluster.tenant, document=changed)
    page(browser.get(f"/templates/{kept.pk}/use?saved={SavedValues.objects.get().pk}"))
    assert "the last one is 2" in page(browser.get(f"/templates/{kept.pk}/use?version=1"))


def test_the_whole_form_is_saved_and_opened_again(browser):
    fields = {"command": "sleep 77", "gpu_mode": "set", "gpus": ["2"], "memory_mib": "3 GiB", "save_as": "night"}
    answer = browser.post("/jobs/new/save", fields)
    text = page(browser.get(answer["Location"]))
    assert "sleep 77" in text
    assert 'value="3 GiB"' in text
    assert "night" in page(browser.get("/jobs/new"))


def test_a_form_that_cannot_be_saved_comes_back_with_its_errors_at_the_fields(browser):
    fields = {"command": "sleep 77", "gpu_mode": "set", "gpus": ["2"], "memory_mib": "much", "save_as": "night"}
    answer = browser.post("/jobs/new/save", fields)
    text = page(answer, status=400)
    assert "sleep 77" in text
    assert 'value="night"' in text
    assert "is not an amount" in re.search(r'id="error_memory_mib".*?</div>', text, re.DOTALL)[0]
    text = page(browser.post("/jobs/new/save", fields | {"memory_mib": "", "save_as": ""}), status=400)
    assert "save_as" in re.search(r'id="error_save_as".*?</div>', text, re.DOTALL)[0]
    assert 'id="more-fields" open>' in text
    assert not SavedValues.objects.exists()


def test_versions_and_what_differs_between_them(browser, cluster, kept):
    data = document()
    data["job"]["files"] = {"secret.py": "print('content')"}
    data["parameters"][0]["default"] = 0.2
    template_save(actor=cluster.owner, tenant=cluster.tenant, document=data)
    text = page(browser.get(f"/templates/{kept.pk}/?version=2&with=1"))
    assert "From version 1 to 2" in text
    assert 'data-sign="-">-     default: 0.1' in text
    assert 'data-sign="+">+     default: 0.2' in text
    assert "print(" not in text
    assert "print(" in browser.get(f"/templates/{kept.pk}/yaml").content.decode()
    assert "print(" not in browser.get(f"/templates/{kept.pk}/yaml?version=1").content.decode()
    assert browser.get(f"/templates/{kept.pk}/?version=3").status_code == 404


def test_import_names_what_is_wrong_and_keeps_the_text(browser, cluster):
    text = page(browser.post("/templates/new", {"text": "name: [x", "whose": cluster.tenant.name}), 400)
    assert "Nothing was saved" in text
    assert "name: [x" in text
    browser.post("/templates/new", {"text": TEXT, "whose": cluster.tenant.name})
    assert JobTemplate.objects.get().version == 1
    assert "for all tenants</option>" not in text
    browser.post("/templates/new", {"text": TEXT.replace("0.1,", "0.3,"), "whose": "*"})
    assert JobTemplate.objects.get().version == 1


def test_a_job_becomes_a_template_with_its_options_as_parameters(browser, cluster):
    job = cluster.submit(gpus=[1, 2], command="python3 t.py --epochs 30 --lr=1e-3 --quick 'it --x 1' --model vit")
    text = page(browser.get(f"/templates/new?from={job.number}"))
    for words in (
        "--epochs ${{ epochs }}",
        "default: 30",
        "--lr=${{ lr }}",
        "--model ${{ model }}",
        "gpus: ${{ gpus }}",
    ):
        assert words in text.replace("&#x27;", "'"), words
    posted = browser.get(f"/templates/new?from={job.number}").context["text"]
    assert browser.post("/templates/new", {"text": posted, "whose": Tenant.objects.get().name}).status_code == 302


def test_the_list_searches_and_says_when_it_is_empty(browser, cluster, kept, django_assert_max_num_queries):
    assert "Train a model" in page(browser.get("/templates/?q=train+saves"))
    assert "No template matches zebra" in page(browser.get("/templates/?q=zebra"))
    for number in range(70):
        template_save(actor=cluster.owner, tenant=cluster.tenant, document=document(name=f"t{number}"))
    with django_assert_max_num_queries(12):
        assert "Next" in page(browser.get("/templates/"))
    assert "Previous" in page(browser.get("/templates/?page=2"))


def test_buttons_are_for_who_may_press_them(cluster, kept):
    viewer = signed_in(given.member("vi", cluster.tenant, role="viewer"))
    text = page(viewer.get(f"/templates/{kept.pk}/"))
    assert "Change</a>" not in text
    assert "Delete</button>" not in text
    assert "Delete</button>" in page(signed_in(given.operator()).get(f"/templates/{kept.pk}/"))


def test_a_template_without_a_length_asks_for_one_and_proposes_it(browser, cluster, kept):
    own = one({"type": "integer", "default": 60}, expected_duration_s="${{ x }}")
    with_length = template_save(actor=cluster.owner, tenant=cluster.tenant, document=own)[0]
    assert "Expected duration" not in page(browser.get(f"/templates/{with_length.pk}/use")), "its parameter says it"
    for place in range(4):
        cluster.ran(1800.0 + 60 * place, ago_s=100 - place)
    number = kept.pk
    assert "Expected duration" in page(browser.get(f"/templates/{number}/use"))
    text = page(browser.post(f"/templates/{number}/plan", FORM))
    assert "Your last 4 jobs of this size without a category mostly took" in text
    assert json.loads(unescape(re.search(r'data-use="(.*?)"', text)[1])) == {"expected_duration_s": "32 min"}
    text = page(browser.post(f"/templates/{number}/plan", FORM | {"expected_duration_s": "32 min"}))
    assert "mostly took" not in text
    assert "--expected &#x27;32 min&#x27;" in text
    wrong = page(browser.post(f"/templates/{number}/use", FORM | {"act": "submit", "expected_duration_s": "soon"}), 400)
    assert "&#x27;soon&#x27; is not an amount" in wrong
    browser.post(f"/templates/{number}/use", FORM | {"act": "submit", "expected_duration_s": "32 min"})
    assert Job.objects.latest("pk").expected_duration_s == 1920
