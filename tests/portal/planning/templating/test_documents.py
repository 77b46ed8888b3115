"""Documents, parameters and values: refusals by field, and the job of a valid one."""

import time

import pytest

from portal.foundation.errors import BerthError
from portal.planning.templating.document import MOST_BYTES, document_kept, document_read
from portal.planning.templating.filling import filled, values_read
from portal.planning.templating.parameters import value_read
from portal.planning.templating.yaml_text import yaml_read, yaml_write
from portal.work.jobs.description import description_parse
from tests.portal.planning.templating.samples import document, one


def refused(data):
    with pytest.raises(BerthError) as caught:
        document_read(data)
    return caught.value.code, caught.value.field


def made(data, **values):
    read = document_read(data)
    found, problems = values_read(read.parameters, values)
    assert problems == []
    return filled(read.job, read.parameters, found)


def wrong(data, **values):
    return {p.field: p.code for p in values_read(document_read(data).parameters, values)[1]}


def test_defaults_and_values_make_a_description():
    assert made(document()) == {
        "name": "train-small",
        "command": "echo train --lr=0.1 --epochs 3  ''",
        "gpus": [1, 2],
        "environment": {"KIND": "small", "LR": "0.1"},
        "checkpointable": True,
    }
    description = made(document(), lr="3e-4", epochs="7", sizes="1-4", mixed="true", note="a b; rm -rf /", kind="large")
    assert description["command"] == "echo train --lr=0.0003 --epochs 7 --mixed 'a b; rm -rf /'"
    assert description["gpus"] == {"min": 1, "max": 4}
    assert description_parse(description).name == "train-large"


def test_a_command_as_a_list_is_quoted_as_a_whole_and_leaves_empty_parts_out():
    data = document()
    data["job"]["command"] = [
        "echo",
        "--lr=${{ lr }}",
        "${{ mixed }}",
        "it's ${{ note }}",
        "--epochs",
        "${{ epochs }}",
        "${{kind}}",
    ]
    assert made(data, note="$(id)")["command"] == "echo --lr=0.1 'it'\"'\"'s $(id)' --epochs 3 small"


def test_an_empty_default_leaves_the_field_out():
    data = one({"type": "integer", "default": None}, "true", time_limit_s="${{ x }}")
    assert made(data) == {"command": "true"}
    assert made(data, x=60) == {"command": "true", "time_limit_s": 60}


def test_a_value_that_looks_like_a_reference_stays_a_text():
    assert made(document(), note="${{ lr }} ${{ note }}")["command"].endswith("'${{ lr }} ${{ note }}'")


WRONG_DOCUMENTS = [
    ([], "wrong_type", "document"),
    ({"name": "x"}, "required", "document.job"),
    (document(name="Upper"), "bad_name", "name"),
    (document(name="x" * 64), "bad_name", "name"),
    (document(more=1), "unknown_field", "document"),
    (document(about="x" * 1001), "too_long", "about"),
    (document(parameters=[{"name": "x"}] * 10_000), "too_many", "parameters"),
    (document(parameters={"x": 1}), "wrong_type", "parameters"),
    (one({"type": "text", "pattern": "(a+)+$"}), "unknown_field", "parameters[0]"),
    (one({"type": "regex"}), "invalid_choice", "parameters[0].type"),
    (one({"name": "2x"}), "bad_name", "parameters[0].name"),
    (one({"type": "integer", "least": 5, "most": 4}), "out_of_range", "parameters[0].least"),
    (one({"type": "integer", "least": 5, "default": 4}), "out_of_range", "parameters[0].default"),
    (one({"type": "number", "default": float("inf")}), "out_of_range", "parameters[0].default"),
    (one({"type": "choice", "choices": []}), "blank", "parameters[0].choices"),
    (one({"type": "choice"}), "wrong_type", "parameters[0].choices"),
    (one({"type": "choice", "choices": ["a", True]}), "wrong_type", "parameters[0].choices"),
    (one({"type": "choice", "choices": [1, "1"]}), "duplicate", "parameters[0].choices"),
    (one({"type": "text", "longest": 5000}), "out_of_range", "parameters[0].longest"),
    (one({"type": "path", "default": "../x"}), "path_escape", "parameters[0].default"),
    (one({}, "echo ${{ y }} ${{ x }}"), "unknown_parameter", "job.command"),
    (one({}, "true"), "unused", "parameters[0]"),
    (one({}, "echo ${{ x"), "bad_reference", "job.command"),
    (one({}, "echo ${{ x }}" * 201), "too_many", "job.command"),
    (one({}, tenant="a"), "not_allowed", "job.tenant"),
    (one({}, upload="a" * 64), "not_allowed", "job.upload"),
    (one({}, colour="red"), "unknown_field", "job.colour"),
    (one({}, gpus=-1), "out_of_range", "job.gpus"),
    (one({}, files={"a.py": "${{ x }}"}), "bad_reference", "job.files"),
    (one({}, files={"a.py": "x" * MOST_BYTES}), "too_large", "job"),
    (one({}, ["x"] * 1001), "too_many", "job.command"),
    (
        {"name": "x", "parameters": [{"name": "a"}, {"name": "A"}], "job": {"command": "true"}},
        "duplicate",
        "parameters[1].name",
    ),
]


