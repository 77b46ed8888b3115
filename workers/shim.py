"""The program that runs one part of a job: `python -I -S workers/shim.py PART_DIR`. `workers.controls` has its code.

Agents start it by this path. An agent that runs since before an upgrade does so too: so the path does not change.
"""

import os
import sys

if __name__ == "__main__":
    # -I and -S leave only the standard library on it.
    sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.realpath(__file__))))  # noqa: PTH120
    from pathlib import Path

    from workers.controls.shim import main

    sys.exit(main(Path(sys.argv[1]).resolve()))
