"""A second factor's stored secret opens only with the signing key; operators may have to have one; the time zone."""

from datetime import UTC

import pyotp
import pytest
from django.test import Client

from portal.foundation.errors import BerthError
from portal.foundation.secret_key import MARK, SealBroken, seal, unseal
from portal.people.accounts import second
from portal.people.accounts.models import SecondFactor
from portal.people.tenants.models import Tenant, User
from portal.people.tenants.selectors import zone_of
from tests.portal import given
from tests.portal.people.accounts.test_people import person

pytestmark = pytest.mark.django_db


def browser(user):
    client = Client()
    client.force_login(user, backend="django.contrib.auth.backends.ModelBackend")
    return client


@pytest.fixture
def viktor():
    return person("viktor", Tenant.objects.create(name="vision-lab"))


def test_a_seal_opens_with_its_key_alone(settings):
    sealed = seal("a secret")
    assert unseal(sealed) == "a secret"
    assert "secret" not in sealed
    assert sealed != seal("a secret")
    for broken in (sealed[:-4], MARK + "x", "a secret", ""):
        with pytest.raises(SealBroken):
            unseal(broken)
    settings.SECRET_KEY = "another" * 12
    with pytest.raises(SealBroken):
        unseal(sealed)


def test_the_database_holds_no_secret_and_another_key_leaves_recovery_codes(viktor, settings):
    factor = second.factor_begin(user=viktor)
    secret = factor.secret
    assert secret not in str(SecondFactor.objects.values())
    codes = second.factor_confirm(user=viktor, code=pyotp.TOTP(secret).now(), session_key=None)
    settings.SECRET_KEY = "another" * 12
    with pytest.raises(BerthError) as refused:
        second.code_check(user=viktor, code=pyotp.TOTP(secret).now(), address="192.0.2.1")
    assert refused.value.code == "wrong_code"
    second.code_check(user=viktor, code=codes[0], address="192.0.2.1")
    assert browser(viktor).get("/account/").status_code == 200


def test_one_begun_under_another_key_begins_anew(viktor, settings):
    first = second.factor_begin(user=viktor).sealed
    settings.SECRET_KEY = "another" * 12
    assert browser(viktor).get("/account/").status_code == 200
    assert second.factor_begin(user=viktor).sealed != first


def test_the_square_is_drawn_by_the_server(viktor):
    second.factor_begin(user=viktor)
    page = browser(viktor).get("/account/").content.decode()
    square = page.split('class="b-square">')[1].split("</p>")[0]
    assert square.startswith("<svg")
    assert square.count("<path") >= 1
    assert "style=" not in square
    assert "script" not in square


# ---- operators -------------------------------------------------------------------------------------------------------


def test_an_operator_without_one_gets_no_further_than_the_account(monkeypatch, viktor):
    boss = given.operator()
    client = browser(boss)
    assert client.get("/queue/").status_code == 200
    monkeypatch.setenv("BERTH_OPERATORS_SECOND_FACTOR", "1")
    for headers in ({}, {"Authorization": "Bearer x"}, {"Authorization": "x"}):
        assert client.get("/queue/", headers=headers).headers["Location"] == "/account/"
        assert client.get("/admin/", headers=headers).headers["Location"] == "/account/"
    answer = client.get("/api/v1/jobs")
    assert (answer.status_code, answer.json()["error"]["code"]) == (403, "second_factor_required")
    assert client.get("/api/v1/jobs", headers={"Authorization": "x"}).status_code in {401, 403}
    assert client.get("/api/v1/jobs", headers={"Authorization": "Bearer x"}).status_code == 401
    assert "Operators of this Berth need a second factor" in client.get("/account/").content.decode()
    assert browser(viktor).get("/queue/").status_code == 200, "others are not asked"
    factor = second.factor_begin(user=boss)
    second.factor_confirm(user=boss, code=pyotp.TOTP(factor.secret).now(), session_key=client.session.session_key)
    assert client.get("/queue/").status_code == 200


# ---- time zone -------------------------------------------------------------------------------------------------------


def test_the_time_zone_is_the_readers(viktor):
    client = browser(viktor)
    assert "data-zone" not in client.get("/account/").content.decode()
    client.post("/account/time-zone", {"time_zone": "Asia/Tokyo"})
    assert 'data-zone="Asia/Tokyo"' in client.get("/queue/").content.decode()
    for wrong in ("Mars/Olympus", "Factory", "localtime", "../etc/passwd", '"><script>'):
        client.post("/account/time-zone", {"time_zone": wrong})
    assert 'data-zone="Asia/Tokyo"' in client.get("/account/").content.decode()
    client.post("/account/time-zone", {"time_zone": ""})
    assert "data-zone" not in client.get("/account/").content.decode()


def test_a_zone_that_this_machine_no_longer_knows_is_utc(viktor):
    User.objects.filter(pk=viktor.pk).update(time_zone="Europe/Atlantis")
    assert zone_of(User.objects.get(pk=viktor.pk)) is UTC
    assert browser(viktor).get("/jobs/csv").status_code == 200
