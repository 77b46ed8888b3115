"""What the REST API says about jobs."""

from portal.jobs.serializers.attempts import AttemptSerializer
from portal.jobs.serializers.jobs import JobDetailSerializer, JobSerializer

__all__ = ["AttemptSerializer", "JobDetailSerializer", "JobSerializer"]
