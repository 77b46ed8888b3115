"""What a process of the first start tells `up`: JSON lines, read by `portal.launch.preparation`."""

import json


def emit(**said: str) -> None:
    print(json.dumps(said), flush=True)  # noqa: T201 - read by portal.launch.preparation


def step(text: str) -> None:
    emit(step=text)


def farewell(text: str) -> None:
    """A line shown when all is up; it may hold a password and never reaches a log."""
    emit(farewell=text)
