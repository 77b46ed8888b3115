"""`./berth screenshots`: every page is in its list, and a sheet tells what was found."""

import os
import signal

import pytest

from research.screenshots import seeded
from research.screenshots.__main__ import STOPPING, main, sheet_write
from research.screenshots.camera import VIEWS, Taken
from research.screenshots.pages import NOBODY, OPERATOR, TENANT, pages_all


def test_each_page_is_shown_to_who_reads_it_and_no_part_of_one():
    shown = {page.path: page.reader for page in pages_all()}
    assert {"/login": NOBODY, "/jobs/{running}/": TENANT, "/sharing/": OPERATOR}.items() <= shown.items()
    assert len(shown) > 40
    assert not [path for path in shown if "fragment" in path or "figures" in path or path == "/jobs/csv"]


def test_names_are_unique_and_make_safe_files():
    names = [page.name for page in pages_all()]
    assert len(set(names)) == len(names)
    assert all(name.replace("-", "").isalnum() for name in names)


def test_the_sheet_shows_pictures_and_faults(tmp_path):
    taken = Taken([tmp_path / f"jobs-{view.name}.png" for view in VIEWS], [("jobs, dark", "<b>asks")])
    text = sheet_write(tmp_path, taken).read_text()
    assert "3 pictures" in text
    assert "&lt;b&gt;asks" in text
    assert text.count("<img") == len(VIEWS)


def test_without_a_browser_it_says_what_to_install(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main([str(tmp_path / "out")]) == 1
    assert "apt install chromium" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.fixture
def handlers():
    before = {number: signal.getsignal(number) for number in STOPPING}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.usefixtures("handlers")
@pytest.mark.parametrize("number", STOPPING)
def test_a_signal_ends_the_demo_too(number, tmp_path, monkeypatch):
    browser = tmp_path / "chromium"
    browser.touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    done = []

    def launch(_layout, verb, *_arguments):
        done.append(verb)
        os.kill(os.getpid(), number)  # while it comes up, and again while it goes down

    monkeypatch.setattr(seeded, "_launch", launch)
    with pytest.raises(SystemExit) as ended:
        main([str(tmp_path / "out")])
    assert ended.value.code == 128 + number
    assert done == ["up", "down"]
