"""Every parser that a tenant reaches, against texts that nobody thought of: an answer or the parser's own error, never another."""

import json

import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from portal.foundation.api.parsers import json_strict
from portal.foundation.errors import BerthError
from portal.foundation.strict_yaml import MOST_DEPTH, YamlError, yaml_strict
from portal.pages.laboratory.checking import description_of
from portal.pages.laboratory.errors import SimulationError
from portal.pages.laboratory.sources.clusters import cluster_parse
from portal.planning.templating.yaml_text import yaml_read, yaml_write
from portal.work.jobs.imports import text_import
from scheduler.simulator.traces.registry import FORMATS
from scheduler.simulator.traces.source import Source, TraceError
from tests.portal.hostile.cases import HEADERS, JSON_ROW, ROWS

PIECES = [
    "a",
    "nodes",
    "7",
    "-1",
    "0x1f",
    "010",
    "1_0",
    "1.5",
    ".5",
    "1.0e+3",
    ".inf",
    ".nan",
    "yes",
    "No",
    "null",
    "~",
    "1:30",
    "2001-01-01",
    "'",
    '"',
    "''",
    "[",
    "]",
    "{",
    "}",
    ",",
    ":",
    ": ",
    "- ",
    "? ",
    "&x ",
    "*x",
    "<<: ",
    "!!str ",
    "!t ",
    "|",
    ">",
    "#",
    "%",
    "---",
    "...",
    "\n",
    "\n  ",
    " ",
    "\t",
    "\u00e9",
    "\ufeff",
    "\x00",
    "\ud800",
    "9" * 50,
    "0b_",
    "@",
    "`",
]
TEXTS = st.lists(st.sampled_from(PIECES), max_size=30).map("".join)
SCALARS = st.none() | st.booleans() | st.integers(-(10**9), 10**9) | st.floats(allow_nan=False) | st.text(max_size=20)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=20,
)


@settings(max_examples=400, deadline=None)
@given(TEXTS)
@example("&a [*a]")
@example("a: !!int x")
@example("2001-13-45")
def test_yaml_is_read_or_refused(text):
    try:
        yaml_strict(text)
    except YamlError as error:
        assert error.detail


@settings(max_examples=200, deadline=None)
@given(VALUES | st.dictionaries(st.text(max_size=3), st.text("0123456789.eE+-_xo:", max_size=6)))
@example({"a": "1:30", "b": "2001-01-01", "c": "<<", "d": "=", "e": "1e3", "f": "0o7"})
@example({"a": "x\u00a0", "\u200bb": "a:\u00a0b", "c": "\u2028", "d": "a:\u00a0\nb\u3000"})
def test_what_yaml_writes_is_read_again(value):
    """Dumped by the very writers of templates, and of clusters that REST brings."""
    assert yaml_read(yaml_write({"job": [value]})) == {"job": [value]}
    assert yaml_strict(description_of({"nodes": value})) == {"nodes": value}


def test_it_says_what_the_safe_loader_says(subtests):
    for text in [
        "a: [1, 0x1f, -7, +7, 0]",
        "[1.5, .5, 1.0e+3, -1.5, .inf, -.inf]",
        "[TRUE, False, ~, null, Null]",
        "a: &x {b: 1}\nc: *x\nd: {<<: *x, e: 2, b: 3}\nf: {<<: [*x, {g: 1}]}",
        "- - - a\n  - b\n- c: d\n  e: |\n    text\n",
        "'7': \"7\"\n!!str 8: !!str yes",
        "? a\n: b",
        "",
        "# nothing",
        "--- a\n...",
        "\ufeffa: 1\r\nb: [x]\r\n",
    ]:
        with subtests.test(text=text):
            assert yaml_strict(text) == yaml.safe_load(text)


YAML_1_2 = {
    "1e-4": 1e-4,
    "5e6": 5e6,
    "1E3": 1e3,
    "+.5e2": 50.0,
    "1.": 1.0,
    "12e03": 12e3,
    "0.10": 0.1,
    "0o17": 15,
    "0xFF": 255,
    "-0": 0,
    **{
        text: text
        for text in "yes No ON off y n 1:30 1:30:45 1_000 0b11 0x 0o8 2001-01-01 1e e5 .e5 1.2.3 -0x1 .nan1".split()
    },
}


def test_what_stands_without_quotes_is_what_yaml_1_2_says(subtests):
    for text, bare in YAML_1_2.items():
        with subtests.test(text=text):
            for written, read in ((text, bare), (f"'{text}'", text)):
                found = yaml_strict(f"a: {written}")["a"]
                assert (type(found), found) == (type(read), read)


