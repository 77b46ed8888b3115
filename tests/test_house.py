"""The house's own rules: lint, types, who may import whom, and no change of a model without its migration."""

import pytest

from tests.house import CHECKS

LIMIT_S = 120


@pytest.mark.parametrize("name", CHECKS)
def test_house_rule(name, house_checks):
    output, _ = house_checks[name].communicate(timeout=LIMIT_S)
    assert house_checks[name].returncode == 0, f"{name}:\n{output}"
