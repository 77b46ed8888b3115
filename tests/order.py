"""In which order the processes of a run get the files: those with servers, which mostly wait, spread among those that compute."""

import re
from functools import cache

from portal.foundation.layout import SOURCE

WAITS = ("system", "browser", "postgres")
SPACING = 4
"""Files that compute for each file with servers: all of these have begun when two thirds of the others have."""
_GROUP = re.compile(r"^pytestmark = [^\]]*?\bmark\.xdist_group\(\"(\w+)\"\)", re.MULTILINE)


@cache
def group_of(file):
    """Return the group that a file's text names, else the file. One process runs a group."""
    found = _GROUP.search((SOURCE / file).read_text(encoding="utf-8"))
    return found[1] if found else file


def waits(item):
    """Say whether a test has servers or a browser."""
    return any(map(item.get_closest_marker, WAITS))


def unit_of(item):
    """Return the name of a test's group, else its file."""
    group = item.get_closest_marker("xdist_group")
    return group.args[0] if group else item.path


def commits(item):
    """Say whether a test commits rows. The ids of those that come after it in its process go on from there."""
    mark = item.get_closest_marker("django_db")
    return bool(mark and mark.kwargs.get("transaction")) or "transactional_db" in getattr(item, "fixturenames", ())


def put_in_order(items):
    """Sort the tests. The linters begin at once, then the groups, which last longest; files that commit rows come last."""
    waiting = dict.fromkeys(unit_of(item) for item in sorted(filter(waits, items), key=_is_alone))
    committing = {unit_of(item) for item in items if commits(item)}
    others = dict.fromkeys(unit for unit in map(unit_of, items) if unit not in waiting)
    computing = sorted(others, key=committing.__contains__)
    place = {unit: number for number, unit in enumerate(computing)}
    place |= {unit: number * SPACING - 0.5 for number, unit in enumerate(waiting)}

    def turn(item):
        spends = hasattr(item.module, "SPENDS_ITS_BERTH")
        return item.path.name != "test_house.py", place[unit_of(item)], spends, commits(item)

    items.sort(key=turn)


def _is_alone(item):
    return item.get_closest_marker("xdist_group") is None
