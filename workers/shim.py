"""The program that runs one part of a job: `python -I -S workers/shim.py PART_DIR`. What it does is in `workers.controls`.

Agents start it by this path. An agent that runs since before an upgrade does so too: so the path does not change.
"""

import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # -I and -S leave only the standard library on it
    from workers.controls.shim import main

    sys.exit(main(Path(sys.argv[1]).resolve()))