@pytest.mark.parametrize("text", "010 -07 +08 00 0_7 007".split())
def test_a_number_that_readers_take_for_two_is_refused_with_its_place(text):
    with pytest.raises(YamlError, match=r"in base 8.*quote it") as caught:
        yaml_strict(f"a: 1\nb: {text}")
    assert (caught.value.line, caught.value.column) == (2, 4)


def test_jobs_templates_and_clusters_have_one_reader():
    assert text_import("command: x\nsamples: 5e6\nlearning_rate: 1e-4", format="yaml").description == {
        "command": "x",
        "samples": 5e6,
        "learning_rate": 1e-4,
    }
    assert yaml_read("a: 1e-4") == {"a": 1e-4}
    with pytest.raises(SimulationError, match="quote it"):
        cluster_parse("nodes: 010")
    with pytest.raises(BerthError, match="quote it"):
        yaml_read("gpus: 010")


def test_the_depth_that_is_taken_and_the_next():
    assert yaml_strict("[" * MOST_DEPTH + "]" * MOST_DEPTH)
    with pytest.raises(YamlError, match="nested deeper") as caught:
        yaml_strict("[" * (MOST_DEPTH + 1) + "]" * (MOST_DEPTH + 1))
    assert (caught.value.line, caught.value.column) == (1, MOST_DEPTH + 1)


REFUSED = [
    ("a: 1\na: 2", "is given twice"),
    ("a\n--- b", "second document"),
    ("*x", "alias"),
    ("&x [*x]", "alias"),
    ("!t a", "tag"),
    ("a: [!!set {}]", "tag"),
    ("x" * 1001, "1001 characters"),
    ("a: 12e4567", "too large"),
    ("9" * 41, "number of 41"),
    ("{[a]: b}", "field's name"),
    ("<<: 3", "no mapping"),
    ("%TAG !a! x\n" * 9, "begin with %"),
    ("a: 'x", "is not YAML"),
    ("\x07", "is not YAML"),
]


def test_what_is_refused(subtests):
    for text, detail in REFUSED:
        with subtests.test(text=text), pytest.raises(YamlError, match=detail):
            yaml_strict(text)


@settings(max_examples=200, deadline=None)
@given(st.lists(TEXTS, min_size=1, max_size=3).map("\n".join) | VALUES.map(yaml.safe_dump))
def test_a_cluster_is_read_or_refused(text):
    try:
        assert cluster_parse(text).world.nodes
    except SimulationError as error:
        assert len(str(error)) < 2000


CELLS = st.sampled_from(PIECES) | st.text(max_size=12) | st.floats().map(str) | st.integers().map(str)


@settings(max_examples=60, deadline=None)
@given(st.data())
@pytest.mark.parametrize("form", sorted(FORMATS))
def test_a_trace_is_read_or_refused(form, data):
    lines = data.draw(_lines(form))
    read_or_refused(form, lines)


def _lines(form):
    if form == "berth-jsonl":
        rows = st.dictionaries(st.sampled_from([*JSON_ROW, "x"]), VALUES).map(
            lambda given: json.dumps(JSON_ROW | given)
        )
        return st.lists(rows | TEXTS, max_size=4)
    apart = {"sacct": "|", "shockwave": "\t"}.get(form, ",")
    good = ROWS[form].split(apart)
    changed = st.tuples(st.integers(0, len(good) - 1), CELLS).map(
        lambda change: apart.join([*good[: change[0]], change[1], *good[change[0] + 1 :]])
    )
    header = st.just(HEADERS.get(form, "")) | TEXTS
    return st.tuples(header, st.lists(changed | TEXTS, max_size=4)).map(lambda both: [both[0], *both[1]])


def read_or_refused(form, lines):
    table = ["gpu_type,consolidated,job_type,scale_factor,steps_per_s", "a,1,LM (batch size 40),1,10"]
    source = Source("t", [line + "\n" for line in lines], {"solo_throughputs.csv": table}.get)
    try:
        for traced in FORMATS[form].read(source, {}):
            assert 0 <= traced.job.requirement[0] <= 65_536
            assert traced.work > 0
    except TraceError as error:
        assert len(str(error)) < 2500


@settings(max_examples=300, deadline=None)
@given(
    st.binary(max_size=60)
    | TEXTS.map(lambda text: text.encode("utf-8", "surrogatepass"))
    | VALUES.map(lambda v: json.dumps(v).encode())
)
@example(b'{"a": ' + b"9" * 400 + b"}")
@example(b"[" * 100_000)
def test_json_is_read_or_refused(body):
    try:
        json_strict(body)
    except BerthError as error:
        assert error.status in {400, 413}
