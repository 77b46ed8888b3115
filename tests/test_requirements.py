"""Ranges, lock files and licences agree: `./berth` installs versions within the ranges, each file with its hash."""

import ast
import re
import tomllib
from importlib import metadata

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from portal.foundation.layout import SOURCE as ROOT
from portal.launch import preflight

PAIRS = {f"{name}.txt": f"{name}.lock" for name in ("requirements", "requirements-dev", "workers/requirements")}
FREE = re.compile(r"MIT|BSD|Apache|PSF|Python Software")
COPYLEFT = re.compile(r"GPL|MPL|Mozilla")
UNTOLD = {"axe-playwright-python"}
"""Its metadata name no licence; the wheel has it as a file."""


def ranges_of(name):
    """Return the requirements of a file and of the files that it includes, each with its comment."""
    found = []
    for line in (ROOT / name).read_text().splitlines():
        if line.startswith("-r "):
            found += ranges_of(line[3:])
        elif line and not line.startswith("#"):
            said, _, comment = line.partition("#")
            found.append((Requirement(said), comment.strip()))
    return found


def pins_of(name):
    """Return what a lock file pins: by name, the requirement and its hashes."""
    logical = (ROOT / name).read_text().replace("\\\n", " ")
    lines = [line.split("--hash=") for line in logical.splitlines() if line and not line.lstrip().startswith("#")]
    pins = {canonicalize_name(Requirement(first).name): (Requirement(first), hashes) for first, *hashes in lines}
    assert len(pins) == len(lines), f"{name} names a package twice"
    return pins


def reached(requirement, into):
    """Add by name the versions that this environment has of a requirement and of all that it needs."""
    name = canonicalize_name(requirement.name)
    if name in into and not requirement.extras:
        return
    into[name] = metadata.version(name)
    for line in metadata.requires(name) or ():
        needed = Requirement(line)
        extras = ("", *requirement.extras)
        if needed.marker is None or any(needed.marker.evaluate({"extra": extra}) for extra in extras):
            reached(needed, into)


@pytest.mark.parametrize(("ranges", "lock"), PAIRS.items())
def test_the_lock_has_a_version_of_each_range_and_of_all_that_it_needs(ranges, lock):
    pins = pins_of(lock)
    for requirement, _ in ranges_of(ranges):
        (pinned,) = pins[canonicalize_name(requirement.name)][0].specifier
        assert requirement.specifier.contains(pinned.version), f"{lock}: {pinned} is not {requirement}; run .ci/lock"
    needed = {}
    for requirement, _ in ranges_of(ranges):
        reached(requirement, needed)
    here = {name: pin for name, (pin, _) in pins.items() if pin.marker is None or pin.marker.evaluate()}
    assert {name: f"=={version}" for name, version in needed.items()} == {
        name: str(pin.specifier) for name, pin in here.items()
    }, "run .ci/lock"


@pytest.mark.parametrize("lock", PAIRS.values())
def test_each_file_has_its_hash_and_no_host_is_named(lock):
    assert [name for name, (_, hashes) in pins_of(lock).items() if not hashes] == []
    assert not re.search(r"://|--index|--find-links", (ROOT / lock).read_text())


def test_the_lock_files_have_the_same_versions():
    whole = {name: pin.specifier for name, (pin, _) in pins_of("requirements-dev.lock").items()}
    for lock in ("requirements.lock", "workers/requirements.lock"):
        assert {name: pin.specifier for name, (pin, _) in pins_of(lock).items()}.items() <= whole.items()


def _licence(name):
    about = metadata.metadata(name)
    kinds = [each for each in about.get_all("Classifier") or () if each.startswith("License")]
    return about.get("License-Expression") or "; ".join(kinds) or about.get("License", "").partition("\n")[0]


def test_each_line_names_its_licence():
    lines = [pair for ranges in PAIRS for pair in ranges_of(ranges)]
    named = r"(MIT|BSD-[23]|Apache-2\.0|LGPL-3|MPL-2\.0)\b"
    assert [str(requirement) for requirement, comment in lines if not re.match(named, comment)] == []


@pytest.mark.parametrize(("ranges", "lock"), PAIRS.items())
def test_a_stricter_licence_is_named_beside_the_line_that_brings_it(ranges, lock):
    lines = ranges_of(ranges)
    named = " ".join(f"{requirement.name} {comment}" for requirement, comment in lines if "PL-" in comment)
    needed = {}
    for requirement, _ in lines:
        reached(requirement, needed)
    strict = {name for name in needed if not FREE.search(_licence(name)) or COPYLEFT.search(_licence(name))}
    assert [name for name in sorted(strict - UNTOLD) if not re.search(rf"\b{name}\b", named)] == []
    assert strict or lock == "workers/requirements.lock", "the look finds psycopg"


def test_all_that_say_which_pythons_do_say_the_same():
    first, last = preflight.PYTHON_FIRST, preflight.PYTHON_LAST
    pythons = [(3, minor) for minor in range(first[1], last[1] + 1)]
    looked_for = re.search(r"^VERSIONS = (\(\(.*\)\))", (ROOT / "berth").read_text(), re.MULTILINE)[1]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    span = f"Python 3.{first[1]} to 3.{last[1]} with `venv`"
    assert sorted(ast.literal_eval(looked_for)) == pythons
    assert project["requires-python"] == f">=3.{first[1]},<3.{last[1] + 1}"
    assert f"(3, {first[1]}) <= sys.version_info[:2] < (3, {last[1] + 1})" in (ROOT / ".ci/run").read_text()
    assert [name for name in ("README.md", "CONTRIBUTING.md") if span not in (ROOT / name).read_text()] == []
