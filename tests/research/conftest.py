"""What the benchmarks' tests take from the portal's."""

from tests.portal.conftest import cluster, nothing_counted  # noqa: F401 - fixtures
