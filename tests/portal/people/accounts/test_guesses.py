"""Wrong codes of a second factor: a thief of the password can neither guess on nor keep the owner out."""

import json
import os
import subprocess
import sys
from types import SimpleNamespace

import pyotp
import pytest
from django.core.cache import cache
from django.utils import timezone

from portal.foundation.layout import SOURCE
from portal.people.accounts import second
from portal.people.accounts.models import SecondFactor
from portal.people.tenants.models import Tenant
from portal.people.tenants.sign_in import network_of
from tests.portal.people.accounts.test_people import PASSWORD, person
from tests.portal.people.accounts.test_second import sign_in, tried
from tests.portal.planning.rounds.planning.test_lease_processes import database_url

HOME, STRANGER = "192.0.2.1", "198.51.100.7"
FAR = [f"203.0.113.{n}" for n in range(second.IN_ALL + 1)]


@pytest.mark.django_db
def test_a_stranger_who_has_the_password_keeps_nobody_out(protected, clock):
    totp, _ = protected
    for _ in range(second.FAILURES):
        assert not sign_in("000000", STRANGER)
    assert not sign_in(totp.at(clock[0]), STRANGER), "the guesser guesses no more"
    assert "two codes" in tried("000000", STRANGER)[1]
    assert sign_in(totp.at(clock[0]), HOME)


@pytest.mark.django_db
def test_wrong_codes_of_an_address_are_over_after_a_while(protected, clock, monkeypatch):
    for _ in range(second.FAILURES):
        assert not sign_in("000000", STRANGER)
    later = timezone.now() + second.REST
    monkeypatch.setattr(second, "timezone", SimpleNamespace(now=lambda: later))
    assert sign_in(protected[0].at(clock[0]), STRANGER)


@pytest.mark.django_db
def test_a_stranger_with_many_addresses_guesses_no_more_than_twenty(protected, clock):
    totp, _ = protected
    for address in FAR:
        assert not sign_in("000000", address)
    assert len(SecondFactor.objects.get().wrong) == second.IN_ALL
    assert not sign_in(totp.at(clock[0]), "198.51.100.99"), "a stranger's next address"


@pytest.mark.django_db
def test_where_the_owner_is_signed_in_one_code_is_enough_meanwhile(protected, clock):
    totp, _ = protected
    assert sign_in(totp.at(clock[0]), HOME)
    for address in FAR:
        assert not sign_in("000000", address)
    clock[0] += 30
    assert sign_in(totp.at(clock[0]), HOME)
    clock[0] += 30
    for _ in range(second.FAILURES):
        assert not sign_in("000000", HOME), "nor does anybody guess on there"
    assert not sign_in(totp.at(clock[0]), HOME)


@pytest.mark.django_db
@pytest.mark.parametrize("address", [HOME, STRANGER])
def test_two_codes_in_a_row_let_the_owner_in_wherever_somebody_guesses(protected, clock, address):
    totp, recovery = protected
    for each in (*FAR, *[address] * second.FAILURES):
        assert not sign_in("000000", each)
    before, now = totp.at(clock[0] - 30), totp.at(clock[0])
    assert not sign_in(now, address)
    for wrong in (f"{now} {before}", f"{now} {now}", f"{now} 000000", f"000000{now}", now + before + now):
        assert not sign_in(wrong, address)
    clock[0] += 30
    pair = f"{now} {totp.at(clock[0])}"
    assert sign_in(pair, address)
    assert not sign_in(pair, address), "once"
    clock[0] += 30
    assert not sign_in(totp.at(clock[0] - 30) + totp.at(clock[0]), address), "half of it was taken"
    assert sign_in(recovery[0], address)


@pytest.mark.django_db
def test_two_codes_are_no_way_to_guess_faster(protected, clock):
    """They count as wrong where they are, and say nothing of the half that was right."""
    now = protected[0].at(clock[0])
    for _ in range(second.FAILURES):
        assert not sign_in(f"{now} 000000", STRANGER)
    assert not sign_in(now, STRANGER)
    assert (
        tried("000000", STRANGER)[1].count("two codes") == tried(f"{now} 000000", STRANGER)[1].count("two codes") == 1
    )


