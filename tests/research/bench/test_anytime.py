"""`./berth bench anytime`: its keys, and that it says no. Times are not asserted."""

import json

import pytest

from research.bench.anytime import SHARES, anytime_measure, anytime_report
from research.bench.errors import BenchError


@pytest.mark.slow
def test_each_share_of_the_limit_is_held_against_the_converged_plan():
    figures = anytime_measure(sizes=(48,), kinds=("mixed",), limit_s=2.0)
    assert json.loads(anytime_report(figures, as_json=True)) == figures
    (cluster,) = figures["clusters"]
    assert [point["share"] for point in cluster["points"]] == list(SHARES)
    assert all(0 < point["of_converged"] <= 1 + 1e-9 for point in cluster["points"])
    assert cluster["wanted"]
    assert all(0.5 < cluster["warm"][name]["of_converged"] <= 1.01 for name in ("quick", "whole"))
    assert "wanted" in anytime_report(figures, as_json=False)


@pytest.mark.parametrize("wrong", [{"sizes": (0,)}, {"kinds": ("disks",)}, {"limit_s": 0}])
def test_nonsense_is_refused(wrong):
    with pytest.raises(BenchError, match="--gpus must be"):
        anytime_measure(**wrong)
