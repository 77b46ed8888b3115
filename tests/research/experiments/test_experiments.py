"""`./berth experiment`: its tables, and its refusals."""

import pytest
from django.core.management import CommandError, call_command

from portal.pages.laboratory.output.tables import Table
from portal.pages.laboratory.output.told import page_html
from research.experiments.base import Experiment, ExperimentError, Figure, Options
from research.experiments.registry import MODULES, experiment_named
from research.management.commands.experiment import Command


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


def test_an_experiment_has_a_page_of_tables():
    table = Table("Hops, 512 GPUs", ("policy", "JCT, h"), [("berth", Figure(2.0, 2.24))], "Why.")
    page = page_html(title="Experiment hops-512", facts=[("Seeds", "1")], tables=[table])
    assert "2.00 (2.24; 0.893)" in page
    assert "Why." in page
    assert "plotly" not in page.lower().split("</style>", 1)[1].split("<script>", 1)[0]


@pytest.fixture
def call(capsys):
    def called(*arguments):
        """Return exit status, output and complaint."""
        with pytest.raises(SystemExit) as ended:
            Command().run_from_argv(["manage.py", "experiment", *arguments])
        said = capsys.readouterr()
        return ended.value.code, said.out, said.err

    return called


def test_a_refusal_is_one_line_and_status_2(call, tmp_path):
    assert call("cores", "--seeds", "0") == (2, "", "berth: --seeds must be at least 1.\n")
    assert call("cores", "--processes", "0") == (2, "", "berth: --processes must be at least 1.\n")
    assert call("cores")[0::2] == (
        2,
        "berth: This experiment reads public data: give --data DIR, the folder that holds synergy/.\n",
    )
    assert "no folder" in call("cores", "--html", str(tmp_path / "no" / "o"))[2]


def test_its_help_is_its_own(call):
    code, out, _ = call("--help")
    assert code == 0
    assert out.startswith("usage: ./berth experiment ")
    assert "--settings" not in out
    code, _, err = call("--seeds", "x")
    assert code == 2
    assert "./berth experiment: error: argument" in err
