"""The submit form's choice of where code comes from: read, and filled in again to edit and relaunch."""

import pytest
from django.http import QueryDict

from portal.foundation.errors import BerthError
from portal.pages.dashboard.submit.apart import SOURCES, code_choices, code_read, code_values, secret_choices
from portal.pages.dashboard.submit.form import initial_of
from portal.pages.dashboard.submit.reading import description_read, form_field_of
from portal.work.jobs.declaration.table import INPUTS
from portal.work.secrets.services import secret_set
from tests.portal.given import member

URL = "https://host.example/lab/aerial.git"


def posted(**fields):
    post = QueryDict(mutable=True)
    post.update({"command": "true", "gpu_mode": "cpu", **fields})
    return post


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"code_from": "git", "code.git": URL}, {"git": URL}),
        (
            {"code_from": "git", "code.git": URL, "code.ref": "v1", "code.secret": "gitlab", "code.submodules": "true"},
            {"git": URL, "ref": "v1", "secret": "gitlab", "submodules": True},
        ),
        ({"code_from": "path", "code.path": " /shared/lena "}, {"path": "/shared/lena"}),
    ],
)
def test_what_is_read_is_filled_in_again(fields, code):
    described = description_read(posted(**fields, secrets="HF_TOKEN=hf-token\n")).description
    assert (described["code"], described["secrets"]) == (code, {"HF_TOKEN": "hf-token"})
    values = initial_of(described)
    assert code_read(
        posted(**{name: value for name, value in values.items() if value and name in code_values(code)})
    ) == {"code": code}
    assert values["secrets"] == "HF_TOKEN=hf-token"


def test_fields_of_another_choice_are_not_read():
    assert code_read(posted(**{"code_from": "files", "code.git": URL, "code.path": "/shared"})) == {}
    assert code_read(posted(**{"code.git": URL})) == {}
    assert [each["value"] for each in code_choices("nonsense") if each["selected"]] == ["files"]
    assert list(SOURCES) == ["files", "git", "path"]


def test_errors_stand_at_the_field_of_the_form():
    fields = {
        "code": "code.git",
        "secrets.HF_TOKEN": "secrets",
        "upload": "files",
        "gpus.min": "gpus",
        "array": "array.size",
    }
    fields |= {
        "learning_rate.2": "learning_rate",
        "software.image": "software.path",
        "software.environment": "software",
    }
    fields |= {name: name for name in INPUTS}
    for field, form in fields.items():
        assert form_field_of(BerthError("x", "y", field=field)) == form


def test_a_secret_that_is_gone_stays_chosen():
    assert [each["value"] for each in secret_choices("gone", ["a", "b"])] == ["", "a", "b", "gone"]


@pytest.mark.django_db
def test_the_form_offers_the_secrets_of_own_tenants_by_name(client, cluster):
    secret_set(actor=cluster.owner, tenant=cluster.tenant, name="gitlab", value="glpat-0123456789")
    from portal.people.tenants.models import Tenant

    other = Tenant.objects.create(name="nlp-lab")
    secret_set(actor=member("mallory", other), tenant=other, name="not-yours", value="glpat-9876543210")
    client.force_login(cluster.owner)
    page = client.get("/jobs/new").content.decode()
    assert '<option value="gitlab">gitlab</option>' in page
    assert "There are gitlab." in page
    assert "not-yours" not in page
    assert "glpat" not in page
