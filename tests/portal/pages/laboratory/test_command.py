"""How the laboratory's commands refuse: one line, exit status 2, nothing computed and nothing written."""

import os
import subprocess
import sys

import pytest

from portal.foundation.layout import SOURCE
from portal.pages.laboratory.management.commands import simulate, trace

COMMANDS = {"simulate": simulate, "trace": trace}
CLUSTER = "nodes: [{count: 1, cores: 16, memory_gib: 64, gpus: 4, gpu_type: A100}]"


@pytest.fixture
def files(tmp_path):
    (tmp_path / "c.yaml").write_text(CLUSTER)
    (tmp_path / "t.csv").write_text("submitted_s,tenant,gpus,duration_s\n0,vision,1,60\n")
    return ["--trace", str(tmp_path / "t.csv"), "--format", "berth-csv", "--cluster", str(tmp_path / "c.yaml")]


@pytest.fixture
def call(capsys):
    def called(name, *arguments):
        """Return exit status, output and complaint."""
        with pytest.raises(SystemExit) as ended:
            COMMANDS[name].Command().run_from_argv(["manage.py", name, *arguments])
        said = capsys.readouterr()
        return ended.value.code, said.out, said.err

    return called


@pytest.fixture
def uncomputed(monkeypatch):
    def computed(**_):
        raise AssertionError("it was simulated")

    monkeypatch.setattr(simulate, "simulation_run", computed)


def test_a_refusal_is_one_line_and_status_2(call, files):
    assert call("simulate", *files, "--seed", "-1") == (
        2,
        "",
        "berth: seed: A seed is a whole number from 0 to 2147483647.\n",
    )
    assert call("simulate")[0::2] == (
        2,
        "berth: trace: give one of --trace (with --format), --history and --generator\n",
    )


def test_its_help_is_its_own(call):
    code, out, _ = call("simulate", "--help")
    assert code == 0
    assert out.startswith("usage: ./berth simulate ")
    assert "--settings" not in out
    assert "--traceback" not in out
    code, _, err = call("simulate", "--seed", "x")
    assert code == 2
    assert "./berth simulate: error: argument" in err


def test_files_that_cannot_be_written_are_refused_before_anything_is_computed(call, files, tmp_path, uncomputed):
    for option in ("--html", "--csv"):
        code, out, err = call("simulate", *files, option, str(tmp_path))
        assert (code, out) == (2, "")
        assert err == f"berth: {option}: {tmp_path} is a folder; name a file in it\n"
        err = call("simulate", *files, option, str(tmp_path / "no" / "o"))[2]
        assert "cannot be written: there is no folder" in err
    assert call("trace", "export", str(tmp_path / "no" / "o.csv"))[0] == 2
    assert sorted(each.name for each in tmp_path.iterdir()) == ["c.yaml", "t.csv"]


def test_ctrl_c_at_any_time_is_no_fault(call, files, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(simulate.Command, "handle", interrupted)
    assert call("simulate", *files) == (130, "", "berth: stopped\n")


def run(*arguments, data, **options):
    argv = [sys.executable, SOURCE / "manage.py", *arguments]
    environment = os.environ | {"BERTH_DATA_DIR": str(data)}
    environment.pop("DATABASE_URL", None)
    return subprocess.Popen(argv, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)


@pytest.mark.impure
def test_a_reader_who_leaves_early_leaves_no_traceback(files, tmp_path):
    process = run("simulate", *files, "--policy", "fifo", "--json", data=tmp_path / "data")
    process.stdout.close()
    assert (process.wait(120), process.stderr.read()) == (0, "")


@pytest.mark.slow
@pytest.mark.impure
def test_history_of_a_berth_that_never_ran_says_so_and_makes_no_database(tmp_path):
    data = tmp_path / "data"
    data.mkdir()
    for arguments in (["simulate", "--history", "7"], ["trace", "export", str(tmp_path / "o.csv")]):
        process = run(*arguments, data=data)
        out, err = process.communicate(timeout=120)
        assert (process.returncode, out) == (2, "")
        assert err.startswith("berth: history: this Berth has no database yet; start it once with ./berth up")
        assert not list(data.glob("berth.sqlite3*"))