@pytest.mark.django_db
def test_a_right_code_forgives_its_own_address_alone(protected, clock):
    for address in (HOME, STRANGER):
        for _ in range(second.FAILURES - 1):
            assert not sign_in("000000", address)
    assert sign_in(protected[0].at(clock[0]), HOME)
    clock[0] += 30
    assert not sign_in("000000", STRANGER)
    assert not sign_in(protected[0].at(clock[0]), STRANGER)


@pytest.mark.django_db
def test_a_clock_that_was_set_back_locks_for_no_longer(protected, clock, monkeypatch):
    for _ in range(second.FAILURES):
        assert not sign_in("000000", STRANGER)
    earlier = timezone.now() - 2 * second.REST
    monkeypatch.setattr(second, "timezone", SimpleNamespace(now=lambda: earlier))
    assert sign_in(protected[0].at(clock[0]), STRANGER)


def test_a_household_is_one_address(subtests):
    for address, counted_as in [
        ("192.0.2.1", "192.0.2.1"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:0DB8:1:2::", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("::1", "::/64"),
        ("", ""),
        ("unix:", "unix:"),
    ]:
        with subtests.test(address=address, counted_as=counted_as):
            assert network_of(address) == counted_as


@pytest.mark.django_db
def test_a_stranger_who_takes_another_address_of_one_network_is_the_same(protected, clock):
    for n in range(second.FAILURES):
        assert not sign_in("000000", f"2001:db8:1:2::{n + 1:x}")
    assert not sign_in(protected[0].at(clock[0]), "2001:db8:1:2:ffff::1")
    assert sign_in(protected[0].at(clock[0]), "2001:db8:1:3::1")


# ---- several processes at once ---------------------------------------------------------------------------------------

ASKS = """
import json, sys, django
django.setup()
from django.test import Client
for line in sys.stdin:
    asked, got = json.loads(line), []
    for code in asked["codes"]:
        form = {"username": "viktor", "password": asked["password"], "code": code}
        got.append(Client().post("/login", form, REMOTE_ADDR=asked["address"]).status_code)
    print(json.dumps(got), flush=True)
"""


@pytest.fixture
def askers(tmp_path, settings):
    (tmp_path / "key").write_text(settings.SECRET_KEY)
    environment = os.environ | {"DATABASE_URL": database_url(), "DJANGO_SETTINGS_MODULE": "tests.settings"}
    environment |= {"BERTH_SECRET_KEY_FILE": str(tmp_path / "key")}
    told = {"env": environment, "cwd": SOURCE, "stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    started = [subprocess.Popen([sys.executable, "-c", ASKS], **told) for _ in range(4)]
    yield started
    for each in started:
        each.kill()
        each.communicate()


def at_once(askers, asked):
    for process, (address, codes) in zip(askers, asked, strict=True):
        process.stdin.write(json.dumps({"address": address, "codes": codes, "password": PASSWORD}) + "\n")
        process.stdin.flush()
    return [json.loads(process.stdout.readline()) for process in askers]


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
def test_processes_that_ask_at_once_count_together(askers):
    cache.clear()
    viktor = person("viktor", Tenant.objects.create(name="vision-lab"))
    totp = pyotp.TOTP(second.factor_begin(user=viktor).secret)
    second.factor_confirm(user=viktor, code=totp.now(), session_key=None)
    at_once(askers, [(STRANGER, ["000000"] * 4)] * 4)
    assert [each for each, _ in SecondFactor.objects.get().wrong] == [STRANGER] * second.FAILURES
    SecondFactor.objects.update(last_step=0)
    assert sorted(each for (each,) in at_once(askers, [(HOME, [totp.now()])] * 4)) == [200, 200, 200, 302]
