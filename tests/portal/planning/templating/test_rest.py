"""Job templates over REST and by service: versions, rights, limits, jobs from them."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from portal.foundation.errors import BerthError, Conflict
from portal.people.tenants.models import AuditEvent, Membership, Tenant, User
from portal.planning.templating import services
from portal.planning.templating.models import JobTemplate, TemplateVersion
from portal.work.jobs.models import Job
from portal.work.secrets.services import secret_set
from tests.portal.foundation.api.conftest import refusal, unchanged, world  # noqa: F401 - fixtures
from tests.portal.planning.templating.samples import TEXT, document, one

pytestmark = pytest.mark.django_db


@pytest.fixture
def kept(world):  # noqa: F811
    answer = world.owner("POST", "/templates", {"text": TEXT})
    assert answer.status_code == 201, answer.content
    return answer.json()


def submitted(caller, name="train", **body):
    answer = caller("POST", f"/templates/{name}/submit", body)
    assert answer.status_code == 201, answer.content
    return answer.json()


def test_a_change_is_a_new_version_and_old_ones_stay_readable(world, kept):  # noqa: F811
    assert (kept["tenant"], kept["version"], kept["shown_version"]) == ("vision-lab", 1, 1)
    assert world.teammate("POST", "/templates", {"text": TEXT}).json()["version"] == 1
    changed = world.teammate("POST", "/templates", {"document": document(title="Another")}).json()
    assert (changed["version"], changed["made_by"]) == (2, "tim")
    assert world.owner.get("/templates/train").json()["title"] == "Another"
    old = world.owner.get("/templates/train", version=1).json()
    assert (old["shown_version"], old["text"]) == (1, kept["text"])
    rows = world.owner.get("/templates/train/versions").json()["results"]
    assert [(row["version"], row["made_by"]) for row in rows] == [(2, "tim"), (1, "lena")]
    refusal(world.owner.get("/templates/train", version=3), 404, "not_found")
    assert AuditEvent.objects.filter(action="template.save").count() == 2


def test_a_job_from_a_template_remembers_name_version_and_values(world, kept):  # noqa: F811
    job = submitted(world.owner, values={"lr": 0.5, "note": "it's"})
    assert job["command"] == "echo train --lr=0.5 --epochs 3  'it'\"'\"'s'"
    assert (job["name"], job["gpus"], job["environment"]) == ("train-small", [1, 2], {"KIND": "small", "LR": "0.5"})
    values = {"lr": 0.5, "epochs": 3, "sizes": [1, 2], "kind": "small", "mixed": False, "note": "it's"}
    assert job["template"] == {"name": "train", "version": 1, "tenant": "vision-lab", "values": values}
    assert world.owner.submit()["template"] is None
    assert world.manager("DELETE", "/templates/train").status_code == 204
    assert world.owner.get(f"/jobs/{job['number']}").json()["template"]["version"] == 1


def test_fields_beside_the_values_and_an_older_version(world, kept):  # noqa: F811
    world.owner("POST", "/templates", {"document": document(title="Another")})
    job = submitted(world.owner, version=1, job={"name": "mine", "workdir": "src", "gpus": 4})
    assert (job["name"], job["working_directory"], job["gpus"], job["template"]["version"]) == ("mine", "src", [4], 1)
    refusal(
        world.owner("POST", "/templates/train/submit", {"job": {"tenant": "x"}}), 400, "not_changeable", "job.tenant"
    )


def test_the_same_key_submits_once(world, kept):  # noqa: F811
    first, second = (
        world.owner("POST", "/templates/train/submit", {}, headers={"Idempotency-Key": "k"}).json()["id"]
        for _ in range(2)
    )
    assert first == second


@pytest.mark.parametrize(
    ("values", "code", "field"),
    [
        ({"lr": 2}, "out_of_range", "values.lr"),
        ({"what": 1}, "unknown_parameter", "values.what"),
        ({"note": "x" * 1_000_000}, "too_long", "values.note"),
        (dict.fromkeys(map(str, range(10_000))), "too_many", "values"),
        ([], "wrong_type", "values"),
        ({"sizes": 3}, None, None),
    ],
)
def test_wrong_values_are_told_by_parameter(world, kept, values, code, field):  # noqa: F811
    answer = world.owner("POST", "/templates/train/submit", {"values": values})
    if code is None:
        assert answer.status_code == 201
    else:
        refusal(answer, 400, code, field)
        refusal(world.owner("POST", "/templates/train/plan", {"values": values}), 400, code, field)
        assert Job.objects.count() == 0


def test_what_the_cluster_refuses_is_told_by_the_parameter_that_asked_for_it(world):  # noqa: F811
    wide = one({"type": "gpus"}, "true", gpus="${{ x }}")
    world.owner("POST", "/templates", {"document": wide})
    refusal(world.owner("POST", "/templates/one/submit", {"values": {"x": 512}}), 400, "unsatisfiable", "values.x")


def test_a_dry_run_stores_nothing(world, kept):  # noqa: F811
    answer = world.owner("POST", "/templates/train/plan", {"values": {"lr": 0.2}}).json()
    assert answer["placeable"] is True
    assert Job.objects.count() == 0


def test_viewers_read_members_make_managers_delete_and_outsiders_see_nothing(world, kept):  # noqa: F811
    Membership.objects.filter(user=world.users["tim"]).update(role="viewer")
    assert world.teammate.get("/templates/train").status_code == 200
    refusal(world.teammate("POST", "/templates", {"document": document(title="x")}), 403, "viewer")
    refusal(world.teammate("POST", "/templates/train/submit", {}), 403, "viewer")
    refusal(world.owner("DELETE", "/templates/train"), 403, "manager_only")
    for method, path, body in (
        ("GET", "/templates/train", None),
        ("GET", "/templates/train/versions", None),
        ("DELETE", "/templates/train", None),
        ("POST", "/templates/train/submit", {}),
        ("POST", "/templates/train/plan", {}),
    ):
        refusal(world.outsider(method, path, body), 404, "not_found")
        refusal(world.outsider(method, path.replace("train", "none"), body), 404, "not_found")
    assert world.outsider.get("/templates").json()["results"] == []
    refusal(
        world.outsider("POST", "/templates", {"text": TEXT, "tenant": "vision-lab"}), 400, "unknown_tenant", "tenant"
    )
    refusal(world.outsider("POST", "/templates", {"text": TEXT, "tenant": "no-lab"}), 400, "unknown_tenant", "tenant")


def test_operators_templates_are_for_all_and_a_tenants_own_comes_first(world, kept):  # noqa: F811
    refusal(world.manager("POST", "/templates", {"text": TEXT, "operators": True}), 403, "operator_only")
    plain = world.caller("root")
    refusal(plain("POST", "/templates", {"text": TEXT, "operators": True}), 403, "missing_scope")
    assert world.operator("POST", "/templates", {"text": TEXT, "operators": True}).json()["tenant"] is None
    assert submitted(world.outsider)["template"]["tenant"] is None
    assert submitted(world.owner)["template"]["tenant"] == "vision-lab"
    answer = world.owner("POST", "/templates/train/submit?operators=true", {}).json()
    assert answer["template"]["tenant"] is None
    refusal(plain("DELETE", "/templates/train?operators=true"), 403, "missing_scope")
    refusal(world.manager("DELETE", "/templates/train?operators=true"), 403, "operator_only")
    assert world.operator("DELETE", "/templates/train?operators=true").status_code == 204
    assert world.owner.get("/templates").json()["count"] == 1


def test_one_name_in_two_tenants_is_asked_for(world, kept):  # noqa: F811
    Membership.objects.create(user=world.users["otto"], tenant=world.tenants["vision-lab"], role="member")
    for name in ("vision-lab", "speech-lab"):
        world.outsider("POST", "/templates", {"text": TEXT, "tenant": name})
    refusal(world.outsider.get("/templates/train"), 400, "ambiguous", "tenant")
    assert world.outsider.get("/templates/train", tenant="speech-lab").json()["tenant"] == "speech-lab"
    assert submitted(world.outsider, tenant="speech-lab")["tenant"] == "speech-lab"


def test_a_token_for_one_tenant_stays_within_it(world, kept):  # noqa: F811
    Membership.objects.create(user=world.users["lena"], tenant=world.tenants["speech-lab"], role="member")
    caller = world.caller("lena", tenant=world.tenants["speech-lab"])
    refusal(caller.get("/templates/train"), 404, "not_found")
    refusal(caller("POST", "/templates", {"text": TEXT, "tenant": "vision-lab"}), 403, "forbidden", "tenant")
    assert caller("POST", "/templates", {"text": TEXT}).json()["tenant"] == "speech-lab"


@pytest.mark.parametrize(
    "body", [{}, {"text": TEXT, "document": {}}, {"text": 1}, {"text": "a: ["}, {"text": TEXT, "x": 1}]
)
def test_a_body_that_is_no_template_changes_nothing(world, body):  # noqa: F811
    refusal(world.owner("POST", "/templates", body), 400)
    assert JobTemplate.objects.count() == 0


def test_files_come_along(world):  # noqa: F811
    body = {"text": "name: x\njob: {command: python3 a.py, files: {b: c}}", "files": {"a.py": "print(1)"}}
    assert set(world.owner("POST", "/templates", body).json()["job"]["files"]) == {"a.py", "b"}
    refusal(world.owner("POST", "/templates", body | {"files": {"../a": "x"}}), 400, "path_escape", "job.files")


def test_a_tenant_cannot_fill_the_database(world, monkeypatch):  # noqa: F811
    tenant, actor = Tenant.objects.get(name="vision-lab"), world.users["lena"]

    def save(**changes):
        return services.template_save(actor=actor, tenant=tenant, document=document(**changes))

    monkeypatch.setattr(services, "MOST_TEMPLATES", 1)
    monkeypatch.setattr(services, "MOST_VERSIONS", 2)
    save()
    with pytest.raises(Conflict, match="1 templates already"):
        save(name="second")
    save(title="two")
    with pytest.raises(Conflict, match="has 2 versions"):
        save(title="three")
    monkeypatch.setattr(services, "MOST_VERSIONS", 9)
    monkeypatch.setattr(services, "MOST_BYTES_ALL", 2000)
    with pytest.raises(Conflict, match="larger than 32 MiB"):
        save(title="three")
    assert TemplateVersion.objects.count() == 2


def test_saved_values_are_a_persons_own_and_bounded(world, kept, monkeypatch):  # noqa: F811
    template, user = JobTemplate.objects.get(), world.users["lena"]
    services.values_save(user=user, template=template, name="mine", values={"lr": 0.3})
    assert services.values_save(user=user, template=template, name="mine", values={"lr": 0.4}).values == {"lr": 0.4}
    monkeypatch.setattr(services, "MOST_SAVED", 1)
    with pytest.raises(Conflict, match="1 saved settings"):
        services.values_save(user=user, template=None, name="other", values={})
    with pytest.raises(BerthError, match="64 KiB"):
        services.values_save(user=user, template=template, name="mine", values={"x": "y" * 70_000})


def test_lists_cost_the_same_whatever_they_hold(world, kept, django_assert_num_queries):  # noqa: F811
    with CaptureQueriesContext(connection) as few:
        world.owner.get("/templates")
    queries = len(few)
    for number in range(20):
        world.owner("POST", "/templates", {"document": document(name=f"t{number}")})
    with django_assert_num_queries(queries):
        assert world.owner.get("/templates", q="train model").json()["count"] == 21


def test_a_parameter_names_a_secret_of_the_tenant(world):  # noqa: F811
    token = one({"type": "secret", "name": "token"}, "true", secrets={"HF_TOKEN": "${{ token }}"})
    assert world.owner("POST", "/templates", {"document": token}).status_code == 201

    def asked(name):
        return world.owner("POST", "/templates/one/submit", {"values": {"token": name}})

    def keep(username, tenant, value):
        actor, owner = User.objects.get(username=username), Tenant.objects.get(name=tenant)
        secret_set(actor=actor, tenant=owner, name="hf-token", value=value)

    refusal(asked("no name"), 400, "bad_name", "values.token")
    keep("otto", "speech-lab", "hf-0123456789")
    refusal(asked("hf-token"), 400, "unknown_secret", "values.token")
    keep("lena", "vision-lab", "hf-9876543210")
    answer = asked("hf-token")
    assert answer.status_code == 201
    assert "hf-9876543210" not in answer.content.decode()
    assert Job.objects.get().payload.description["secrets"] == {"HF_TOKEN": "hf-token"}
