"""Answers of simulations, kept for an experiment's next time."""

from functools import partial

import pytest

from portal.pages.laboratory.errors import SimulationError
from portal.pages.laboratory.run.parallel import Task
from research.experiments import kept
from research.experiments.base import Options


def noted(path, seed, tell):
    """Counts how often it was worked."""
    with path.open("a") as file:
        file.write(f"{seed} ")
    tell(1.0)
    return {"seed": seed}


def broken_at_two(path, seed, tell):
    if seed == 2:
        raise SimulationError("trace", "is bad")
    return noted(path, seed, tell)


@pytest.fixture
def worked(tmp_path):
    return tmp_path / "worked"


def tasks_of(work, *seeds):
    return [Task(f"fifo seed {seed}", partial(*work, seed)) for seed in seeds]


def test_nothing_is_kept_unless_asked(worked):
    for _ in range(2):
        Options().run_all(tasks_of((noted, worked), 1))
    assert worked.read_text() == "1 1 "


def test_an_answer_is_read_again(tmp_path, worked):
    options = Options(keep=tmp_path / "kept")
    for seeds in ([1, 2], [1, 2, 3]):
        answers = options.run_all(tasks_of((noted, worked), *seeds))
        assert answers == [{"seed": seed} for seed in seeds]
    assert worked.read_text() == "1 2 3 "


def test_what_was_finished_before_it_broke_is_kept(tmp_path, worked):
    options = Options(keep=tmp_path / "kept")
    with pytest.raises(SimulationError, match="is bad"):
        options.run_all(tasks_of((broken_at_two, worked), 1, 2))
    with pytest.raises(SimulationError, match="is bad"):
        options.run_all(tasks_of((broken_at_two, worked), 1, 2))
    assert worked.read_text() == "1 "


@pytest.mark.impure
def test_other_processes_keep_and_read_as_well(tmp_path, worked):
    options = Options(keep=tmp_path / "kept", processes=2)
    for _ in range(2):
        assert options.run_all(tasks_of((noted, worked), 1, 2)) == [{"seed": 1}, {"seed": 2}]
    assert sorted(worked.read_text().split()) == ["1", "2"]


def test_changed_code_is_simulated_anew(tmp_path, worked, monkeypatch):
    options = Options(keep=tmp_path / "kept")
    options.run_all(tasks_of((noted, worked), 1))
    monkeypatch.setattr(kept, "_code", lambda: b"changed")
    options.run_all(tasks_of((noted, worked), 1))
    assert worked.read_text() == "1 1 "


def test_a_folder_that_cannot_be_made_is_told(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(SimulationError, match=r"keep: .*cannot be made: Not a directory"):
        Options(keep=tmp_path / "file" / "kept").run_all(tasks_of((noted, tmp_path / "worked"), 1))
