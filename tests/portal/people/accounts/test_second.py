"""A second factor: asked for at each sign-in of its owner, each code taken once, recovery codes, wrong ones counted."""

import pyotp
import pytest
from django.test import Client

from portal.people.accounts import second
from portal.people.accounts.models import SecondFactor
from tests.portal.people.accounts.test_people import PASSWORD, get, signed_in

pytestmark = pytest.mark.django_db


def tried(code="", address="127.0.0.1"):
    client = Client()
    answer = client.post("/login", {"username": "viktor", "password": PASSWORD, "code": code}, REMOTE_ADDR=address)
    return client, answer.content.decode()


def sign_in(code="", address="127.0.0.1"):
    return get(tried(code, address)[0], "/jobs/") == 200


def test_it_is_set_up_on_the_account_page_and_ends_other_sessions(viktor, clock):
    here, there = signed_in(viktor), signed_in(viktor)
    assert here.post("/account/second", {"act": "begin"}).status_code == 302
    assert sign_in(), "it counts only once it is confirmed"
    factor = SecondFactor.objects.get()
    assert factor.secret in here.get("/account/").content.decode()
    assert here.post("/account/second", {"act": "confirm", "code": "000000"}).status_code == 400
    answer = here.post("/account/second", {"act": "confirm", "code": pyotp.TOTP(factor.secret).at(clock[0])})
    assert answer.status_code == 201
    assert answer.content.decode().count("-") > 10
    assert (get(here, "/jobs/"), get(there, "/jobs/")) == (200, 302)
    assert factor.secret not in here.get("/account/").content.decode()
    assert not sign_in()


def test_a_code_is_needed_and_taken_once(protected, clock):
    totp, _ = protected
    assert not sign_in()
    assert not sign_in("123456")
    code = totp.at(clock[0])
    assert sign_in(code)
    assert not sign_in(code), "a code that somebody saw is of no use"
    clock[0] += 30
    assert sign_in(totp.at(clock[0]))
    assert not sign_in(totp.at(clock[0] - 300)), "an old one"


def test_a_recovery_code_works_once(protected):
    _, codes = protected
    assert sign_in(codes[3])
    assert not sign_in(codes[3])
    assert len(SecondFactor.objects.get().recovery) == second.RECOVERY_CODES - 1
    assert codes[0] not in str(SecondFactor.objects.values()), "only hashes are kept"


def test_a_right_code_sent_many_times_locks_nobody_out(protected, clock):
    totp, _ = protected
    code = totp.at(clock[0])
    assert [sign_in(code) for _ in range(2 * second.FAILURES)].count(True) == 1
    clock[0] += 30
    assert sign_in(totp.at(clock[0])), "a code that was taken already is no guess"


@pytest.mark.parametrize("code", ["", " ", "x" * 500, "٠٠٠٠٠٠", "-1", "null", "\x00", "0" * 12, "000000 000000"])
def test_nonsense_is_no_code(protected, code):
    assert not sign_in(code)


def test_the_console_has_no_way_round(protected, viktor):
    viktor.is_staff = viktor.is_superuser = True
    viktor.save()
    client = Client()
    answer = client.post("/admin/login/", {"username": "viktor", "password": PASSWORD})
    assert answer.headers["Location"].startswith("/login")
    assert get(client, "/admin/") == 302


def test_it_is_turned_off_with_the_password_alone(protected, viktor, clock):
    _, codes = protected
    client = Client()
    client.post("/login", {"username": "viktor", "password": PASSWORD, "code": codes[0]})
    assert client.post("/account/second", {"act": "end", "password": "wrong"}).status_code == 400
    assert SecondFactor.objects.exists()
    assert client.post("/account/second", {"act": "end", "password": PASSWORD}).status_code == 302
    assert sign_in()
    assert client.post("/account/second", {"act": "nothing"}).status_code == 400
