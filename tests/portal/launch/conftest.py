"""Fixtures of the launcher's tests: a data directory that is ready to be used."""

import pytest

from portal.foundation.layout import Layout


@pytest.fixture
def layout(tmp_path):
    layout = Layout.at(tmp_path / "data")
    layout.prepare()
    return layout
