"""Fixtures of the portal that the benchmarks' tests use."""

from tests.portal.conftest import cluster, nothing_counted  # noqa: F401 - fixtures
