"""`berth secrets` and the flags of `submit` for secrets and code."""

import io
from types import SimpleNamespace

import pytest

from portal.cluster.models import Node
from portal.foundation.secret_key import unseal
from portal.work.secrets.models import Secret

pytestmark = pytest.mark.django_db
VALUE = "hf_0123456789abcdef"


@pytest.fixture
def typed(monkeypatch):
    """Say what stands on standard input."""

    def say(text):
        monkeypatch.setattr("sys.stdin", SimpleNamespace(isatty=lambda: False, buffer=io.BytesIO(text)))

    return say


def test_set_list_and_remove_never_print_the_value(cli, world, typed):
    assert cli("secrets").out == "no secret yet; `berth secrets set NAME` makes one\n"
    typed(f"{VALUE}\n".encode())
    told = cli("secrets", "set", "hf-token")
    assert told.out == "secret hf-token of vision-lab is set; jobs that start from now on get it\n"
    assert unseal(Secret.objects.get().sealed) == VALUE
    listed = cli("secrets", "ls", "-o", "json")
    assert [row["name"] for row in listed.json] == ["hf-token"]
    assert VALUE not in told.out + told.err + listed.out
    assert "needs the secret's name" in cli("secrets", "rm", code=2).err
    assert "manager" in cli("secrets", "rm", "hf-token", code=2).err
    assert "is removed" in cli("secrets", "rm", "hf-token", caller=world.manager).out
    typed(b"short\n")
    assert "8 characters" in cli("secrets", "set", "x", code=2).err
    typed(b"\xff\xfe")
    assert "no UTF-8" in cli("secrets", "set", "x", code=2).err


def test_a_person_is_asked_for_the_value_unseen(cli, monkeypatch):
    monkeypatch.setattr("sys.stdin", SimpleNamespace(isatty=lambda: True))
    monkeypatch.setattr("getpass.getpass", lambda prompt: VALUE if "not shown" in prompt else "")
    assert "is set" in cli("secrets", "set", "hf-token").out


def test_submit_names_secrets_and_a_repository(cli, typed):
    typed(VALUE.encode())
    cli("secrets", "set", "hf-token")
    Node.objects.update(software={"git": True})
    url = "https://host.example/group/code.git"
    flags = ("--git", url, "--ref", "main", "--git-secret", "hf-token", "--secret", "HF_TOKEN=hf-token")
    found = cli("submit", *flags, "-o", "json", "--", "python3", "train.py").json
    assert found["secrets"] == {"HF_TOKEN": "hf-token"}
    assert (found["code"]["git"], found["code"]["ref"], found["code"]["secret"]) == (url, "main", "hf-token")
    refused = cli("submit", "--git", f"https://lena:{VALUE}@host/code", "--", "true", code=2).err
    assert "berth secrets set" in refused
    assert VALUE not in refused
    assert "--ref" in cli("submit", "--ref", "main", "--", "true", code=2).err
