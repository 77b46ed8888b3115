"""Faults of backups, as a person at the command line reads them."""


class BackupError(Exception):
    """A sentence and its remedy; nothing was changed."""

    def __init__(self, problem: str, remedy: str = "") -> None:
        super().__init__(f"{problem} {remedy}".strip())
