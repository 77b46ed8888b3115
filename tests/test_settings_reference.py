"""Every setting is documented once, in the code, and docs/settings.md says the same; nothing is read that is not there."""

import io
import re
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from portal.foundation.environment.variables import VARIABLES
from portal.planning.rounds.settings.knobs import KNOBS
from portal.reference import INTERNAL
from workers.agent.settings import SETTINGS, variable_of

ROOT = Path(__file__).resolve().parents[1]
DIMENSIONS = {"_s": "s", "_hours": "h", "_days": "days", "_MIB": "MiB", "_MIB_S": "MiB/s", "_S": "s", "_MINUTES": "min"}
EVERY = [*((each.name, each) for each in (*KNOBS, *VARIABLES)), *((variable_of(each), each) for each in SETTINGS)]
VARIABLE = re.compile(r"\bBERTH_[A-Z][A-Z_]*[A-Z]\b")


def sources():
    """Our own code by path, without tests and documents."""
    files = [ROOT / "berth", ROOT / "manage.py"]
    for room in ("portal", "workers", "scheduler", "research", "examples"):
        files += (ROOT / room).rglob("*.py")
    return {path: path.read_text() for path in files if "migrations" not in path.parts}


def read_anywhere():
    """Every BERTH_ name in the code but where the reference and `portal.foundation.environment` define them."""
    defining = {*(ROOT / "portal/foundation/environment").glob("*.py"), ROOT / "portal/reference.py"}
    return {name for path, text in sources().items() if path not in defining for name in VARIABLE.findall(text)}


def test_the_file_is_up_to_date():
    call_command("settings_reference", "--check")


def test_the_program_berth_which_imports_nothing_has_the_same_hang_limit():
    (limit,) = (each for each in VARIABLES if each.name == "BERTH_HANG_LIMIT_S")
    assert f'os.environ.get("{limit.name}") or "{limit.default}"' in (ROOT / "berth").read_text()


def test_a_stale_file_is_noticed(settings, tmp_path):
    settings.BASE_DIR = tmp_path
    (tmp_path / "docs").mkdir()
    with pytest.raises(CommandError, match="out of date"):
        call_command("settings_reference", "--check")
    call_command("settings_reference", stdout=io.StringIO())
    call_command("settings_reference", "--check")


def test_each_setting_says_what_it_is_and_when_to_turn_it_and_may_have_its_default():
    wrong = []
    for name, each in EVERY:
        units = (
            {DIMENSIONS[max(endings, key=len)]} if (endings := [e for e in DIMENSIONS if name.endswith(e)]) else set()
        )
        said = each.meaning.endswith(".") and each.turn_when.endswith(".") and each.default_words and each.range_words
        numeric = isinstance(each.default, int | float) and not isinstance(each.default, bool)
        if not said or units - {each.unit} or (numeric and each.check(each.default) != each.default):
            wrong.append(name)
    assert wrong == []


def test_names_are_used_once():
    names = [name for name, _ in EVERY]
    assert len(names) == len(set(names))


def test_each_knob_stands_in_a_group_and_in_the_document_once():
    chapter = (ROOT / "docs/settings.md").read_text().split("## Policy knobs")[1].split("\n## ")[0]
    assert re.findall(r"^\| `(\w+)` \|", chapter, re.MULTILINE) == [knob.name for knob in KNOBS]
    assert re.findall(r"^### (.*)", chapter, re.MULTILINE) == list(dict.fromkeys(knob.group for knob in KNOBS))


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
