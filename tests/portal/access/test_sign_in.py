"""Signing in: the lock-out and whom it does not lock, sessions that end, and a key that is never a constant."""

import os
import subprocess
import sys
from datetime import timedelta

import pytest
from axes.models import AccessAttempt
from django.conf import settings as django_settings
from django.test import Client
from django.utils import timezone

from portal.foundation.layout import SOURCE
from portal.people.tenants.models import AuditEvent
from portal.people.tenants.services import sign_in_failures_forget, user_password_reset, user_update
from tests.portal.access.world import PASSWORD

HERE, ELSEWHERE = "192.0.2.1", "192.0.2.2"


def sign_in(name, password, *, address=HERE, path="/login", client=None):
    form = {"username": name, "password": password}
    return (client or Client()).post(path, form, REMOTE_ADDR=address)


@pytest.fixture
def locked(world):
    for _ in range(django_settings.AXES_FAILURE_LIMIT):
        last = sign_in("outsider", "wrong")
    assert last.status_code == 429
    return world


@pytest.mark.django_db
def test_who_failed_too_often_is_locked_even_with_the_right_password(locked):
    assert sign_in("outsider", PASSWORD).status_code == 429


@pytest.mark.django_db
def test_the_lock_hits_nobody_else(locked):
    """Not the same person elsewhere, whom a stranger must not lock out; not others here; no session, no token."""
    assert sign_in("outsider", PASSWORD, address=ELSEWHERE).status_code == 302
    assert sign_in("zebra.owner", PASSWORD).status_code == 302
    assert locked.ask("outsider", "page", "GET", "/").status_code == 200
    assert locked.ask("outsider", "api", "GET", "/api/v1/me").status_code == 200


@pytest.mark.django_db
def test_a_forwarded_header_is_no_way_around_the_lock(locked):
    answer = Client().post(
        "/login", {"username": "outsider", "password": PASSWORD}, REMOTE_ADDR=HERE, HTTP_X_FORWARDED_FOR="198.51.100.7"
    )
    assert answer.status_code == 429


def lock_everywhere():
    """Lock a name from addresses of which none failed often enough by itself."""
    for n in range(django_settings.BERTH_SIGN_IN_NAME_FAILURES):
        last = sign_in("outsider", "wrong", address=f"198.51.100.{n // (django_settings.AXES_FAILURE_LIMIT - 1)}")
    assert last.status_code == 429


@pytest.fixture
def locked_everywhere(world):
    lock_everywhere()
    return world


@pytest.mark.django_db
def test_a_name_is_not_locked_where_its_owner_is_signed_in(world):
    """A stranger without any address of the owner's keeps nobody out there, and guesses on from nowhere."""
    assert sign_in("outsider", PASSWORD).status_code == 302
    lock_everywhere()
    assert sign_in("outsider", PASSWORD, address=ELSEWHERE).status_code == 429
    assert sign_in("outsider", PASSWORD).status_code == 302
    for _ in range(django_settings.AXES_FAILURE_LIMIT):
        last = sign_in("outsider", "wrong")
    assert last.status_code == 429


@pytest.mark.django_db
def test_a_name_that_failed_from_many_addresses_is_locked_from_all(locked_everywhere):
    told = sign_in("outsider", PASSWORD, address=ELSEWHERE)
    assert told.status_code == 429
    assert "from several addresses" in told.content.decode()
    assert sign_in("zebra.owner", PASSWORD).status_code == 302
    assert locked_everywhere.ask("outsider", "page", "GET", "/").status_code == 200


@pytest.mark.django_db
def test_a_lock_by_name_ends_by_itself_and_tries_meanwhile_do_not_prolong_it(locked_everywhere):
    sign_in("outsider", PASSWORD, address=ELSEWHERE)
    minutes = django_settings.AXES_COOLOFF_TIME * 60
    AccessAttempt.objects.update(attempt_time=timezone.now() - timedelta(minutes=minutes + 1))
    assert sign_in("outsider", PASSWORD, address=ELSEWHERE).status_code == 302


