"""The one error a person at the command line sees: a sentence and its remedy."""


class LaunchError(Exception):
    """A fault of a command with its remedy; printed as one line, exit code 1, no traceback."""

    def __init__(self, problem: str, remedy: str = "") -> None:
        self.problem = problem
        self.remedy = remedy
        super().__init__(f"{problem} {remedy}".strip())
