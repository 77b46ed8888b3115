"""The one error a person at the command line sees: a sentence and its remedy."""


class LaunchError(Exception):
    """What went wrong and what to do about it; printed as one line, exit code 1, no traceback."""

    def __init__(self, problem: str, remedy: str = "") -> None:
        self.problem = problem
        self.remedy = remedy
        super().__init__(f"{problem} {remedy}".strip())
