#!/usr/bin/env python
"""Django's command line; `./berth` makes the virtual environment and then calls this."""

import gc
import os
import sys


def main() -> None:
    gc.disable()  # while apps load, as in `portal.launch.guarded`; `LaunchConfig` wakes it
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings")
    from django.core.management import execute_from_command_line

    from portal.foundation.deep_calls import roomy

    roomy(execute_from_command_line, sys.argv)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:  # while it still loads, or in a command that leaves it to us
        sys.exit(130)
