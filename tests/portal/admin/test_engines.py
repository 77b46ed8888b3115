"""The console attaches a partition of another scheduler, repeats the last words of its bridge, and detaches it."""

import shlex

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from portal.cluster.models import JoinToken
from portal.engines.models import Engine
from portal.people.tenants.models import AuditEvent
from research.workloads.partitions import DESCRIPTION, EXCHANGE
from tests.portal.admin.test_changes import do
from workers.bridge.settings import arguments_parser, settings_read

ADD = "admin:engines_engine_add"


def lines(page):
    html = page.content.decode()
    return [html.split(f'id="{name}-line">')[1].split("<")[0] for name in ("check", "bridge")]


def post(path, body, token):
    answer = Client().post(
        f"/api/bridge/v1/{path}",
        body,
        content_type="application/json",
        headers={"Authorization": f"Bearer {token}"},
    )
    assert answer.status_code < 300, answer.content
    return answer.json()


@pytest.fixture
def attached(console):
    """A partition, attached with the token of the line that the console shows."""
    _, line = lines(console.post(reverse(ADD), {"partition": "gpu", "gpus_max": 8}))
    token = post("attach", DESCRIPTION, shlex.split(line)[6])["token"]
    post("exchange", EXCHANGE | {"orders": []}, token)
    return Engine.objects.get()


def test_the_line_is_one_that_the_bridge_reads_and_is_shown_once(console, operator):
    page = console.post(reverse(ADD), {"partition": "gpu long", "gpus_max": 6})
    check, line = lines(page)
    assert check == f"{line} --check"
    assert line.startswith("./berth bridge slurm --join http://testserver --token berthjoin_")
    assert "no-store" in page.headers["Cache-Control"]
    found = settings_read(
        arguments_parser().parse_args([*shlex.split(line.replace("&#x27;", "'"))[2:], "--dir", "here"])
    )
    assert (found.partition, found.gpus_max, found.insecure) == ("gpu long", 6, True)
    made = JoinToken.objects.get()
    assert (made.node_name, made.uses_left, made.created_by) == ("", 1, operator)
    assert "berthjoin_" not in console.get(reverse(ADD)).content.decode()


def test_without_a_partition_no_token_is_made(console):
    page = console.post(reverse(ADD), {"partition": "", "gpus_max": 0}).content.decode()
    assert page.count('class="b-error"') == 2
    assert not JoinToken.objects.exists()


def test_its_page_says_what_the_last_exchange_said(console, attached):
    list_page = console.get(reverse("admin:engines_engine_changelist")).content.decode()
    for said in ("atlas/gpu", "attached", "22.05.8", "none"):
        assert said in list_page
    away = {"since": timezone.now().timestamp() - 60, "reason": "Unable to contact slurm controller"}
    Engine.objects.filter(pk=attached.pk).update(
        away_since=timezone.now(), away_reason=away["reason"], refused_at=timezone.now(), refused_reason="Invalid qos"
    )
    page = console.get(reverse("admin:engines_engine_change", args=[attached.pk])).content.decode()
    for said in ("not answering", away["reason"], "Invalid qos", "12 h", "300 s", "berth-pilot-"):
        assert said in page, said
    assert attached.token_digest not in page


def test_a_detached_partition_is_called_no_more_and_may_be_attached_again(console, attached):
    do(console, "engines_engine", "detach", attached)
    attached.refresh_from_db()
    assert attached.standing == "detached"
    event = AuditEvent.objects.first()
    assert (event.action, event.target, event.actor_name) == ("engine.detach", f"engine:{attached.pk}", "olga")
    assert f"engine:{attached.pk} (atlas/gpu)" in console.get("/admin/tenants/auditevent/").content.decode()
    page = console.get(reverse("admin:engines_engine_change", args=[attached.pk])).content.decode()
    assert "do/detach" not in page
    _, line = lines(console.post(reverse(ADD), {"partition": "gpu", "gpus_max": 8}))
    post("attach", DESCRIPTION, shlex.split(line)[6])
    attached.refresh_from_db()
    assert attached.standing == "attached"
