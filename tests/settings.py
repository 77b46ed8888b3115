"""The settings of the tests: the portal's and research's, on a data directory of the tests' own that goes with them.

An installation in the same clone (`var/`), or one that the caller's environment names, is neither read nor written.
"""

import atexit
import copy
import os
import shutil
import tempfile

MARK = "BERTH_TESTS_DATA"
"""Set for the processes that tests start: they use the data directory that the test gave them, or share this one."""

if MARK not in os.environ:
    _directory = tempfile.mkdtemp(prefix="berth-tests-")
    os.mkdir(os.path.join(_directory, "static"))  # noqa: PTH102, PTH118 - WhiteNoise warns when there is none
    os.environ[MARK] = os.environ["BERTH_DATA_DIR"] = _directory
    _owner = os.getpid()

    def _remove() -> None:
        if os.getpid() == _owner:  # a forked child ends by itself and does not touch it
            shutil.rmtree(_directory, ignore_errors=True)

    atexit.register(_remove)

from portal.settings import DATABASES as OF_PRODUCT  # noqa: E402
from portal.settings import STORAGES as OF_PORTAL  # noqa: E402
from research.settings import *  # noqa: E402, F403

# Argon2 is slow on purpose, and many a test makes six people. tests/portal/people/tenants/test_passwords.py has the product's.
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]

# Static files by their plain names: no collectstatic has run for a test.
STORAGES = OF_PORTAL | {"staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}}

# No test takes the power away: a commit need not wait for the disk. tests/portal/test_durable.py has the product's.
DATABASES = copy.deepcopy(OF_PRODUCT)
if "init_command" in (options := DATABASES["default"].get("OPTIONS", {})):
    options["init_command"] = options["init_command"].replace("synchronous=FULL", "synchronous=OFF")
