"""`./berth experiment openb` on a small cluster of the same form."""

from dataclasses import replace

import pytest

from research.experiments.base import ExperimentError, Options
from research.experiments.openb import PACKERS, run
from research.experiments.openb_study import ALLOCATED_PCT, STUDIED, study_of

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
    assert [table.title for table in result.tables] == ["openb, pods default", "openb, pods multigpu20"]
    assert [row[0] for row in result.tables[0].rows] == list(PACKERS)
    assert result.tables[0].rows[4][3] == "92.86"
    assert result.tables[0].rows[-1][3] == "-"
    assert all(60 < row["allocated_pct"][1] <= 100 for row in result.json["lists"]["default"].values())
    assert without_times(result.json) == without_times(run(options).json)


def test_packs_any_list_that_is_named_and_no_other(options, tmp_path):
    mine = tmp_path / "mine.csv"
    mine.write_text((tmp_path / "openb" / "openb_pod_list_default.csv").read_text())
    result = run(replace(options, lists=[mine], seeds=1))
    assert [table.title for table in result.tables] == ["openb, pods mine"]
    assert {row[3] for row in result.tables[0].rows} == {"-"}  # the study has no such list


def test_packs_every_list_that_stands_in_the_folder(options, tmp_path):
    known = tmp_path / "openb"
    (known / "openb_pod_list_cpu100.csv").write_text((known / "openb_pod_list_default.csv").read_text())
    result = run(replace(options, seeds=1))
    assert list(result.json["lists"]) == ["cpu100", "default", "multigpu20"]
    assert result.tables[0].rows[5][3] == "95.21"


def test_says_what_it_cannot_pack(options, tmp_path):
    empty = tmp_path / "empty.csv"
    empty.write_text("name,cpu_milli,memory_mib,num_gpu,gpu_milli\na,1000,1,0,0\n")
    with pytest.raises(ExperimentError, match="asks for a GPU"):
        run(replace(options, lists=[empty]))
    with pytest.raises(ExperimentError, match="two lists are called empty"):
        run(replace(options, lists=[empty, empty]))
    (tmp_path / "openb" / "openb_pod_list_default.csv").unlink()
    with pytest.raises(ExperimentError, match=r"holds no openb_pod_list_default.csv: name the lists with --list F"):
        run(replace(options, quick=True))


def test_the_study_has_best_fit_and_fgd_last_on_every_list():
    assert STUDIED[:5] == PACKERS[:5]
    for name in ALLOCATED_PCT:
        own = study_of(name)
        assert max(own, key=lambda packer: own[packer][0]) == "fgd"
        assert all(50 < first <= last <= 100 for first, last in own.values())
