"""A run imports no file whose tests are all left out, and leaves out no other."""

from tests.purity import all_are_left_out

FAST, DAILY, EVERY = "not system and not impure and not slow", "not gpu and not slow", "system or slow"
DATABASE, SERVERS = "pytestmark = pytest.mark.django_db", "pytestmark = [pytest.mark.system, pytest.mark.browser]"
LONG = "pytestmark = [\n    pytest.mark.system,\n    pytest.mark.slow,\n]"
SOME = ("@pytest.mark.django_db\ndef test(): pass", "# pytestmark = pytest.mark.slow")


def test_a_file_is_left_out_by_a_mark_of_all_its_tests(tmp_path):
    for expression, left_out in ((FAST, {DATABASE, SERVERS, LONG}), (DAILY, {LONG}), (EVERY, set()), ("", set())):
        for text in (DATABASE, SERVERS, LONG, *SOME):
            (tmp_path / "test_it.py").write_text(f"import pytest\n\n{text}\n")
            assert all_are_left_out(tmp_path / "test_it.py", tmp_path, expression) == (text in left_out), text


def test_a_file_is_left_out_by_its_place(tmp_path):
    (tmp_path / "tests" / "workers").mkdir(parents=True)
    for place, left_out in (("tests/workers/test_it.py", True), ("tests/test_it.py", False)):
        (tmp_path / place).write_text("def test_it(): pass\n")
        assert all_are_left_out(tmp_path / place, tmp_path, FAST) == left_out
        assert not all_are_left_out(tmp_path / place, tmp_path, DAILY)
    (tmp_path / "tests" / "workers" / "conftest.py").write_text("")
    assert not all_are_left_out(tmp_path / "tests" / "workers" / "conftest.py", tmp_path, FAST)
