"""What a benchmark says when it cannot go on."""


class BenchError(Exception):
    """The benchmark cannot run as asked; the sentence says why."""
