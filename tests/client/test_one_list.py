"""Every place that lists the verbs lists all of them, and `ls` lists in each verb that is about things."""

import importlib.machinery
import importlib.util
import re

import pytest

from berth_client.cli.parser import parser_make
from portal.foundation.layout import SOURCE

ABOUT_THINGS = ("artefacts", "templates", "secrets", "members", "lab")


def verbs_of(parser):
    return next(each for each in parser._actions if each.dest == "verb").choices


VERBS = verbs_of(parser_make("berth"))


def script():
    loader = importlib.machinery.SourceFileLoader("berth_script_listed", str(SOURCE / "berth"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return module


def test_the_script_knows_and_tells_every_verb():
    module = script()
    assert set(module.CLIENT_VERBS) == set(VERBS)
    assert set(module.HELP.partition("each has -h\n")[2].split()) == set(VERBS)


def test_the_documents_tell_every_verb():
    rows = re.findall(r"^\| ((?:`[a-z]+`(?:, )?)+) \|", (SOURCE / "docs/command-line.md").read_text(), re.MULTILINE)
    assert {verb for row in rows for verb in re.findall(r"[a-z]+", row)} >= set(VERBS)


@pytest.mark.parametrize("verb", ABOUT_THINGS)
def test_ls_lists_and_list_means_the_same(verb):
    job = ["41"] if verb == "artefacts" else []
    short, long = (parser_make("berth").parse_args([verb, word, *job]) for word in ("ls", "list"))
    assert vars(short) == vars(long)
    assert getattr(short, "act_on", "ls") == "ls"


def test_help_says_ls_alone(capsys):
    for verb in ABOUT_THINGS[:-1]:
        with pytest.raises(SystemExit):
            parser_make("berth").parse_args([verb, "-h"])
        told = capsys.readouterr().out
        assert re.search(r"\bls\b", told)
        assert not re.search(rf"berth {verb} list\b", told)


@pytest.mark.django_db
def test_each_lists_by_either_word(cli):
    for verb in ("templates", "secrets", "members"):
        assert cli(verb).out == cli(verb, "ls").out == cli(verb, "list").out
