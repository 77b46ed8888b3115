"""Jobs, attempts and nodes in the REST API."""

from portal.work.jobs.serializers.attempts import AttemptSerializer
from portal.work.jobs.serializers.jobs import JobDetailSerializer, JobSerializer

__all__ = ["AttemptSerializer", "JobDetailSerializer", "JobSerializer"]
