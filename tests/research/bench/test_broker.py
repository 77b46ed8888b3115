"""A benchmark asks the broker of REDIS_URL where that answers, else its own."""

import pytest

from portal.foundation.layout import Layout
from research.bench.databases import _broker

pytestmark = pytest.mark.impure  # a server of its own


def test_a_broker_that_does_not_answer_is_replaced(tmp_path, monkeypatch):
    monkeypatch.setenv("REDIS_URL", f"unix://{tmp_path}/gone.sock")
    data = Layout.at(tmp_path / "d").root
    data.mkdir()
    with _broker(data) as given:
        assert given["REDIS_URL"] != f"unix://{tmp_path}/gone.sock"
        monkeypatch.setenv("REDIS_URL", given["REDIS_URL"])
        with _broker(data) as known:
            assert known == {}
