"""What the REST API says about jobs."""

from portal.jobs.serializers.jobs import AttemptSerializer, JobDetailSerializer, JobSerializer

__all__ = ["AttemptSerializer", "JobDetailSerializer", "JobSerializer"]
