"""The JSON lines that a process of the first start prints for `up`; `portal.launch.preparation` reads them."""

import json


def emit(**said: str) -> None:
    print(json.dumps(said), flush=True)  # noqa: T201 - read by portal.launch.preparation


def step(text: str) -> None:
    emit(step=text)


def farewell(text: str) -> None:
    """Send a line to show when all is up. It may hold a password, so it never goes into a log."""
    emit(farewell=text)
