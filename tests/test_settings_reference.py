"""Every setting is documented once, in the code, and docs/settings.md says the same; nothing is read that is not there."""

import io
import re
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from portal.environment import VARIABLES
from portal.reference import INTERNAL, agent_entries, knob_entries, variable_entries
from workers.agent.settings_list import SETTINGS

ROOT = Path(__file__).resolve().parents[1]
DIMENSIONS = {"_s": "s", "_hours": "h", "_days": "days", "_MIB": "MiB", "_S": "s", "_MINUTES": "min"}
ENTRIES = [*knob_entries(), *variable_entries(), *agent_entries(SETTINGS)]
VARIABLE = re.compile(r"\bBERTH_[A-Z][A-Z_]*[A-Z]\b")


def sources():
    """Our own code by path: what runs, without tests and documents."""
    files = [ROOT / "berth", ROOT / "manage.py"]
    for room in ("portal", "workers", "scheduler", "examples"):
        files += (ROOT / room).rglob("*.py")
    return {path: path.read_text() for path in files if "migrations" not in path.parts}


def read_anywhere():
    """Every BERTH_ name in the code but where the reference and `portal.environment` define them."""
    defining = {*(ROOT / "portal/environment").glob("*.py"), ROOT / "portal/reference.py"}
    return {name for path, text in sources().items() if path not in defining for name in VARIABLE.findall(text)}


def test_the_file_is_up_to_date():
    call_command("settings_reference", "--check")


def test_a_stale_file_is_noticed(settings, tmp_path):
    settings.BASE_DIR = tmp_path
    (tmp_path / "docs").mkdir()
    with pytest.raises(CommandError, match="out of date"):
        call_command("settings_reference", "--check")
    call_command("settings_reference", stdout=io.StringIO())
    call_command("settings_reference", "--check")


def test_each_setting_says_what_it_is(subtests):
    for entry in ENTRIES:
        with subtests.test(entry.name):
            assert entry.meaning.endswith(".")
            assert entry.default
            assert entry.range
            units = {unit for ending, unit in DIMENSIONS.items() if entry.name.split(", ")[-1].endswith(ending)}
            assert units <= {entry.unit}


def test_names_are_used_once():
    names = [entry.name for entry in ENTRIES]
    assert len(names) == len(set(names))


def test_each_berth_variable_in_the_code_is_documented():
    settings_file = (ROOT / "docs/settings.md").read_text()
    guide = (ROOT / "docs/users-guide.md").read_text()
    documented = set(VARIABLE.findall(settings_file + guide))
    assert read_anywhere() - documented == set()


def test_each_documented_variable_is_read():
    calls = "\n".join(text for path, text in sources().items() if path.name != "reference.py")
    read = set(re.findall(r'(?:env|environ\.get|environ|getenv|pop)[(\[]"(\w+)"', calls))
    assert {variable.name for variable in VARIABLES} - read == set(), "documented, and nothing reads it"
    assert set(INTERNAL) - read_anywhere() == set(), "documented, and nothing uses it"
