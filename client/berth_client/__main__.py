"""`python -m berth_client VERB`: `./berth` in a clone runs this for the verbs that ask a portal over REST."""

import sys

from berth_client.cli import run

if __name__ == "__main__":
    sys.exit(run(prog="./berth"))