@pytest.mark.django_db
def test_an_operator_lifts_a_lock_by_name_at_once(locked_everywhere):
    sign_in_failures_forget(username="outsider", ip_address=None, actor=locked_everywhere.users["operator"])
    assert sign_in("outsider", PASSWORD, address=ELSEWHERE).status_code == 302
    trail = AuditEvent.objects.get(action="sign-in.forget-failures")
    assert trail.detail == {"username": "outsider", "ip_address": "every address"}


@pytest.mark.django_db
def test_the_locked_person_reads_what_is_locked_for_how_long_and_what_still_works(locked):
    told = sign_in("outsider", PASSWORD).content.decode()
    assert "from this address" in told
    assert "Try again in 15" in told
    assert "API tokens" in told


@pytest.mark.django_db
def test_a_wrong_name_and_a_wrong_password_are_told_alike(world):
    known, unknown = (sign_in(name, "wrong").content.decode() for name in ("outsider", "nobody-x"))
    body = [
        text.partition('<form method="post"')[2].replace(name, "N")
        for text, name in ((known, "outsider"), (unknown, "nobody-x"))
    ]
    import re

    assert re.sub(r'value="\w{64}"', "", body[0]) == re.sub(r'value="\w{64}"', "", body[1])


@pytest.mark.django_db
def test_a_session_gets_a_new_key_at_sign_in_and_ends_at_sign_out(world):
    client = Client()
    assert sign_in("outsider", PASSWORD, client=client).status_code == 302
    cookie = client.cookies["sessionid"]
    assert cookie["httponly"]
    assert cookie["samesite"] == "Lax"
    thief = Client()
    thief.cookies["sessionid"] = cookie.value
    assert thief.get("/").status_code == 200
    client.post("/logout")
    assert thief.get("/").status_code == 302


@pytest.mark.django_db
@pytest.mark.parametrize("how", ["password", "inactive"])
def test_a_session_ends_with_its_password_and_its_account(world, how):
    user = world.users["outsider"]
    if how == "password":
        user_password_reset(user=user, actor=None)
    else:
        user_update(user=user, actor=None, is_active=False)
    assert world.ask("outsider", "page", "GET", "/").status_code == 302
    assert sign_in("outsider", PASSWORD).status_code == 200


# ---- the signing key -------------------------------------------------------------------------------------------------

SERVES = {
    "portal": ["-c", "import portal.asgi"],
    "worker": ["-m", "celery", "-A", "portal", "worker", "--pool", "solo"],
}


def start(arguments, directory, **more):
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=SOURCE,
        env=kept | {"BERTH_DATA_DIR": str(directory), **more},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.slow
@pytest.mark.impure
@pytest.mark.parametrize("what", SERVES)
def test_nothing_serves_without_a_signing_key(what, tmp_path):
    ended = start(SERVES[what], tmp_path)
    assert ended.returncode == 1
    assert "The signing key" in ended.stderr + ended.stdout
    assert "./berth up" in ended.stderr + ended.stdout
    assert "Traceback" not in ended.stderr


@pytest.mark.impure
@pytest.mark.parametrize("key", ["", "short", "django-insecure-0123456789abcdefghijklmnopqrstuvwxyz", "a" * 60])
def test_a_key_that_can_be_guessed_is_none(key, tmp_path):
    from portal.foundation.secret_key import key_read

    path = tmp_path / "secret-key"
    path.write_text(key)
    used, problem = key_read(path)
    assert used != key
    assert "can be guessed" in problem
    assert key_read(path)[0] != used, "what stands in for it is random, not a constant"


@pytest.mark.slow
@pytest.mark.impure
def test_a_real_key_is_used_and_commands_need_none(tmp_path):
    from portal.foundation.secret_key import key_read

    assert start(["manage.py", "check"], tmp_path).returncode == 0
    key = "Zk4x9mQ2vT7bN1sW8rJ5cL0pY3hD6gFaUeXo"
    (tmp_path / "own-key").write_text(key + "\n")
    assert key_read(tmp_path / "own-key") == (key, None)
    assert start(SERVES["portal"], tmp_path, BERTH_SECRET_KEY_FILE=str(tmp_path / "own-key")).returncode == 0
