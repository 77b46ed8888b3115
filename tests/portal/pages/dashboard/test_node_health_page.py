"""A node's page, its REST answer and `./berth manage node` on its health and its GPUs, for each reader."""

import io
import re

import pytest
from django.core.management import CommandError, call_command
from django.test import Client
from django.utils import timezone

from portal.cluster.models import Gpu, Node
from portal.cluster.services.health import gpu_cordon, node_health_take
from portal.pages.dashboard.board.facts import facts_read
from portal.pages.dashboard.cluster.hardware import throttle_words
from tests.portal import given

pytestmark = pytest.mark.django_db
SAMPLE = {
    "utilisation": 41.0,
    "memory_mib": 1024.0,
    "power_w": 350.4,
    "energy_j": 7.2e6,
    "temperature_c": 61.0,
    "pcie_tx_mb_s": 12.0,
    "throttle": 0x44,
    "ecc_corrected": 3.0,
    "ecc_uncorrected": 0.0,
}


@pytest.fixture
def unwell(cluster):
    now = timezone.now().timestamp()
    Node.objects.update(live={"at": now, "gpus": {"0": SAMPLE}, "host": {}, "attempts": {}})
    cluster.node.refresh_from_db()
    findings = [
        {"subject": "gpu:1", "check": "xid 79", "level": "fail", "detail": "Xid 79: it fell.", "remedy": "Reboot it."}
    ]
    outside = [{"gpu": 2, "pid": 4711, "name": "stranger.py", "memory_mib": 1.0}]
    node_health_take(node=cluster.node, findings=findings, outside=outside)
    return cluster


def page(user, path="/cluster/n1/"):
    client = Client()
    client.force_login(user)
    answer = client.get(path)
    assert answer.status_code == 200
    return answer.content.decode()


def test_everybody_sees_what_is_wrong_and_operators_what_to_do(unwell):
    plain, operator = page(unwell.owner), page(given.operator())
    for html in (plain, operator):
        assert "Xid 79: it fell." in html
        assert "out: used by a process outside Berth" in html
        assert html.count('class="b-gpu b-out"') == 2
        assert "cordoned" not in re.sub("<[^>]*>", "", html)
    assert "process 4711" not in plain
    assert "stranger.py" not in plain
    assert "process 4711 (stranger.py)" in operator
    assert 'formaction="/cluster/n1/gpu-resume"' in operator
    assert "gpu-resume" not in plain
    for fragment in ("now", "gpus"):
        assert "Xid 79" in page(unwell.owner, f"/cluster/n1/fragments/{fragment}")


def test_the_figures_of_a_gpu_stand_there_and_a_column_that_no_driver_fills_is_absent(unwell):
    html = page(unwell.owner, "/cluster/n1/fragments/gpus")
    table, _, more = html.partition("<strong>More figures")
    heads = re.findall(r"<th [^>]*>([^<]*)", table)
    assert heads == ["GPU", "Job", "busy", "memory", "heat", "power"]
    cells = [re.sub("<[^>]*>", "", each) for each in re.findall(r"<td.*?</td>", table)]
    assert cells[:6] == ["0", "free", "41\u00a0%", "1.0 GB", "61 °C", "350 W"]
    assert cells[8:12] == ["–"] * 4, "a single missing figure is a dash"
    for text in ("2.0 kWh", "12 MB/s", "power limit, heat, by hardware"):
        assert text in more, text
    assert "clock" not in more
    assert "received" not in more


def test_what_is_closed_is_not_counted_as_free(unwell):
    facts = facts_read()
    assert (facts.idle(0)[0], facts.closed) == (2, [False, True, True, False])
    assert "2 GPUs are free." in page(unwell.owner, "/cluster/")
    assert "GPU 1 and 2 are out." in page(unwell.owner, "/cluster/n1/")


def test_rest_tells_the_findings_the_cordon_and_the_sample(unwell):
    client = Client()
    client.force_login(unwell.owner)
    answer = client.get("/api/v1/nodes/n1").json()
    assert answer["findings"][0]["check"] == "xid 79"
    first, second, third, _ = answer["gpu_list"]
    assert (first["sample"], second["cordon_remedy"]) == (SAMPLE, "Reboot it.")
    assert third["outside_since"] is not None


def test_an_operator_s_page_cordons_and_resumes(unwell):
    client = Client()
    client.force_login(given.operator())
    client.post("/cluster/n1/gpu-cordon", {"index": "3", "reason": "a bad fan"})
    client.post("/cluster/n1/gpu-resume", {"resume": "1"})
    state = {gpu.index: gpu.closed_because for gpu in Gpu.objects.all()}
    assert state == {0: "", 1: "", 2: "used by a process outside Berth", 3: "cordoned: a bad fan"}
    assert client.post("/cluster/n1/gpu-cordon", {"index": "x", "reason": "a"}).status_code == 404


def test_the_command_lists_what_is_not_well_and_changes_it(unwell):
    given.node_make("n2")

    def told(*arguments, **options):
        out = io.StringIO()
        call_command("node", *arguments, stdout=out, **options)
        return out.getvalue()

    listed = told()
    assert "n1  up" in listed
    assert "GPU 1  cordoned: Xid 79: it fell. Reboot it." in listed
    assert "n2" not in listed, "nothing is wrong there"
    assert "a bad fan" in told("n1", "--cordon-gpu", "0", "--reason", "a bad fan")
    assert "a bad fan" not in told("n1", "--resume-gpu", "0")
    told("n1", "--heartbeat", "0.05")
    assert Node.objects.get(name="n1").heartbeat_s == 0.05
    assert "heartbeat 0.05 s" in told("n1")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("n9",), "There is no node n9"),
        (("n1", "--cordon-gpu", "0"), "Say why"),
        (("n1", "--heartbeat", "0"), "between 0.001 and 10 s"),
        (("n1", "--cordon-gpu", "7", "--reason", "a fan"), r"n1 has no GPU 7; it has 0, 1, 2, 3\."),
        (("--drain", "--reason", "a fan"), "Say which node"),
        (("n1", "--reason", "a fan"), "--reason belongs to"),
    ],
)
def test_the_command_says_in_one_line_what_it_cannot_do(unwell, arguments, says):
    before = list(Node.objects.values())
    with pytest.raises(CommandError, match=says) as refused:
        call_command("node", *arguments, stdout=io.StringIO())
    assert refused.value.returncode == 2
    assert list(Node.objects.values()) == before


@pytest.mark.django_db
def test_the_command_says_when_all_is_well():
    given.node_make("n1")
    out = io.StringIO()
    call_command("node", stdout=out)
    assert out.getvalue() == "Nodes: 1. All are up, and nothing is closed or found.\n"


def test_a_cordon_without_a_reason_by_hand_is_refused_on_the_page(unwell):
    client = Client()
    client.force_login(given.operator())
    client.post("/cluster/n1/gpu-cordon", {"index": "0", "reason": " "})
    assert Gpu.objects.get(index=0).cordoned_at is None
    gpu_cordon(node=unwell.node, index=0, actor=None, reason="dust")
    assert Gpu.objects.get(index=0).closed_because == "cordoned: dust"


@pytest.mark.parametrize(
    ("bits", "words"), [(None, None), (0.0, ""), (1.0, ""), (4.0, "power limit"), (0x88, "hardware, power brake")]
)
def test_why_clocks_are_low(bits, words):
    assert throttle_words(bits) == words
