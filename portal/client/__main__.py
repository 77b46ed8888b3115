"""`python -m client VERB`: what `./berth` runs for the verbs that ask a portal over REST."""

import sys

from . import command
from .rest import ClientError

VERBS = {"lab": command.main}


def main(arguments: list[str]) -> int:
    try:
        return VERBS[arguments[0]](arguments[1:])
    except ClientError as error:
        print(f"berth: {error}", file=sys.stderr)
        return error.exit_code
    except BrokenPipeError:  # `| head` has read enough
        sys.stderr.close()
        return 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
