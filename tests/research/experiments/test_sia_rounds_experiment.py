"""Experiment `sia-rounds`: one table of both policies and both kinds of speeds, from a small folder of the same form."""

import pytest

from research.experiments import sia_rounds
from research.experiments.base import ExperimentError, Options

PLACEMENTS = "placement,local_bsz,step_time,sync_time\n1,12,1.0,0.0\n2,12,1.0,0.1\n4,12,1.1,0.1\n44,12,1.5,0.4\n"
WIDE = PLACEMENTS + "8,12,1.2,0.2\n88,12,1.6,0.5\n"
EPOCHS = "progress,iteration,grad_sqr,grad_var\n"


@pytest.fixture
def data(tmp_path):
    files = {
        f"profiles/bert/placements-{gpus}.csv": text
        for gpus, text in {"aws": PLACEMENTS, "rtx": WIDE, "dgx-ext": WIDE}.items()
    }
    files |= {
        "profiles/bert/validation-12.csv": EPOCHS + "200,200,1.0,2.0\n400,400,1.0,8.0\n",
        "profiles/bert/validation-24.csv": EPOCHS + "200,110,1.0,2.0\n400,205,1.0,8.0\n",
        sia_rounds.TRACE: "name,time,application,num_replicas,batch_size\na,0,bert,2,24\nb,30,bert,4,24\n",
    }
    for name, text in files.items():
        path = tmp_path / "sia" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


def test_both_policies_with_both_kinds_of_speeds(data):
    result = sia_rounds.run(Options(data=data, quick=True))
    assert {"known", "learned"} <= result.json.keys()
    assert result.json["known"].keys() == {"sia", "berth"}
    assert result.json["learned"]["berth"]["mean_jct_h"] > 0
    assert [row[:2] for row in result.tables[0].rows] == [
        ["known", "sia"],
        ["known", "berth"],
        ["learned", "sia"],
        ["learned", "berth"],
    ]
    assert "the first 12 jobs alone" in result.tables[0].text()


def test_what_it_cannot_do_it_says(data):
    with pytest.raises(ExperimentError, match="leave --seeds out"):
        sia_rounds.run(Options(data=data, seeds=2))
    with pytest.raises(ExperimentError, match="name the workload with --trace F"):
        sia_rounds.run(Options(data=data, trace=data / "none.csv"))
