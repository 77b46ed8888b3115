"""`./berth experiment`: its tables, and its refusals."""

import pytest
from django.core.management import CommandError, call_command

from portal.laboratory.output.tables import Table
from research.experiments.base import Experiment, ExperimentError, Figure, Options
from research.experiments.registry import MODULES, experiment_named


def test_figures_stand_beside_the_papers_with_their_ratio():
    table = Table(
        "A", ("policy", "JCT, h"), [("berth", Figure(1.5, 3.0)), ("sia", Figure(None, 4.0)), ("sjf", 0.25)], "Why."
    )
    assert table.text() == (
        "### A\n"
        "\n"
        "| policy |             JCT, h |\n"
        "| ------ | -----------------: |\n"
        "| berth  | 1.50 (3.00; 0.500) |\n"
        "| sia    |        - (4.00; -) |\n"
        "| sjf    |              0.250 |\n"
        "\n"
        "Why.\n"
    )


def test_every_experiment_is_what_its_line_says():
    for name in MODULES:
        experiment = experiment_named(name)
        assert isinstance(experiment, Experiment)
        assert experiment.name == name


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["none-such"], "no experiment 'none-such'"),
        (["openb", "--list", "default"], "--list: default is no file"),
        (["sia", "--trace", "/nowhere.csv"], "--trace: /nowhere.csv is no file"),
        (["hops-64", "--trace", __file__], "hops-64 takes no such file: leave --trace out"),
        (["sia", "--list", __file__], "sia takes no such file: leave --list out"),
    ],
)
def test_what_cannot_be_run_is_refused(arguments, complaint):
    with pytest.raises(CommandError, match=complaint):
        call_command("experiment", *arguments)


def test_missing_public_data_is_asked_for_by_option(tmp_path):
    with pytest.raises(ExperimentError, match="give --data DIR, the folder that holds sia/"):
        Options().folder("sia")
    with pytest.raises(ExperimentError, match="holds no sia/"):
        Options(data=tmp_path).folder("sia")
