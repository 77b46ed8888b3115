"""A password in a URL is refused wherever a job's description may hold one, and no answer repeats it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from portal.foundation import checks
from portal.foundation.errors import BerthError
from portal.planning.templating.document import document_read
from portal.work.jobs.description import description_parse
from portal.work.jobs.imports import text_import
from portal.work.jobs.services.asked.editing import changes_parse

JOB = {"command": "true", "gpus": 0}
URL = "https://user1:pass-word-1@packages.example/simple"
FIELDS = {
    "command": ({"command": f"pip install -i{URL} six"}, "command"),
    "a variable": ({"environment": {"PIP_INDEX_URL": URL}}, "environment"),
    "a database": ({"environment": {"DB": "postgres://user1:pass-word-1@db/x"}}, "environment"),
    "a token": ({"environment": {"X": "https://pass-word-1@host/x"}}, "environment"),
    "a query": ({"environment": {"X": "https://host/x?a=1&private_token=pass-word-1"}}, "environment"),
    "a label": ({"labels": {"from": URL}}, "labels"),
    "the name": ({"name": f"x {URL}"}, "name"),
    "the model": ({"model": URL}, "model"),
    "an image": ({"software": {"image": "user1:pass-word-1@registry.example/a/b"}}, "software.image"),
    "docker's image": ({"software": {"image": "docker://user1:pass-word-1@registry.example/a"}}, "software.image"),
    "requirements": ({"software": {"requirements": f"--index-url {URL}\nsix"}}, "software.requirements"),
    "a comment": ({"software": {"requirements": f"six # {URL}"}}, "software.requirements"),
    "a file": (
        {"files": {"r.txt": f"six @ {URL}"}, "software": {"requirements_file": "r.txt"}},
        "software.requirements_file",
    ),
    "code": ({"code": {"git": URL}}, "code.git"),
    "a pattern": ({"log_matches": [URL]}, "log_matches"),
}


def test_each_field_refuses_it_with_the_remedy(subtests):
    for case, (given_fields, field) in FIELDS.items():
        with subtests.test(case=case):
            with pytest.raises(BerthError) as caught:
                description_parse(JOB | given_fields)
            assert (caught.value.code, caught.value.field) == ("credentials_in_url", field)
            assert "secret" in caught.value.detail
            assert "pass-word-1" not in caught.value.detail


OTHER_WAYS = [
    "https://user1:'pass-word-1'@host/x",
    'https://"user1":"pass-word-1"@host/x',
    "https://user1:'pass/word-1'@host/x",
    r"https://user1:pass\!word-1@host/x",
    "https://user1:pass#word-1@host/x",
    "https://user1:pass/word-1@host/x",
    "https://user1:pass?word-1@host/x",
    "https://user1:${PASS:-pass-word-1}@host/x",
    "https://host/x?sv=2020&sig=pass-word-1pass-word-1",
    "https://host/x?pwd=pass-word-1",
    "https://host/x?pass=pass-word-1",
    "https://host/x?key=pass-word-1pass-word-1",
    "https://host/x?auth=pass-word-1pass-word-1",
    "https://host/x?access%5Ftoken=pass-word-1",
    "https://host/x?%74oken=pass-word-1",
    "https://host/x?token[]=pass-word-1",
    "https://host/x?aws_secret_access_key=pass-word-1",
    "sqlserver://host;user=sa;password=pass-word-1",
    "jdbc:postgresql://host/db?user=a&password=pass-word-1",
    "HTTPS_PROXY=http://user1:pass-word-1@proxy:3128 pip install six",
]


def test_other_ways_to_write_one(subtests):
    for text in OTHER_WAYS:
        with subtests.test(text=text):
            for given_fields in ({"command": f"curl {text}"}, {"environment": {"X": text}}):
                with pytest.raises(BerthError) as caught:
                    description_parse(JOB | given_fields)
                assert caught.value.code == "credentials_in_url"
                assert "word-1" not in caught.value.detail


@pytest.mark.parametrize("changes", [{"name": f"see {URL}"}, {"labels": {"from": URL}}])
def test_an_edit_of_a_job_refuses_it_too(changes):
    with pytest.raises(BerthError) as caught:
        changes_parse(changes, r_num=8)
    assert (caught.value.code, caught.value.field) == ("credentials_in_url", next(iter(changes)))
    assert "pass-word-1" not in caught.value.detail


def test_a_batch_script_is_a_command_too():
    with pytest.raises(BerthError) as caught:
        text_import(f"#!/bin/sh\n#SBATCH --gpus=1\npip install -i {URL} six\n")
    assert (caught.value.code, caught.value.field) == ("credentials_in_url", "text")
    assert "pass-word-1" not in caught.value.detail


@pytest.mark.parametrize("field", ["title", "about"])
def test_a_template_refuses_it_in_what_it_says_of_itself(field):
    document = {"name": "a", "job": JOB, field: f"see {URL}"}
    with pytest.raises(BerthError) as caught:
        document_read(document)
    assert (caught.value.code, caught.value.field) == ("credentials_in_url", field)


TAKEN = [
    "https://$USER:$TOKEN@host/x",
    "https://user:${TOKEN}@host/x",
    "ssh://git@host/x",
    "https://git@host/x",
    "git clone https://oauth2:$(cat /run/x)@host",
    "https://host/a@b:c",
    "mail lena@host and see https://host",
    "https://host/x?token=$TOKEN&page=2",
    "s3://bucket@region/x",
    "https://***@host/",
    'https://"$USER":"$TOKEN"@host/x',
    "https://user:'${TOKEN:?is missing}'@host/x".replace(" ", "_"),
    "python -c \"print(f'https://{user}:{token}@host/x')\"",
    'print("https://%s:%s@host/x" % pair)',
    "http://host:8080/a@b",
    "http://$HOST:$PORT/a@b",
    "http://{host}:{port}/a@b",
    "http://[::1]/a@b",
    "http://[::1]:80/a@b",
    '["https://host","me@example.org"]',
    "a=https://host:80,mail='me@example.org'",
    "https://host/x?key=loss&pass=2&auth=none&code=200",
    "https://host/x?tokens=100&max_tokens=5&sigma=0.1",
]


def test_what_holds_none_is_taken(subtests):
    for text in TAKEN:
        with subtests.test(text=text):
            assert description_parse(JOB | {"command": text}).command == text


@given(st.text("ahtps:/@?&=*$.-+{}token \n", max_size=200))
def test_no_text_is_too_much_for_the_look(text):
    try:
        checks.credentials_refuse(text, "x")
    except BerthError as error:
        assert error.code == "credentials_in_url"
        assert "://" in text
