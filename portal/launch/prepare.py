"""The part of the preparation that needs Django: `up` starts `python -m portal.launch.prepare` and reads its JSON lines."""

import logging
import os
import sys

import django

from portal.foundation.layout import Layout
from portal.launch.notices import emit, farewell, step
from portal.launch.preparation import nodes_unregistered
from portal.launch.programs import node_names

JOIN_TOKEN_LIFE_S = 3600


def _migrate() -> bool:
    """Bring the database up to date. Return False when it is refused, and tell `up` why."""
    from django.core.management import CommandError, call_command

    with open(os.devnull, "w") as nothing:  # noqa: PTH123
        try:
            call_command("migrate", interactive=False, verbosity=0, stdout=nothing)
        except CommandError as error:
            emit(refused=str(error))
            return False
    step("database migrated")
    return True


def _join_tokens(layout: Layout, *, demo: bool) -> None:
    """Make a token for each node of ours that has not registered yet. It works once, within an hour."""
    from portal.cluster.services import joining
    from portal.launch.demo.slurm import BRIDGE
    from portal.launch.operator import operator_account

    for name in nodes_unregistered(layout, demo=demo):
        _, secret = joining.join_token_create(
            actor=operator_account(), name="" if name == BRIDGE else name, expires_in_s=JOIN_TOKEN_LIFE_S, uses=1
        )
        emit(join=name, token=secret)
    step(f"nodes known: {', '.join(node_names(layout, demo=demo)) or 'none yet'}")


def main() -> int:
    logging.captureWarnings(capture=True)
    django.setup()
    from django.conf import settings

    from portal.launch import operator
    from portal.launch.demo import people as demo

    layout = Layout.at(settings.DATA_DIR)
    if not _migrate():
        return 1
    for line in operator.operator_ensure(layout):
        farewell(line)
    if settings.DEMO:
        for line in demo.demo_ensure(layout, step=step):
            farewell(line)
    _join_tokens(layout, demo=settings.DEMO)
    return 0


if __name__ == "__main__":
    sys.exit(main())
