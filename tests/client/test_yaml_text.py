"""Our YAML is read back as the very same value, by a YAML 1.1 parser."""

import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from berth_client.cli.yaml_text import yaml_text

TEXTS = (
    st.text()
    | st.text("\n \t#:-|'\"é\x7f\u2028\ufeff%&*!?{}[],")
    | st.sampled_from("yes No null 1e5 .inf 0x1 12:30:45 ~ <<".split())
)
NUMBERS = st.integers(-(2**63), 2**63) | st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)


@given(VALUES)
@example({"a": "x\n\n", "b": ["x\n y\n", "x\n\n\ny"], "c": {"d": []}, "e": 1e-05, "f": 1e22, "g": True})
@example([[["a\nb"], {}], "- x", "a: b", "\ud7ff\ue000\U0001f600"])
def test_it_is_read_back_as_it_was(value):
    assert yaml.safe_load(yaml_text(value)) == value


def test_a_script_stands_as_it_is():
    assert yaml_text({"name": "hello", "command": "one\n  two\n", "gpus": [1, 2], "nothing": None}) == (
        "name: hello\ncommand: |\n  one\n    two\ngpus:\n  - 1\n  - 2\nnothing: null\n"
    )
