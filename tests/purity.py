"""Which tests are pure: no database, no server, no process of its own. `./berth test --fast` runs these alone."""

import re

DATABASE_FIXTURES = {"db", "transactional_db", "django_db_setup"}
_ALL_MARKED = re.compile(r"^pytestmark = .*\bmark\.(django_db|impure|system|browser|postgres|gpu)\b", re.MULTILINE)


def _has_processes(path, root):
    return "processes" in path.parts or path.is_relative_to(root / "tests" / "workers")


def is_pure(item):
    """Say whether a test is pure."""
    if _has_processes(item.path, item.config.rootpath):
        return False
    return not DATABASE_FIXTURES & set(getattr(item, "fixturenames", ())) and not item.get_closest_marker("django_db")


def none_is_pure(path, root):
    """Say whether a file of tests tells by its place or its own mark that none of them is pure: it need not be imported."""
    if not path.name.startswith("test_") or path.suffix != ".py":
        return False
    return _has_processes(path, root) or bool(_ALL_MARKED.search(path.read_text(encoding="utf-8")))
