"""Each act of each verb, and each form of answer, under what terminals and pipes can be; the list comes from the parser itself."""

import argparse
import io
import os
import sys

import pytest

from berth_client.cli import run
from berth_client.cli.options import FORMATS
from portal.work.artefacts.models import Artefact
from portal.work.jobs.models import LogChunk
from tests.client.conftest import URL, secret_of
from tests.client.test_anywhere import NAME, PARSERS, WALK
from tests.portal import given

pytestmark = [pytest.mark.impure, pytest.mark.django_db]
TEMPLATE = f"name: fancy\ntitle: {NAME}\njob: {{command: 'true', gpus: 0}}\n"
ALONE = {"completion", "forward", "shell", "ssh", "login"}
"""Processes of their own walk these (`test_anywhere.py`)."""
DEEPER = {
    "artefacts get": ["{job}", "--to", "out"],
    "artefacts rm": ["{job}", "--all"],
    "artefacts ls": ["{job}"],
    "templates show": ["fancy"],
    "templates import": ["template.yaml"],
    "templates export": ["fancy"],
    "templates delete": ["fancy"],
    "secrets set": ["token"],
    "secrets rm": ["token"],
    "members role": [NAME, "viewer"],
    "members remove": [NAME],
    "members withdraw": ["1"],
    "lab run": [NAME, "--generator", "hops-64", "--policy", "fifo"],
    "lab share": ["1", "tenant"],
    "lab upload": ["template.yaml", "--format", "berth-csv", "--name", NAME],
    "lab history": ["1", "--name", NAME],
    **{f"lab {act}": ["1"] for act in ("show", "wait", "cancel", "delete", "delete-trace")},
}


def acts_of(verb):
    """The words of each act of a verb, with each form of its answer."""
    for action in PARSERS[verb]._actions:
        if isinstance(action, argparse._SubParsersAction):
            acts = {parser.prog.rpartition(" ")[2] for parser in action.choices.values()}
        elif action.dest == "act_on":
            acts = set(action.choices)
        else:
            continue
        return [[verb, act, *DEEPER.get(f"{verb} {act}", [])] for act in sorted(acts)]
    takes_form = any(action.dest == "output" for action in PARSERS[verb]._actions)
    return [
        [*WALK[verb][:1], *(("-o", form) if form else ()), *bare(WALK[verb][1:])]
        for form in (FORMATS if takes_form else ("",))
    ]


def bare(words):
    """A verb's words without the form that they choose themselves."""
    return [word for place, word in enumerate(words) if word != "-o" and (place == 0 or words[place - 1] != "-o")]


def encoded(encoding):
    return lambda: io.TextIOWrapper(io.BytesIO(), encoding=encoding)


def full():
    return open("/dev/full", "w", encoding="utf-8")


def closed():
    reader, writer = os.pipe()
    os.close(reader)
    return os.fdopen(writer, "w", encoding="utf-8")


@pytest.fixture
def filled(world, transport, monkeypatch, tmp_path):
    """A world whose names no old terminal knows; the gaps of a command's words."""
    cluster = given.Cluster(world.tenants["vision-lab"], world.users["lena"], given.node_make("n1"))
    attempt = cluster.running(name=NAME)
    Artefact.objects.create(job=attempt.job, path="训练.pt", rank=0, epoch=1, size=3, sha256="0" * 64, reason=NAME)
    text = "进度\n".encode()
    LogChunk.objects.create(
        attempt=attempt, rank=0, stream="stdout", offset=0, length=len(text), data=text, at=attempt.created_at
    )
    given.member(NAME, cluster.tenant)
    monkeypatch.setenv("BERTH_URL", URL)
    monkeypatch.setenv("BERTH_TOKEN", secret_of(world.owner))
    monkeypatch.setattr("berth_client.transport.UrllibTransport", lambda **_: transport)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "template.yaml").write_text(TEMPLATE)
    return {"url": URL, "job": attempt.job.number, "waiting": world.owner.submit(name=NAME)["number"]}


@pytest.mark.parametrize(
    "made",
    [
        encoded("ascii"),
        *(pytest.param(each, marks=pytest.mark.slow) for each in (encoded("latin-1"), encoded("cp1252"), full, closed)),
    ],
    ids=["ascii", "latin-1", "cp1252", "full", "closed"],
)
def test_each_act_ends_in_a_sentence(filled, monkeypatch, made):
    for words in [words for verb in sorted(set(WALK) - ALONE) for words in acts_of(verb)]:
        out, err = made(), io.TextIOWrapper(io.BytesIO(), encoding=getattr(made(), "encoding", "ascii"))
        with monkeypatch.context() as patched:
            patched.setattr(sys, "stdout", out)
            patched.setattr(sys, "stderr", err)
            patched.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"value-of-it"), encoding="utf-8"))
            patched.setattr(sys, "argv", ["berth", *(word.format(**filled) for word in words)])
            try:
                code = run()
            except SystemExit as ended:
                code = ended.code
            err.flush()
        said = err.buffer.getvalue().decode(err.encoding)
        assert code in {0, 1, 2, 141}, (words, said)
        assert "Traceback" not in said
        assert made is not full or code, f"{words}: its output was lost without a word"
