"""What the REST API says about jobs."""

from portal.work.jobs.serializers.attempts import AttemptSerializer
from portal.work.jobs.serializers.jobs import JobDetailSerializer, JobSerializer

__all__ = ["AttemptSerializer", "JobDetailSerializer", "JobSerializer"]
