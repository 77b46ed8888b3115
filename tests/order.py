"""In which order the processes of a run get the files: those with servers, which mostly wait, spread among those that compute."""

import re
from functools import cache

from portal.layout import SOURCE

WAITS = ("system", "browser", "postgres")
SPACING = 4
"""So many files that compute for each with servers: all of these have begun when two thirds of the others have."""
_GROUP = re.compile(r"^pytestmark = [^\]]*?\bmark\.xdist_group\(\"(\w+)\"\)", re.MULTILINE)


@cache
def group_of(file):
    """Return the group that a file's text names, else the file: what comes to one process."""
    found = _GROUP.search((SOURCE / file).read_text(encoding="utf-8"))
    return found[1] if found else file


def waits(item):
    """Say whether a test has servers or a browser."""
    return any(map(item.get_closest_marker, WAITS))


def unit_of(item):
    """Return the name of a test's group, else its file."""
    group = item.get_closest_marker("xdist_group")
    return group.args[0] if group else item.path


def put_in_order(items):
    """Sort the tests. The linters begin at once, then the groups, which last longest."""
    waiting = dict.fromkeys(unit_of(item) for item in sorted(filter(waits, items), key=_is_alone))
    computing = dict.fromkeys(unit for unit in map(unit_of, items) if unit not in waiting)
    place = {unit: number for number, unit in enumerate(computing)}
    place |= {unit: number * SPACING - 0.5 for number, unit in enumerate(waiting)}
    items.sort(
        key=lambda item: (
            item.path.name != "test_house.py",
            place[unit_of(item)],
            hasattr(item.module, "SPENDS_ITS_BERTH"),
        )
    )


def _is_alone(item):
    return item.get_closest_marker("xdist_group") is None
