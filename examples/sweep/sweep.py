"""One task of a search for a learning rate: its rate lies between the lowest and the highest, at equal ratios.

It then runs train.py beside it with that rate. The task's number comes from BERTH_ARRAY_INDEX.

    $BERTH_PYTHON sweep.py --lowest 0.05 --highest 1 --seconds 30
"""

import argparse
import os
import sys


def rate(index, count, lowest, highest):
    """The task's learning rate: the first has the lowest, the last the highest."""
    return lowest if count < 2 else lowest * (highest / lowest) ** (index / (count - 1))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--lowest", type=float, required=True)
    parser.add_argument("--highest", type=float, required=True)
    parser.add_argument("--seconds", type=float, default=30)
    asked = parser.parse_args()
    index, count = (
        int(os.environ.get(f"BERTH_ARRAY_{name}", default)) for name, default in (("INDEX", 0), ("SIZE", 1))
    )
    own = rate(index, count, asked.lowest, asked.highest)
    print(f"task {index} of {count}: learning rate {own:.5g}", flush=True)
    words = ["train.py", "--steps", "1000000", "--seconds", str(asked.seconds), "--rate", str(own)]
    os.execv(sys.executable, [sys.executable, *words])


if __name__ == "__main__":
    main()
