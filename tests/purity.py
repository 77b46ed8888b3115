"""Which tests are pure: no database, no server, no process of its own. `./berth test --fast` runs only these."""

import re

DATABASE_FIXTURES = {"db", "transactional_db", "django_db_setup"}
DJANGO_FIXTURES = {
    "_dj_autoclear_mailbox",
    "_django_clear_site_cache",
    "_django_db_marker",
    "_django_isolate_apps",
    "_django_set_urlconf",
    "_live_server_helper",
    "_template_string_if_invalid_marker",
}
"""Fixtures of pytest-django around each test: mails, addresses and sites. They take a tenth of the core's tests' time."""
CORE = ("tests", "scheduler")
_ALL_MARKED = re.compile(r"^pytestmark = (\[[^\]]*\]|.*)", re.MULTILINE)
_MARK, _LEFT_OUT = re.compile(r"\bmark\.(\w+)"), re.compile(r"\bnot (\w+)")


def _has_processes(path, root):
    return "processes" in path.parts or path.is_relative_to(root / "tests" / "workers")


def is_pure(item):
    """Say whether a test is pure."""
    if _has_processes(item.path, item.config.rootpath):
        return False
    return not DATABASE_FIXTURES & set(getattr(item, "fixturenames", ())) and not item.get_closest_marker("django_db")


def leave_django_out(item):
    """Let nothing of Django be made ready for a test of the core, which does not import it."""
    if item.path.relative_to(item.config.rootpath).parts[: len(CORE)] == CORE:
        item.fixturenames[:] = [name for name in item.fixturenames if name not in DJANGO_FIXTURES]


def all_are_left_out(path, root, expression):
    """Say whether a file tells by its place or its own mark that this `-m` leaves all its tests out: it need not be imported."""
    left_out = set(_LEFT_OUT.findall(expression))
    if not left_out or " or " in expression or not path.name.startswith("test_") or path.suffix != ".py":
        return False
    if "impure" in left_out and _has_processes(path, root):
        return True
    left_out |= {"django_db"} if "impure" in left_out else set()
    marked = _ALL_MARKED.search(path.read_text(encoding="utf-8"))
    return bool(marked and left_out & set(_MARK.findall(marked[0])))
