"""What tests say in an agent's name is what a real agent says, field by field."""

from tests.messages import different
from tests.real_messages import ARTEFACTS, GPU, INVENTORY, LOGS, REPORTS, TELEMETRY

SAID = {
    "hello": INVENTORY | {"gpus": [GPU]},
    "report": REPORTS,
    "telemetry": TELEMETRY,
    "logs/together": LOGS,
    "artefacts": ARTEFACTS,
}
MEASURED = {"report": ("disk",), "telemetry": ("gpus", "host", "attempts")}
"""What differs from message to message: an agent's first reports come before it looked at its disk, and each telemetry has what
was measured in its seconds.
"""


def test_a_real_agents_messages_have_the_fields_that_tests_send(portal, node):
    node.start()  # the log of a job that ends at once is sent by itself
    key = portal.want(command="echo hello; echo kept > $BERTH_ARTEFACTS/file; sleep 2", gpus=[0])
    portal.wait_report(key, "ended")
    portal.wait_for(lambda: portal.disk and all(portal.said.get(path) for path in SAID))
    assert different(REPORTS["disk"], portal.disk) == []
    for path, ours in SAID.items():
        told = [real | {name: ours[name] for name in MEASURED.get(path, ())} for real in portal.said[path]]
        assert [found for real in told for found in different(ours, real, path)] == []
