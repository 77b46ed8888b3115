"""`./berth experiment openb` on a small cluster of the same form."""

import pytest

from portal.simulations.experiments.base import Options
from portal.simulations.experiments.openb import PACKERS, STUDY, run

PODS = ["a,6000,100,1,460", "b,12000,100,1,1000", "c,4000,100,1,810", "d,12500,100,0,0", "e,4000,100,1,160"]


@pytest.fixture
def options(tmp_path):
    folder = tmp_path / "openb"
    folder.mkdir()
    nodes = [f"n{n},96000,10000,{1 + n % 4},G{n % 2}" for n in range(8)]
    (folder / "openb_node_list_gpu_node.csv").write_text("\n".join(["sn,cpu_milli,memory_mib,gpu,model", *nodes]))
    pods = "\n".join(["name,cpu_milli,memory_mib,num_gpu,gpu_milli", *PODS])
    for name in ("default", "multigpu20"):
        (folder / f"openb_pod_list_{name}.csv").write_text(pods)
    return Options(seeds=2, data=tmp_path)


def without_times(value):
    if isinstance(value, dict):
        return {name: without_times(each) for name, each in value.items() if not name.startswith("solve_")}
    return value


def test_shows_every_packer_beside_the_study(options):
    result = run(options)
    assert [table.title.split(":")[0] for table in result.tables] == ["openb, pods default", "openb, pods multigpu20"]
    assert [row[0] for row in result.tables[0].rows] == list(PACKERS)
    assert result.tables[0].rows[4][3] == "92.86"
    assert result.tables[0].rows[-1][3] == "-"
    assert all(60 < row["allocated_pct"][1] <= 100 for row in result.json["lists"]["default"].values())
    assert without_times(result.json) == without_times(run(options).json)


def test_the_study_orders_its_packers_alike_on_every_list():
    for own in STUDY.values():
        assert sorted(own, key=lambda name: own[name][0]) == list(own)
