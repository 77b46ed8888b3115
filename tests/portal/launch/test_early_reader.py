"""`./berth status | head`: a reader that has read enough leaves, and nobody complains."""

import os
import subprocess
import sys

from portal.foundation.layout import SOURCE


def test_a_reader_that_leaves_early_sees_no_traceback(tmp_path):
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "w") as gone:
        done = subprocess.run(
            [sys.executable, "-P", "-m", "portal.launch", "status", "--data", str(tmp_path / "none")],
            env=os.environ | {"PYTHONPATH": str(SOURCE)},
            stdout=gone,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.stderr == ""
