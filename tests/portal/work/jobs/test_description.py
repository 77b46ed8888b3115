"""Every rule of the job description: accepted forms with their normal form, refused ones with code and field."""

import base64
import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from portal.foundation.errors import BerthError
from portal.work.jobs.declaration.table import FIELDS, MAX_COUNT
from portal.work.jobs.description import NOT_SUPPORTED, READ_ONLY, JobDescription, description_parse
from portal.work.jobs.learning_rates import learning_rate_at
from scheduler.intake.validation import COUNT_MOST, NUMBER_MOST


def parsed(**fields) -> JobDescription:
    return description_parse({"command": "true", **fields})


def refused(data) -> tuple[str, str | None]:
    with pytest.raises(BerthError) as caught:
        description_parse(data)
    assert caught.value.detail
    assert "\0" not in caught.value.detail
    return caught.value.code, caught.value.field


def test_a_command_alone_is_a_cpu_job_named_after_its_program():
    description = description_parse({"command": "/usr/bin/python3 -c 'print(1)'"})
    assert (description.name, description.gpus) == ("python3", (0,))
    assert (description.max_requeues, description.retries, description.priority) == (5, 0, 0)
    assert description.environment == description.files == description.labels == {}


def test_null_is_the_same_as_not_given():
    assert description_parse({"command": "true"} | dict.fromkeys(FIELDS - {"command"})) == parsed()


def test_the_submit_pages_example_parses():
    description = description_parse(
        {
            "name": "convnext-b-aerial",
            "tenant": "vision-lab",
            "model": "convnext-b",
            "command": "torchrun --nproc_per_node=$BERTH_GPUS train.py --epochs 30",
            "workdir": "/home/lena/aerial",
            "category": "cv",
            "pipelined": True,
            "parameters": 89000000,
            "gpus": [1, 2, 4],
            "cores_per_gpu": 4,
            "memory_mib": 24576,
            "time_limit_s": 36000,
            "batch_per_gpu": 128,
            "samples": 5760000,
            "lr": {"at": 4, "value": 4.0e-4, "rule": "linear"},
            "checkpointable": True,
        }
    )
    assert description.working_directory == "/home/lena/aerial"
    assert description.gpus == (1, 2, 4)
    assert [learning_rate_at(description, gpus) for gpus in (1, 2, 4)] == pytest.approx([1e-4, 2e-4, 4e-4])


def test_a_browsers_line_ends_become_unix_ones():
    assert parsed(command="a\r\nb\r\n").command == "a\nb\n"


def test_requirement_sets(subtests):
    for gpus, expected in [
        (0, (0,)),
        (4, (4,)),
        (4.0, (4,)),
        ([0], (0,)),
        ([4, 1, 2], (1, 2, 4)),
        ({"min": 1, "max": 4}, (1, 2, 3, 4)),
        ({"min": 3, "max": 3}, (3,)),
        ({"min": 1, "max": 8}, tuple(range(1, 9))),
        ({"min": 1, "max": 16}, (1, 3, 5, 7, 10, 12, 14, 16)),
        ({"min": 2, "max": 100}, (2, 16, 30, 44, 58, 72, 86, 100)),
    ]:
        with subtests.test(gpus=gpus, expected=expected):
            assert parsed(gpus=gpus).gpus == expected


@given(st.integers(1, 500), st.integers(0, 500), st.integers(2, 12))
def test_a_range_keeps_its_ends_and_is_equally_spaced(low, span, r_num):
    sizes = description_parse({"command": "x", "gpus": {"min": low, "max": low + span}}, r_num=r_num).gpus
    assert (sizes[0], sizes[-1]) == (low, low + span)
    assert len(sizes) == min(r_num, span + 1)
    gaps = {after - before for before, after in itertools.pairwise(sizes)}
    assert not gaps or max(gaps) - min(gaps) <= 1


BAD_GPUS = [
    -1,
    True,
    1.5,
    "2",
    2**63,
    [],
    [1, 1],
    [0, 1],
    [1, -1],
    [True],
    {"min": 0, "max": 2},
    {"min": 4, "max": 2},
    {"min": 1},
    {"min": 1, "max": 2, "step": 1},
    math.nan,
    math.inf,
]


def test_bad_gpus_are_refused_by_name(subtests):
    for gpus in BAD_GPUS:
        with subtests.test(gpus=gpus):
            code, field = refused({"command": "true", "gpus": gpus})
            assert field.startswith("gpus")
            assert code in {"wrong_type", "out_of_range", "blank", "duplicate", "conflict", "required", "unknown_field"}


def test_too_large_a_product_is_told_as_a_product():
    with pytest.raises(BerthError, match="`epochs` times `dataset_size`"):
        description_parse({"command": "x", "gpus": 1, "epochs": 10**8, "dataset_size": 10**8})


