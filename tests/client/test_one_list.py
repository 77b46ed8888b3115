"""One list has the verbs (`berth_client.cli.verbs`): `./berth` and the documents say no others, and `ls` lists in each verb about things."""

import re
import runpy
import subprocess
import sys

import pytest

from berth_client.cli import parser_make
from berth_client.cli.verbs import VERBS
from portal.foundation.layout import SOURCE

PARSERS = next(each for each in parser_make()._actions if each.dest == "verb").choices
OF_THINGS = sorted(verb for verb, parser in PARSERS.items() if any(each.dest == "act_on" for each in parser._actions))


def test_the_script_says_every_command_and_verb():
    own, verbs = (subprocess.check_output([sys.executable, SOURCE / "berth", "help"], text=True)).split("each has -h\n")
    assert verbs.split() == list(VERBS)
    script = runpy.run_path(str(SOURCE / "berth"))
    assert {*script["COMMANDS"], *script["AGENTS"], "help"} == set(re.findall(r"^  ([a-z-]+)", own, re.MULTILINE))
    assert not {*script["COMMANDS"], *script["AGENTS"], "help"} & set(VERBS)


def test_the_documents_say_every_verb_and_no_other():
    rows = re.findall(
        r"^\| ((?:`[a-z]+`(?:, )?)+) \| [^|]*\|$", (SOURCE / "docs/command-line.md").read_text(), re.MULTILINE
    )
    assert {verb for row in rows for verb in re.findall(r"[a-z]+", row)} == set(VERBS)


@pytest.mark.parametrize("only", VERBS)
def test_the_parser_of_one_verb_is_that_of_all(only):
    alone = next(each for each in parser_make(only=only)._actions if each.dest == "verb").choices
    assert alone[only].format_help() == PARSERS[only].format_help()
    assert alone.keys() == PARSERS.keys()


@pytest.mark.parametrize("verb", [*OF_THINGS, "lab"])
def test_ls_lists_and_list_means_the_same(verb):
    job = ["41"] if verb == "artefacts" else []
    short, long = (parser_make().parse_args([verb, word, *job]) for word in ("ls", "list"))
    assert vars(short) == vars(long)
    assert short.act_on == "ls"


def test_help_says_ls_alone():
    for verb in OF_THINGS:
        told = PARSERS[verb].format_help()
        assert re.search(r"\bls\b", told)
        assert not re.search(rf"berth {verb} list\b", told)


@pytest.mark.django_db
def test_each_lists_by_either_word(cli):
    for verb in set(OF_THINGS) - {"artefacts"}:
        assert cli(verb).out == cli(verb, "ls").out == cli(verb, "list").out
