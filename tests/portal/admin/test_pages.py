"""Every page of the console: operators only, nothing from elsewhere, no secret, nothing unescaped."""

import re

import pytest
from django.core import checks
from django.urls import reverse

from portal.cluster.services.joining import join_token_create
from portal.cluster.services.operating import environment_add
from portal.engines.services import engine_attach, pilots_order
from portal.people.tenants.models import ApiToken
from portal.people.tenants.services import token_create
from portal.planning.rounds.models import Planning
from portal.planning.rounds.planning.run import planning_run
from portal.urls import admin  # with the console's pages, which `portal.urls` finds
from portal.work.jobs.services.submission import job_submit
from research.workloads.partitions import DESCRIPTION

LISTS = [f"admin:{model._meta.app_label}_{model._meta.model_name}_changelist" for model in admin.site._registry]
ADDED = [
    f"admin:{kind}_add"
    for kind in (
        "tenants_tenant",
        "tenants_user",
        "cluster_jointoken",
        "cluster_namedenvironment",
        "engines_engine",
    )
]
FOREIGN = re.compile(r"""(?:src|href|action)=["'](?:https?:)?//""")


@pytest.fixture
def objects(operator, member, tenant, node, job):
    """One object of each kind, by the name of its page."""
    token, _ = token_create(user=member, name="ci", scopes=["jobs:read"], actor=member)
    planning = planning_run()
    described = DESCRIPTION | {"version": "<script>alert(1)"}
    engine, _ = engine_attach(join_secret=join_token_create(actor=operator)[1], description=described)
    pilots_order(engine=engine, number=1, gpus=2)
    return {
        "engines_engine": engine.pk,
        "tenants_tenant": tenant.pk,
        "tenants_user": member.pk,
        "tenants_apitoken": token.pk,
        "cluster_node": node.pk,
        "cluster_gputype": node.gpu_type_id,
        "cluster_jointoken": 1,
        "cluster_namedenvironment": environment_add(name="torch", directory="/opt/torch", actor=operator).pk,
        "jobs_job": job.pk,
        "rounds_planning": planning.pk,
        "rounds_round": planning.round_id,
        "tenants_auditevent": 1,
        "django_celery_beat_periodictask": 1,
    }


def test_django_finds_no_fault_in_the_pages():
    assert len(LISTS) > 10
    assert checks.run_checks() == []


def test_pages_are_for_operators_only(console, operator, member, objects):
    for name in ["admin:index", *LISTS, *ADDED]:
        page = console.get(reverse(name))
        assert page.status_code == 200, name
        assert not FOREIGN.search(page.content.decode()), name
    console.force_login(member)
    for name in ["admin:index", *LISTS, *ADDED]:
        assert console.get(reverse(name)).status_code == 302, name
    console.logout()
    for name in ["admin:index", *LISTS, *ADDED]:
        assert console.get(reverse(name)).status_code == 302, name


def test_each_object_has_its_page(console, member, objects):
    for kind, pk in objects.items():
        url = reverse(f"admin:{kind}_change", args=[pk])
        page = console.get(url)
        assert page.status_code == 200, kind
        assert not FOREIGN.search(page.content.decode()), kind
        assert "<script>alert(1)" not in page.content.decode(), kind
    console.force_login(member)
    for kind, pk in objects.items():
        assert console.get(reverse(f"admin:{kind}_change", args=[pk])).status_code == 302, kind


def test_a_plain_operator_who_is_no_superuser_sees_all(console, operator, objects):
    operator.is_superuser = False
    operator.save()
    for name in LISTS:
        assert console.get(reverse(name)).status_code == 200, name


def test_no_page_shows_a_digest(console, member, objects):
    digest = ApiToken.objects.get().digest
    for name in ("tenants_apitoken", "tenants_user"):
        page = console.get(reverse(f"admin:{name}_change", args=[objects[name]]))
        assert digest not in page.content.decode()
        assert member.password not in page.content.decode()


def test_nothing_can_be_deleted_by_hand(console, objects):
    for kind, pk in objects.items():
        assert console.post(reverse(f"admin:{kind}_delete", args=[pk]), {"post": "yes"}).status_code == 403, kind


def test_planning_shows_its_decisions_in_words(console, objects, node):
    page = console.get(reverse("admin:rounds_planning_change", args=[objects["rounds_planning"]])).content.decode()
    assert "Placed on n1" in page
    assert "&lt;script&gt;" in page


def test_failed_planning_shows_its_error(console, objects):
    Planning.objects.update(status=Planning.Status.FAILED, error="ValueError: <odd>")
    assert "ValueError: &lt;odd&gt;" in console.get(reverse("admin:index")).content.decode()
    page = console.get(reverse("admin:rounds_planning_change", args=[objects["rounds_planning"]])).content.decode()
    assert "ValueError: &lt;odd&gt;" in page


def test_a_longer_list_needs_no_more_queries(console, objects, member, django_assert_max_num_queries):
    kinds = ["jobs_job", "rounds_planning", "tenants_auditevent", "cluster_node", "tenants_tenant"]
    for _ in range(5):
        job_submit(user=member, description={"name": "more", "command": "true", "gpus": 1})
        planning_run()
    for kind in kinds:
        with django_assert_max_num_queries(15):
            console.get(reverse(f"admin:{kind}_changelist"))


def test_a_tenants_members_rows_name_their_fields(console, objects):
    """In a table of forms the head is no label; axe-core calls a select without one critical."""
    page = console.get(reverse("admin:tenants_tenant_change", args=[objects["tenants_tenant"]])).content.decode()
    fields = re.findall(r'<(?:select|input)[^>]*name="memberships-\d+-(?:user|role)"[^>]*>', page)
    assert len(fields) == 4, "the member, and a row for another"
    assert all("aria-label=" in field for field in fields), fields
