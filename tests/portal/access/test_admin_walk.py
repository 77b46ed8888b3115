"""The operator's console: every one of its generated URLs, as each cast; nobody but operators gets past its door."""

from http import HTTPStatus

import pytest
from django.contrib import admin
from django.urls import NoReverseMatch, reverse
from django_celery_beat.models import IntervalSchedule, PeriodicTask

from portal.foundation.console.base import ConsoleAdmin
from research.examples import routes
from tests.portal.access.world import CASTS

pytestmark = pytest.mark.django_db

OPEN = {"admin:login": "leads to the sign-in", "admin:logout": "POST only"}
LANDINGS = (reverse("admin:login"), reverse("login"))


@pytest.fixture
def objects(world):
    """One object's key a model; a model without rows is asked for a missing one."""
    interval = IntervalSchedule.objects.create(every=5, period="seconds")
    PeriodicTask.objects.create(name="plan", task="plan", interval=interval)
    return {model: model._default_manager.values_list("pk", flat=True).first() or 1 for model in admin.site._registry}


def arguments(name, objects):
    """The arguments of a URL of the console: an object of its model, a command that it has."""
    for model, model_admin in admin.site._registry.items():
        stem = f"{model._meta.app_label}_{model._meta.model_name}_"
        if not name.startswith(stem):
            continue
        page = name.removeprefix(stem)
        if page == "do":
            return {"name": model_admin.commands[0].name}
        return {"object_id": objects[model]} if page in {"history", "delete", "change"} else {}
    known = {"view_on_site": {"content_type_id": 1, "object_id": 1}, "app_list": {"app_label": "tenants"}}
    return known.get(name, {})


def urls(objects):
    """(name, path) of each pattern of the console; what has no name is asked for by an example."""
    found, nameless = [], 0
    for route in routes():
        name = route.name
        if not name.startswith("admin:"):
            continue
        if name == "admin:":
            nameless += 1
            example = route.pattern.replace("<path:object_id>", "1").replace("(?P<url>.*)$", "no/such/page")
            found.append((name, f"/{example}"))
            continue
        found.append((name, reverse(name, kwargs=arguments(name.removeprefix("admin:"), objects))))
    assert nameless == len(admin.site._registry) + 1, "an object's old address for each model, and the catch-all"
    return found


def test_each_url_is_for_operators_only(world, objects):
    wrong, asked = [], 0
    for name, path in urls(objects):
        for cast in CASTS:
            for method in ("GET", "POST"):
                answer = world.ask(cast, "page", method, path, [] if method == "POST" else None)
                asked += 1
                past = not (answer.status_code == HTTPStatus.FOUND and answer.url.startswith(LANDINGS))
                if name in OPEN:
                    continue
                if cast == "operator" and (not past or answer.status_code >= 500):
                    wrong.append(f"{method} {path} as {cast}: {answer.status_code}")
                if cast != "operator" and past:
                    wrong.append(f"{method} {path} as {cast}: {answer.status_code}")
    assert wrong == []
    assert asked > 1000


def test_the_console_has_no_sign_in_of_its_own(world):
    form = [("username", "outsider"), ("password", "correct+horse+battery"), ("next", "/admin/")]
    for cast in CASTS:
        for method in ("GET", "POST"):
            answer = world.ask(cast, "page", method, reverse("admin:login"), form)
            assert "sessionid" not in answer.cookies
            if cast in {"operator", "anonymous", "node"}:
                assert answer.url.startswith(reverse("login")), cast
            else:
                assert answer.status_code == 404, cast  # signed in, and no operator: no way round in a circle


def test_every_model_is_shown_by_the_one_guarded_base():
    """A model registered with Django's own ModelAdmin would bring back deletion, add pages and Django's permissions."""
    assert {type(each).__mro__.count(ConsoleAdmin) for each in admin.site._registry.values()} == {1}


def test_an_address_that_does_not_exist_says_the_same_as_one_that_does(world, objects):
    for cast in ("outsider", "anonymous"):
        there = world.ask(cast, "page", "GET", reverse("admin:jobs_job_change", args=[world.names["zebra-name"]]))
        missing = world.ask(cast, "page", "GET", reverse("admin:jobs_job_change", args=[world.names["missing"]]))
        nowhere = world.ask(cast, "page", "GET", "/admin/no/such/page")
        assert {answer.status_code for answer in (there, missing, nowhere)} == {302}


def test_djangos_groups_are_not_administered():
    with pytest.raises(NoReverseMatch):
        reverse("admin:auth_group_changelist")  # groups give rights of Django's own, which Berth does not use
