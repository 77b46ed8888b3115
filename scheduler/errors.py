"""The errors of the scheduler core: each names the thing at fault, its fault and the remedy."""

from __future__ import annotations


class SchedulerError(ValueError):
    """Bad input to the core. `subject` is `node`, `job` or `parameter`, `key` its id or name, `detail` a sentence."""

    subject = "input"

    def __init__(self, key: int | str, detail: str) -> None:
        super().__init__(f"{self.subject} {key}: {detail}")
        self.key = key
        self.detail = detail


class InvalidNode(SchedulerError):
    """A node whose description contradicts itself. It is set aside; the planning goes on without it."""

    subject = "node"


class InvalidJob(SchedulerError):
    """A job that cannot be planned as described. It is set aside with reason `invalid`; the planning goes on."""

    subject = "job"


class InvalidParameter(SchedulerError):
    """An operator's knob with a value outside its range. Nothing is planned with it."""

    subject = "parameter"


class InvalidTenant(SchedulerError):
    """A tenant whose weight or quota is no number. Weight 1 and quota 0 stand in: a quota in doubt is not exceeded."""

    subject = "tenant"


class InvalidRecord(SchedulerError):
    """A figure of the past or of a GPU type that is no number. It is left out; the planning goes on without it."""

    subject = "record"
