"""The operator's first password: in a file until it is used or replaced, and not longer."""

import pytest
from django.contrib.auth import get_user_model
from django.test import Client

from portal.foundation.layout import Layout, read_json
from portal.launch.operator import operator_ensure
from portal.people.tenants import services

pytestmark = pytest.mark.django_db


@pytest.fixture
def layout(tmp_path, settings):
    settings.DATA_DIR = tmp_path
    layout = Layout.at(tmp_path)
    layout.prepare()
    operator_ensure(layout)
    return layout


@pytest.fixture
def operator():
    return lambda: get_user_model().objects.get(username="operator")


def test_the_first_sign_in_deletes_it(layout, operator):
    kept = read_json(layout.operator)
    assert Client().post("/login", kept | {"password": "wrong"}).status_code == 200
    assert layout.operator.exists()
    answer = Client().post("/login", kept)
    assert answer.status_code == 302
    assert not layout.operator.exists()


def test_a_changed_password_deletes_it(layout, operator):
    services.user_password_reset(user=operator(), actor=None, password="another long one")
    assert not layout.operator.exists()


def test_neither_another_person_nor_another_change_does(layout, operator):
    other = services.user_create(username="ada", password="a long password 1")
    services.user_password_reset(user=other, actor=None, password="another long one")
    assert Client().post("/login", {"username": "ada", "password": "another long one"}).status_code == 302
    account = operator()
    account.first_name = "Olga"
    account.save()
    assert layout.operator.exists()