def test_what_may_be_asked_for_is_what_plannings_reckon_with():
    assert MAX_COUNT <= NUMBER_MOST


REFUSED = [
    ({"command": None}, "required", "command"),
    ({"command": "x", "samples": 10**15 + 1}, "out_of_range", "samples"),
    ({"command": "x", "parameters": 10**15 + 1}, "out_of_range", "parameters"),
    ({"command": "x", "epochs": 10**8, "dataset_size": 10**8}, "out_of_range", "epochs"),
    ({"command": " \n"}, "blank", "command"),
    ({"command": "a\0b"}, "null_character", "command"),
    ({"command": "\ud800"}, "invalid_unicode", "command"),
    ({"command": "x" * (64 * 1024 + 1)}, "too_long", "command"),
    ({"command": "\u00e9" * (32 * 1024 + 1)}, "too_long", "command"),
    ({"command": ["true"]}, "wrong_type", "command"),
    ({"name": ""}, "blank", "name"),
    ({"name": "a\x1b[31m"}, "control_character", "name"),
    ({"name": "a\u202eb"}, "control_character", "name"),
    ({"name": "x" * 129}, "too_long", "name"),
    ({"time_limit_s": 0}, "out_of_range", "time_limit_s"),
    ({"memory_mib": 0}, "out_of_range", "memory_mib"),
    ({"memory_mib": COUNT_MOST}, "out_of_range", "memory_mib"),
    ({"expected_duration_s": math.nan}, "out_of_range", "expected_duration_s"),
    ({"expected_duration_s": 10**400}, "out_of_range", "expected_duration_s"),
    ({"priority": 101}, "priority_too_high", "priority"),
    ({"priority": -101}, "out_of_range", "priority"),
    ({"category": "gaming"}, "invalid_choice", "category"),
    ({"pipelined": 1}, "wrong_type", "pipelined"),
    ({"environment": {"LD_PRELOAD": "x"}}, "env_key_forbidden", "environment"),
    ({"environment": {"A=B": "x"}}, "env_key_forbidden", "environment"),
    ({"environment": {"": "x"}}, "env_key_forbidden", "environment"),
    ({"environment": {"A\n": "x"}}, "env_key_forbidden", "environment"),
    ({"environment": {"BERTH_GPUS": "9"}}, "env_key_forbidden", "environment"),
    ({"environment": {"A": 1}}, "wrong_type", "environment"),
    ({"environment": {"A": "\0"}}, "null_character", "environment"),
    ({"environment": {f"V{i}": "" for i in range(1001)}}, "too_many", "environment"),
    ({"environment": {"A": "x" * 140_000}}, "too_long", "environment"),
    ({"working_directory": "../../etc"}, "path_escape", "working_directory"),
    ({"working_directory": "/home/../etc"}, "path_escape", "working_directory"),
    ({"files": {"../x": ""}}, "path_escape", "files"),
    ({"files": {"/etc/x": ""}}, "path_escape", "files"),
    ({"files": {"a//b": ""}}, "bad_file_name", "files"),
    ({"files": {"a": "", "a/b": ""}}, "bad_file_name", "files"),
    ({"files": {"a": {"base64": "?"}}}, "invalid_base64", "files"),
    ({"files": {"a": 1}}, "wrong_type", "files"),
    ({"files": {"a": "x" * (512 * 1024), "b": "x" * (512 * 1024 + 1)}}, "too_large", "files"),
    ({"labels": {f"l{i}": "" for i in range(17)}}, "too_many", "labels"),
    ({"labels": {"a b": ""}}, "bad_label", "labels"),
    ({"array": {"size": 100_001}}, "out_of_range", "array.size"),
    ({"array": {"size": 0}}, "out_of_range", "array.size"),
    ({"array": {}}, "required", "array.size"),
    ({"depends_on": [1, {"job": 1}]}, "duplicate", "depends_on"),
    ({"depends_on": ["1"]}, "wrong_type", "depends_on"),
    ({"depends_on": [{"job": 1, "kind": "maybe"}]}, "invalid_choice", "depends_on.kind"),
    ({"epochs": 3}, "required", "dataset_size"),
    ({"epochs": 3, "dataset_size": 2, "samples": 6}, "conflict", "samples"),
    ({"epochs": 2**62, "dataset_size": 4}, "out_of_range", "epochs"),
    ({"workdir": "a", "working_directory": "a"}, "conflict", "working_directory"),
    ({"gpus": 0, "cores_per_gpu": 1}, "not_for_cpu_jobs", "cores_per_gpu"),
    ({"gpus": 1, "cores": 1}, "only_for_cpu_jobs", "cores"),
    ({"gpus": [1, 2], "learning_rate": {"1": 0.1}}, "conflict", "learning_rate"),
    ({"gpus": 1, "learning_rate": {"at": 1, "value": 0.1}}, "required", "learning_rate.rule"),
    ({"gpus": 1, "learning_rate": 0}, "out_of_range", "learning_rate"),
    ({"lerning_rate": 1}, "unknown_field", "lerning_rate"),
]


