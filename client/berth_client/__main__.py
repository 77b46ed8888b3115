"""`python -m berth_client VERB`: what `./berth` in a clone runs for the verbs that ask a portal over REST."""

import sys

from berth_client.cli import run

if __name__ == "__main__":
    sys.exit(run(prog="./berth"))
