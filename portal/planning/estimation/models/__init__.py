"""Known speeds of jobs (algorithms.md section 2): tables by job signature, links by GPU type, each job's progress.

A signature is one tenant's; nothing here is ever read for another tenant's job.
"""

from portal.planning.estimation.models.links import Link, LinkProbe, LinkVote, NodeSpeed
from portal.planning.estimation.models.progress import AttemptSpeed, JobProgress, PartOffset
from portal.planning.estimation.models.signatures import (
    AttemptDistilled,
    JobProfile,
    PairSpeed,
    Signature,
    SignatureUse,
    ThroughputCell,
)

__all__ = [
    "AttemptDistilled",
    "AttemptSpeed",
    "JobProfile",
    "JobProgress",
    "Link",
    "LinkProbe",
    "LinkVote",
    "NodeSpeed",
    "PairSpeed",
    "PartOffset",
    "Signature",
    "SignatureUse",
    "ThroughputCell",
]
