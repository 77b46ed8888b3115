"""The house's own rules: lint, layout, types, who may import whom, and no change of a model without its migration."""

from collections import Counter

import pytest

from tests.house import CHECKS, ROOT

LIMIT_S = 120
MOST_FILES = 25
ROOMS = ("portal", "scheduler", "templates", "workers")


@pytest.mark.parametrize("name", CHECKS)
def test_house_rule(name, house_checks):
    output, _ = house_checks[name].communicate(timeout=LIMIT_S)
    assert house_checks[name].returncode == 0, f"{name}:\n{output}"


def crowded(root, most=MOST_FILES):
    """Folders of the product that hold more than `most` files of ours, with how many."""
    files = [p for room in ROOMS for p in (root / room).rglob("*") if p.suffix in {".py", ".html"}]
    held = Counter(p.parent.relative_to(root).as_posix() for p in files if p.parent.name != "migrations")
    return {folder: count for folder, count in held.items() if count > most}


def test_no_folder_is_a_flat_list():
    assert crowded(ROOT) == {}


def test_a_crowded_folder_is_found(tmp_path):
    folder = tmp_path / "portal" / "hall"
    folder.mkdir(parents=True)
    for n in range(MOST_FILES + 1):
        (folder / f"f{n}.py").touch()
    assert crowded(tmp_path) == {"portal/hall": MOST_FILES + 1}
