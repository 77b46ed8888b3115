"""docs/traces.md says what the formats say."""

import pytest
from django.core.management import CommandError, call_command

from scheduler.simulator.traces.registry import FORMATS


def test_the_file_is_up_to_date():
    call_command("trace_reference", "--check")


def test_a_stale_file_is_noticed(settings, tmp_path):
    settings.BASE_DIR = tmp_path
    with pytest.raises(CommandError, match="out of date"):
        call_command("trace_reference", "--check")


@pytest.mark.parametrize("name", FORMATS)
def test_each_format_says_what_it_is(name):
    form = FORMATS[name]
    assert form.name == name
    assert form.columns
    for each in form.columns:
        assert each.meaning, each.name
    assert all(form.options.values())
