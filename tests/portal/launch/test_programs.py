"""Arguments and environment of the programs that `./berth up` starts."""

from portal.launch.programs import agent_environment
from workers.agent.settings import SETTINGS, arguments_parser, settings_read, variable_of


def test_each_setting_of_an_agent_reaches_the_nodes_of_this_machine(monkeypatch):
    names = {variable_of(setting) for setting in SETTINGS if setting.name != "token"}
    for name in names:
        monkeypatch.setenv(name, "given")
    assert {name for name, value in agent_environment().items() if value == "given"} == names


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
