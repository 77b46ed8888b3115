"""The agent's settings of a command line."""

import os

from workers.agent.settings import arguments_parser, settings_read


def settings_from(argv, environ=os.environ):
    return settings_read(arguments_parser().parse_args(argv), environ)
