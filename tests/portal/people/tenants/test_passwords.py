"""Passwords are kept as the product keeps them; all other tests hash them in a quicker way (tests/settings.py)."""

import pytest
from django.contrib.auth.hashers import identify_hasher
from django.test import Client

from portal import settings as product
from portal.people.tenants.services import user_create

PASSWORD = "correct horse battery"


@pytest.mark.django_db
def test_a_password_is_kept_by_argon2_and_opens_the_door(settings):
    settings.PASSWORD_HASHERS = product.PASSWORD_HASHERS
    user = user_create(username="lena", password=PASSWORD, is_operator=False)
    assert identify_hasher(user.password).algorithm == "argon2"
    for password, opens in (("another horse battery", False), (PASSWORD, True)):
        client = Client()
        client.post("/login", {"username": "lena", "password": password})
        assert ("_auth_user_id" in client.session) is opens
