"""What the programs that `./berth up` starts are given."""

import pytest

from portal.launch.programs import agent_environment
from workers.agent.settings import arguments_parser, settings_read
from workers.agent.settings_list import SETTINGS


@pytest.mark.parametrize("setting", [s for s in SETTINGS if s.name != "token"], ids=lambda setting: setting.name)
def test_each_setting_of_an_agent_reaches_the_nodes_of_this_machine(monkeypatch, setting):
    monkeypatch.setenv(setting.env, "given")
    assert agent_environment()[setting.env] == "given"


def test_who_the_node_is_its_command_line_says(monkeypatch, tmp_path):
    for name in ("URL", "NAME", "DIR"):
        monkeypatch.setenv(f"BERTH_AGENT_{name}", "/another")
    given = ["--url", "http://127.0.0.1:1", "--name", "own", "--dir", str(tmp_path)]
    found = settings_read(arguments_parser().parse_args(given), agent_environment())
    assert (found.url, found.name, found.dir) == ("http://127.0.0.1:1", "own", tmp_path)


def test_no_secret_of_the_portal_nor_another_berths_token_reaches_an_agent(monkeypatch):
    for name in ("DATABASE_URL", "REDIS_URL", "BERTH_SECRET_KEY", "BERTH_AGENT_TOKEN"):
        monkeypatch.setenv(name, "secret")
    assert "secret" not in agent_environment().values()
    assert agent_environment("berthjoin_x")["BERTH_AGENT_TOKEN"] == "berthjoin_x"
