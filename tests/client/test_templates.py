"""`berth templates`, and `submit --template`: import, list, show, export, a job with values, errors by parameter."""

import pytest

from tests.portal.planning.templating.samples import TEXT

pytestmark = pytest.mark.django_db


@pytest.fixture
def kept(cli, tmp_path):
    (tmp_path / "train.yaml").write_text(TEXT)
    (tmp_path / "train.py").write_text("print(1)\n")
    assert "version 1" in cli("templates", "import", tmp_path / "train.yaml", "--file", tmp_path / "train.py").out
    return tmp_path


def test_import_show_export_and_delete(cli, world, kept):
    assert "train" in cli("templates").out
    assert cli("templates", "-o", "name").out == "train\n"
    shown = cli("templates", "show", "train").out
    assert "Learning rate" not in shown or "The step." in shown
    assert "from 0.0001 to 1" in shown
    exported = cli("templates", "export", "train").out
    assert "print(1)" in exported
    (kept / "again.yaml").write_text(exported)
    assert "version 1" in cli("templates", "import", kept / "again.yaml").out
    assert "manager" in cli("templates", "delete", "train", code=2).err
    assert "is deleted" in cli("templates", "delete", "train", caller=world.manager).out
    assert "no template yet" in cli("templates").out


def test_submit_and_plan_from_a_template(cli, kept):
    made = cli(
        "submit", "--template", "train", "--set", "lr=0.2", "--set", "mixed=yes", "--name", "mine", "-o", "json"
    ).json
    assert (made["name"], made["command"]) == ("mine", "echo train --lr=0.2 --epochs 3 --mixed ''")
    assert made["template"]["values"]["lr"] == 0.2
    assert cli("plan", "--template", "train", "--set", "sizes=1").out
    assert "between 0.0001 and 1" in cli("submit", "--template", "train", "--set", "lr=5", code=2).err
    assert "Give one of --template" in cli("submit", "--template", "train", "job.yaml", code=2).err
    assert "name the template" in cli("templates", "show", code=2).err


def test_operators_import_for_all(cli, world, kept):
    found = cli("templates", "import", kept / "train.yaml", "--operators", "-o", "json", caller=world.operator).json
    assert found["tenant"] is None
    assert cli("templates", "-o", "name", caller=world.outsider).out == "train\n"
