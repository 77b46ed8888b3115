"""Addresses and forms of the job list that nobody's browser makes: refused by their field, never an error of the portal."""

import pytest
from django.http import QueryDict

from portal.foundation.errors import BerthError
from portal.pages.dashboard.jobs.array.page import TaskQuery
from portal.pages.dashboard.jobs.query import ListQuery
from portal.people.accounts.models import JobView

pytestmark = pytest.mark.django_db

BEYOND = ("000000001" + "9" * 30, "0" * 12 + "9" * 30, "1" * 5000)


@pytest.fixture
def owner(client, cluster):
    client.force_login(cluster.owner)
    return client


@pytest.mark.parametrize("query", [ListQuery, TaskQuery])
@pytest.mark.parametrize("page", BEYOND)
def test_a_page_beyond_all_pages_is_refused(query, page):
    with pytest.raises(BerthError, match="`page` must be a whole number"):
        query.of(QueryDict(f"page={page}"))


@pytest.mark.parametrize("address", ["//[", "http://[::", "https://a]b/?page=1"])
@pytest.mark.parametrize("form", ["/jobs/views", "/jobs/columns"])
def test_a_list_whose_address_is_none_is_refused(owner, address, form):
    answer = owner.post(form, {"next": address, "name": "mine", "usual": "1"})
    assert answer.status_code == 400
    assert "not the address of a list" in answer.content.decode()
    assert not JobView.objects.exists()