def test_a_wrong_document_is_refused_by_its_field(subtests):
    for data, code, field in WRONG_DOCUMENTS:
        with subtests.test(data=data):
            assert refused(data) == (code, field)


def test_nesting_is_bounded():
    deep = "x"
    for _ in range(50):
        deep = [deep]
    assert refused(one({}, labels=deep)) == ("too_deep", "job.labels")


WRONG_VALUES = [
    ("lr", "fast", "wrong_type"),
    ("lr", 2, "out_of_range"),
    ("lr", True, "wrong_type"),
    ("lr", "9" * 1_000_000, "wrong_type"),
    ("epochs", 1.5, "wrong_type"),
    ("epochs", "1" * 5000, "wrong_type"),
    ("sizes", "8", "out_of_range"),
    ("sizes", "one", "wrong_type"),
    ("sizes", [], "invalid"),
    ("sizes", {"min": 1}, "required"),
    ("kind", "medium", "invalid_choice"),
    ("kind", {"a": 1}, "invalid_choice"),
    ("mixed", "maybe", "wrong_type"),
    ("note", "x" * 1_000_000, "too_long"),
    ("note", "two\nlines", "control_character"),
    ("note", "nul\0", "null_character"),
    ("note", "\ud800", "invalid_unicode"),
    ("note", ["x"], "wrong_type"),
    ("other", 1, "unknown_parameter"),
]


def test_a_wrong_value_is_refused_by_its_parameter(subtests):
    for name, value, code in WRONG_VALUES:
        with subtests.test(value=value):
            assert wrong(document(), **{name: value}) in ({f"values.{name}": code}, {f"values.{name}.max": code})


@pytest.mark.parametrize(
    "says", [{"least": 10**400}, {"most": -(10**400)}, {"default": 10**400}, {"type": "choice", "choices": [10**400]}]
)
def test_a_whole_number_that_is_too_large_for_a_float_is_refused(says):
    with pytest.raises(BerthError) as refused:
        document_read(one({"type": "number", **says}, "train ${{ x }}"))
    assert refused.value.code == "out_of_range"
    assert refused.value.field.startswith("parameters[0].")


def test_every_wrong_value_is_told_at_once_and_a_needed_one_that_is_missing():
    assert wrong(document(), lr=2, epochs=0) == {"values.lr": "out_of_range", "values.epochs": "out_of_range"}
    assert wrong(one({})) == {"values.x": "required"}
    assert wrong(one({}), x="") == {"values.x": "required"}


def test_lines_are_for_texts_that_say_so():
    data = one({"lines": True})
    assert made(data, x="a\r\nb")["command"] == "echo 'a\nb'"


def test_it_is_written_as_yaml_that_reads_back_as_the_same_document():
    read = document_read(document(about="Says: yes, no & '# 1'")).as_json()
    read["job"]["files"] = {"a.py": "import os\n\nprint('x: 1')\n", "b": "y", "c": {"base64": "AAAA"}}
    assert document_read(yaml_read(yaml_write(read))).as_json() == read
    assert document_kept(read).as_json() == read


def test_yaml_bombs_and_what_is_no_yaml_are_refused_soon():
    bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
    bomb += "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 12))
    began = time.process_time()
    for text in (bomb, "[" * 10_000, "a: !!python/object:os.system {}", "a: [", "x" * 600_000, "? [a]\n: b"):
        with pytest.raises(BerthError) as caught:
            yaml_read(text)
        assert caught.value.field == "text"
    assert time.process_time() - began < 10


def test_values_of_each_type_are_read_from_text_as_from_json():
    read = document_read(document())
    by_name = {each.name: each for each in read.parameters}
    for name, text, value in (
        ("lr", "0.5", 0.5),
        ("epochs", "4", 4),
        ("sizes", "1, 2, 4", [1, 2, 4]),
        ("mixed", "yes", True),
    ):
        assert value_read(by_name[name], text, name) == value_read(by_name[name], value, name) == value
