"""A job in YAML, and which of both formats a text is."""

import pytest

from portal.foundation.errors import BerthError
from portal.work.jobs.imports import text_import


def test_a_description_in_yaml():
    found = text_import("command: |\n  echo one\n  echo two\ngpus: [1, 2]\nenvironment: {A: 'yes'}\n")
    assert (found.format, found.lines) == ("yaml", [])
    assert found.description == {"command": "echo one\necho two\n", "gpus": [1, 2], "environment": {"A": "yes"}}


def test_a_file_of_a_job_may_be_long():
    assert len(text_import(f"command: x\nfiles: {{a: '{'x' * 200_000}'}}").description["files"]["a"]) == 200_000


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("#!/bin/sh\ntrue", "sbatch"),
        ("\n#SBATCH -n 1\ntrue", "sbatch"),
        ("command: x", "yaml"),
        ('{"command": "x"}', "yaml"),
    ],
)
def test_the_beginning_tells_what_it_is(text, kind):
    assert text_import(text).format == kind


def test_what_cannot_be_read_is_told_with_its_place(subtests):
    for text, code, words in [
        ("- a", "not_an_object", "is a mapping"),
        ("1: 2", "not_an_object", "is a mapping"),
        ("command: !!python/object:x y", "parse_error", "tag; leave tags out"),
        ("command: x\ncommand: y", "parse_error", "is given twice"),
        ("a: [1, 2", "parse_error", "line"),
        (
            "a: &a [x,x]\nb: &b [*a,*a]\n" + "".join(f"c{n}: &c{n} [{','.join(['*b'] * 9000)}]\n" for n in range(9)),
            "parse_error",
            "values",
        ),
        ("[" * 40, "parse_error", "deeper than 32"),
        ("[" * 5000, "parse_error", "deeper than 32"),
    ]:
        with subtests.test(text=text, code=code):
            with pytest.raises(BerthError, match=words) as raised:
                text_import(text, format="yaml")
            assert (raised.value.code, raised.value.field) == (code, "text")


LOOKALIKES = [
    ("command: a\u2028gpus: 8", 1, "U\\+2028"),
    ("command: a\n# x\u2029gpus: 8\n", 2, "U\\+2029"),
    ("command: |\n  a\n  b\x85  c\n", 3, "U\\+0085"),
    ("command: 'a\u2028b'", 1, "quotation marks"),
    ("command: x\ngpus:\u00a02\n", 2, "U\\+00A0"),
    ("command: x\ngpus: 2\u00a0\n", 2, "U\\+00A0"),
    ("command: x\n\u00a0gpus: 2\n", 2, "U\\+00A0"),
    ("command: x\ngpus\u202f: 2\n", 2, "U\\+202F"),
    ("command: x\ngpus: [1,\u00a02]\n", 2, "U\\+00A0"),
    ("command: x\n\u200bgpus: 2\n", 2, "U\\+200B"),
    ("command: x\ngpus: 2\u2060\n", 2, "U\\+2060"),
    ("command: x\n\ufeffgpus: 2\n", 2, "U\\+FEFF"),
    ("command: x\n\u3000\u3000gpus: 2\n", 2, "U\\+3000"),
    ("command: x\nlearning_rate: 1e-400\n", 2, "too small"),
]


def test_a_sign_that_looks_like_another_is_named(subtests):
    for text, line, words in LOOKALIKES:
        with subtests.test(text=text):
            with pytest.raises(BerthError, match=words) as raised:
                text_import(text, format="yaml")
            assert f"line {line}" in raised.value.detail


def test_such_signs_within_a_text_are_its_own():
    found = text_import(
        "command: |\n  echo a\u00a0b\u200bc\u3000\nname: a\u00a0b\nlabels: {x: '\u00a0c', y: \"\\u2028\"}"
    )
    assert found.description["command"] == "echo a\u00a0b\u200bc\u3000\n"