def test_refusals(subtests):
    for fields, code, field in REFUSED:
        with subtests.test(fields=fields):
            assert refused({"command": "true", **fields}) == (code, field)


def test_read_only_fields(subtests):
    for name in sorted(READ_ONLY):
        with subtests.test(name=name):
            assert refused({"command": "true", name: None}) == ("read_only", name)


@pytest.mark.parametrize("name", sorted(NOT_SUPPORTED))
def test_fields_without_an_engine(name):
    assert refused({"command": "true", name: False}) == ("not_supported", name)


@pytest.mark.parametrize("data", [None, [], "x", 1, True])
def test_only_an_object_is_a_description(data):
    assert refused(data) == ("not_an_object", None)


def test_files_as_text_and_as_bytes():
    files = parsed(files={"a.py": "\u00e9", "data/b": {"base64": "AAE="}}).files
    assert {name: base64.b64decode(content) for name, content in files.items()} == {
        "a.py": "\u00e9".encode(),
        "data/b": b"\0\1",
    }


def test_markup_and_formulas_in_a_name_are_just_text():
    assert parsed(name="<script>").name == "<script>"
    assert parsed(name='=HYPERLINK("x")').name == '=HYPERLINK("x")'


def test_dependencies_and_arrays():
    description = parsed(depends_on=[3, {"job": 4, "kind": "any"}], array={"size": 10, "concurrency": 2})
    assert description.depends_on == ((3, "ok"), (4, "any"))
    assert (description.array_size, description.array_concurrency) == (10, 2)


def test_epochs_times_data_set():
    assert parsed(epochs=3, dataset_size=50_000).samples == 150_000


@pytest.mark.parametrize(
    ("rate", "expected"),
    [
        ({"at": 4, "value": 0.4, "rule": "linear"}, [0.1, 0.2, 0.4]),
        ({"at": 4, "value": 0.4, "rule": "sqrt"}, [0.2, 0.4 / math.sqrt(2), 0.4]),
        ({"at": 4, "value": 0.4, "rule": "none"}, [0.4, 0.4, 0.4]),
        ({"1": 0.1, "2": 0.15, "4": 0.3}, [0.1, 0.15, 0.3]),
        (0.4, [0.4, 0.4, 0.4]),
    ],
)
def test_learning_rate_rules(rate, expected):
    description = parsed(gpus=[1, 2, 4], learning_rate=rate)
    assert [learning_rate_at(description, gpus) for gpus in (1, 2, 4)] == pytest.approx(expected)


def test_no_learning_rate():
    assert learning_rate_at(parsed(gpus=1), 1) is None


def test_fields_fit_the_models():
    from portal.work.jobs.models import Job

    description = parsed(gpus=[1, 2], labels=["a"], learning_rate=0.1)
    assert {field.name for field in Job._meta.fields} >= set(description.job_fields())
    assert Job(**description.job_fields()).gpus == [1, 2]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(st.characters(), max_size=8), inner, max_size=4)
    ),
    max_leaves=8,
)
hints = st.sampled_from(["min", "max", "at", "value", "rule", "size", "concurrency", "job", "kind", "base64", "1", "a"])
likely = json_values | st.dictionaries(hints, st.integers(-1, 9) | st.floats(0, 1) | json_values, max_size=3)
descriptions = st.dictionaries(st.sampled_from(sorted(FIELDS)), likely, max_size=6)


@given(json_values | descriptions | descriptions.map(lambda fields: fields | {"command": "run"}))
def test_any_json_parses_or_is_refused_with_a_code(data):
    description = refusal = None
    try:
        description = description_parse(data)
    except BerthError as error:
        refusal = error
    if refusal:
        assert refusal.code
        assert refusal.status in {400, 403}
        str(refusal.envelope()).encode()
    else:
        again = {key: value for key, value in description.job_fields().items() if not key.startswith("array_")}
        share = {} if again["gpu_compute"] is None else {"gpu_compute": again["gpu_compute"] / 1000}
        assert description_parse(again | share | {"command": description.command}).job_fields().items() >= again.items()


@pytest.mark.parametrize(
    ("fields", "code", "field"),
    [
        ({"gpus": [1], "cores_exactly": True}, "required", "cores_per_gpu"),
        ({"gpus": [1], "cores_exactly": "maybe", "cores_per_gpu": 2}, "wrong_type", "cores_exactly"),
        ({"cores": 2, "cores_exactly": True}, "not_for_cpu_jobs", "cores_exactly"),
    ],
)
def test_exact_cores_need_their_number_and_gpus(fields, code, field):
    assert refused({"command": "true", **fields}) == (code, field)
    with pytest.raises(BerthError, match="`cores_exactly`"):
        description_parse({"command": "true", **fields})
