"""A copy of Berth with one mechanism taken out, to show that a test notices when it is missing."""

import shutil

from portal.foundation.layout import SOURCE

TREES = ("portal", "scheduler", "workers", "templates", "static")


def mutated_copy(directory, *, file, old, new):
    """Copy the source to `directory` with `old` replaced by `new` in `file`; PYTHONPATH for it.

    AssertionError when `old` is not there exactly once: the mechanism has moved, and this mutation with it.
    """
    for tree in TREES:
        shutil.copytree(SOURCE / tree, directory / tree)  # with what is compiled: one file alone is compiled anew
    for name in ("manage.py", "requirements.lock"):
        shutil.copy2(SOURCE / name, directory / name)
    path = directory / file
    text = path.read_text()
    assert text.count(old) == 1, f"{old!r} is {text.count(old)} times in {file}"
    path.write_text(text.replace(old, new))
    return str(directory)
