"""The pages of help as a tenant's member gets them."""

import re

import pytest

pytestmark = pytest.mark.django_db


@pytest.fixture
def reader(client, django_user_model):
    client.force_login(django_user_model.objects.create_user("reader"))
    return client


def test_index_search_and_guide(reader):
    index = reader.get("/help/").content.decode()
    assert "User&#x27;s guide" in index
    assert "Operator&#x27;s guide" in index
    found = reader.get("/help/", {"q": "fragment"}).content.decode()
    assert "<mark>" in found
    assert "/help/words#word-fragment" in found
    guide = reader.get("/help/words").content.decode()
    assert 'id="word-tenant"' in guide
    assert "On this page" in guide
    assert "/help/evidence/engine" in reader.get("/help/evidence").content.decode()
    assert "The engine agrees" in reader.get("/help/evidence/engine").content.decode()


def test_operators_alone_find_the_architects_pages_and_a_link_opens_for_all(reader, django_user_model):
    listed = 'href="/help/algorithms"'
    assert listed not in reader.get("/help/").content.decode()
    assert "Algorithms" not in reader.get("/help/", {"q": "quantile"}).content.decode()
    assert reader.get("/help/algorithms").status_code == 200
    reader.force_login(django_user_model.objects.create_user("boss", is_staff=True, is_superuser=True))
    assert listed in reader.get("/help/").content.decode()
    assert "Algorithms" in reader.get("/help/", {"q": "quantile"}).content.decode()


def test_a_question_of_any_kind_gets_a_page(reader):
    for question, status in (("\0", 400), ("'", 200), ("%00", 200), ("<b>", 200), ("x" * 9000, 200)):
        answer = reader.get("/help/", {"q": question})
        assert answer.status_code == status
        assert "<b>" not in answer.content.decode().split("<main")[1]


def test_pictures_come_as_pictures_and_nothing_else_comes(reader):
    answer = reader.get("/help/images/overview-light.png")
    assert answer["Content-Type"] == "image/png"
    assert b"".join(answer)[:4] == b"\x89PNG"
    for path in ("/help/images/words.md", "/help/settings.py", "/help/../portal/settings.py", "/help/decisions/0000-x"):
        assert reader.get(path).status_code == 404, path


def test_the_bar_leads_to_the_first_job_and_its_pictures_are_small(reader):
    page = reader.get("/help/first-job").content.decode()
    assert page.count('href="/help/first-job"') >= 2, "in the bar, and in the menu of a phone"
    pictures = re.findall(r'src="(/help/images/[^"]+)"', page)
    assert 1 < len(pictures) < 4
    for url in pictures:
        assert len(b"".join(reader.get(url).streaming_content)) < 60_000, url
