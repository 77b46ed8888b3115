"""What happens to a job is told by a real mail server and a real receiver: once, to who asked, and not in a flood (story 14)."""

import hashlib
import hmac
import smtplib
from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from portal.people.tenants.models import Membership, Tenant
from portal.work.jobs.models import Attempt, Job
from portal.work.notifications import sending
from portal.work.notifications.choosing import hook_make, wishes_set
from portal.work.notifications.models import Happening, Hook, Item, Message
from portal.work.notifications.noting import times_note
from portal.work.notifications.sending import deliver
from portal.work.notifications.spreading import happenings_spread
from portal.work.notifications.words import call_of
from tests.portal import given
from tests.portal.work.notifications.receivers import http_server, mail_server

pytestmark = pytest.mark.django_db


@pytest.fixture
def mails(monkeypatch):
    with mail_server() as mails:
        monkeypatch.setenv("BERTH_SMTP_HOST", "127.0.0.1")
        monkeypatch.setenv("BERTH_SMTP_PORT", str(mails.port))
        monkeypatch.setenv("BERTH_SMTP_TLS", "none")
        yield mails


@pytest.fixture
def calls(monkeypatch):
    monkeypatch.setenv("BERTH_WEBHOOK_NETWORKS", "127.0.0.0/8")
    with http_server() as calls:
        yield calls


@pytest.fixture
def lena(cluster):
    cluster.owner.email = "lena@example.org"
    cluster.owner.save()
    return cluster.owner


@pytest.fixture
def manager(cluster):
    return given.member("vera", cluster.tenant, "manager")


def due_now():
    Message.objects.filter(due_at__isnull=False).update(due_at=timezone.now())
    Hook.objects.update(rests_until=None)


# ---- mail ------------------------------------------------------------------------------------------------------------


def test_where_nothing_is_to_be_told_a_pass_writes_nothing(cluster):
    cluster.submit()
    with CaptureQueriesContext(connection) as asked:
        assert deliver() == 0
    assert [each["sql"].split()[0] for each in asked] == ["SELECT"] * 3


def test_a_mail_comes_when_a_job_ends_and_only_once(cluster, lena, mails):
    wishes_set(user=lena, mail=["failed"], waits_h=24)
    cluster.end(cluster.running(name="night-run"), exit_code=3)
    cluster.end(cluster.running(name="well"))
    assert deliver() == 1
    assert deliver() == 0
    [(to, mail)] = mails.taken
    assert to == ["lena@example.org"]
    assert mail["Subject"] == f"[Berth] Job {Job.objects.get(name='night-run').number} night-run failed"
    assert "exit code 3" in mail.get_content()
    assert mail.get_content_type() == "text/plain"
    assert str(Message.objects.get().pk) in mail["Message-ID"]
    assert not Happening.objects.exists()


@pytest.mark.parametrize(
    ("end", "says"),
    [
        ({"exit_code": 3}, "failed, exit code 3."),
        ({"signal": 11}, "failed, signal 11."),
        ({"reason": "out_of_memory", "detail": "64 of 64 MiB"}, "out of memory, signal 9: 64 of 64 MiB."),
    ],
)
def test_a_mail_tells_how_the_command_ended_and_says_it_once(cluster, lena, mails, end, says):
    wishes_set(user=lena, mail=["failed"], waits_h=24)
    cluster.end(cluster.running(name="night-run"), **end)
    deliver()
    [(_, mail)] = mails.taken
    assert mail.get_content().splitlines()[0].endswith(f"failed: {says}")


def test_a_webhook_tells_exit_code_and_signal(cluster, lena):
    wishes_set(user=lena, mail=["failed"], waits_h=24)
    cluster.end(cluster.running(), signal=9)
    happenings_spread()
    told = call_of(Message(), list(Item.objects.all()))["events"][0]
    assert (told["detail"], told["job"]["exit_code"], told["job"]["signal"]) == ("failed, signal 9", None, 9)


def test_a_start_is_told_and_nothing_to_who_asked_for_nothing(cluster, lena, mails):
    cluster.running(name="first")
    assert deliver() == 0
    wishes_set(user=lena, mail=["started", "ended"], waits_h=24)
    cluster.end(cluster.running(name="second"))
    assert deliver() == 2
    assert sorted(mail["Subject"].rpartition("second ")[2] for _, mail in mails.taken) == ["ended", "runs now"]


def test_who_left_the_tenant_is_told_nothing_more(cluster, lena, mails):
    wishes_set(user=lena, mail=["failed"], waits_h=24)
    attempt = cluster.running()
    Membership.objects.filter(user=lena).delete()
    cluster.end(attempt, exit_code=1)
    assert deliver() == 0
    assert not Item.objects.exists()


def test_a_thousand_failures_are_few_mails(cluster, lena, mails, monkeypatch):
    monkeypatch.setenv("BERTH_MAILS_PER_HOUR", "2")
    wishes_set(user=lena, mail=["failed"], waits_h=24)
    array = cluster.submit(command="false", array={"size": 1000})
    task = cluster.submit(name="task")
    now = timezone.now()
    Job.objects.filter(pk=task.pk).update(array=array, array_index=4000)
    Happening.objects.bulk_create(Happening(job=task, what="failed", mark=f"1-{n}", at=now) for n in range(1000))
    assert deliver() == 1
    Happening.objects.bulk_create(Happening(job=task, what="failed", mark=f"2-{n}", at=now) for n in range(4))
    assert deliver() == 1
    Happening.objects.create(job=task, what="failed", mark="3", at=now)
    assert deliver() == 0
    assert [mail["Subject"] for _, mail in mails.taken] == [
        "[Berth] 1,000 things about your jobs",
        "[Berth] 4 things about your jobs",
    ]
    text = mails.taken[0][1].get_content()
    assert "and 950 more" in text
    assert text.count("failed") < 60
    Message.objects.update(made_at=now - timedelta(hours=2))
    assert deliver() == 1, "what waited is told when there is room again"


def test_single_tasks_are_told_of_only_where_they_fail(cluster, lena, mails):
    wishes_set(user=lena, mail=["started", "ended", "failed"], waits_h=24)
    array = cluster.submit(array={"size": 2})
    tasks = list(Job.objects.filter(array=array))
    cluster.end(cluster.start(tasks[0]))
    cluster.end(cluster.start(tasks[1]), exit_code=1)
    deliver()
    told = sorted(
        mail["Subject"].split(" ", 3)[2] + " " + mail["Subject"].rpartition(" ")[2] for _, mail in mails.taken
    )
    assert f"{tasks[1].number} failed" in told
    assert not [each for each in told if each.startswith(f"{tasks[0].number} ")]
    assert f"{array.pk} failed" in told


def test_a_name_is_no_header_and_no_markup(cluster, lena, mails):
    wishes_set(user=lena, mail=["ended"], waits_h=24)
    attempt = cluster.running(name="x")
    Job.objects.filter(pk=attempt.job_id).update(name="evil\r\nBcc: all@example.org <script>alert(1)</script>")
    cluster.end(attempt)
    assert deliver() == 1
    [(to, mail)] = mails.taken
    assert to == ["lena@example.org"]
    assert mail["Bcc"] is None
    assert "evil Bcc: all@example.org" in mail["Subject"]
    assert mail.get_content_type() == "text/plain"


def test_a_mail_that_is_not_taken_is_tried_again_later_each_time_and_then_given_up(cluster, lena, mails):
    wishes_set(user=lena, mail=["ended"], waits_h=24)
    mails.refuse = "451 come again"
    cluster.end(cluster.running())
    rests = []
    for _ in range(sending.TRIES):
        assert deliver() == 0
        message = Message.objects.get()
        if message.due_at:
            rests.append(round((message.due_at - timezone.now()).total_seconds(), -1))
        due_now()
    assert message.state == "given-up"
    assert rests == sorted(rests)
    assert (rests[0], rests[-1]) == (60, 3600)


def test_without_a_mail_server_messages_wait_for_it(cluster, lena, mails, monkeypatch):
    wishes_set(user=lena, mail=["ended"], waits_h=24)
    monkeypatch.setenv("BERTH_SMTP_PORT", "1")
    cluster.end(cluster.running())
    assert deliver() == 0
    monkeypatch.setenv("BERTH_SMTP_PORT", str(mails.port))
    due_now()
    assert deliver() == 1


def test_a_process_killed_after_sending_sends_the_same_id_again(cluster, lena, mails, monkeypatch):
    wishes_set(user=lena, mail=["ended"], waits_h=24)
    cluster.end(cluster.running())

    def killed(_message):
        raise KeyboardInterrupt

    monkeypatch.setattr(sending, "_sent", killed)
    with pytest.raises(KeyboardInterrupt):
        deliver()
    monkeypatch.undo()
    monkeypatch.setenv("BERTH_SMTP_HOST", "127.0.0.1")
    monkeypatch.setenv("BERTH_SMTP_PORT", str(mails.port))
    monkeypatch.setenv("BERTH_SMTP_TLS", "none")
    assert deliver() == 1
    assert len({mail["Message-ID"] for _, mail in mails.taken}) == 1 < len(mails.taken)


def test_the_password_is_read_from_its_file_and_a_wrong_setting_loses_nothing(cluster, lena, mails, monkeypatch):
    wishes_set(user=lena, mail=["ended"], waits_h=24)
    monkeypatch.setenv("BERTH_SMTP_PASSWORD_FILE", "/nowhere/password")
    cluster.end(cluster.running())
    assert deliver() == 0
    assert Message.objects.get().state == "waiting"


# ---- time ------------------------------------------------------------------------------------------------------------


def test_a_long_wait_is_told_once(cluster, lena, mails):
    wishes_set(user=lena, mail=["waits"], waits_h=2)
    long, short = cluster.submit(name="long"), cluster.submit(name="short")
    Job.objects.filter(pk=long.pk).update(waiting_since=timezone.now() - timedelta(hours=3))
    Job.objects.filter(pk=short.pk).update(waiting_since=timezone.now() - timedelta(hours=1))
    for _ in range(3):
        times_note()
        deliver()
    assert [mail["Subject"] for _, mail in mails.taken] == [f"[Berth] Job {long.pk} long waits long"]


def test_a_near_time_limit_is_told_once_and_again_after_it_was_extended(cluster, lena, mails):
    wishes_set(user=lena, mail=["limit"], waits_h=2)
    attempt = cluster.running(name="train", time_limit_s=36000)
    times_note()
    assert deliver() == 0
    Attempt.objects.update(started_at=timezone.now() - timedelta(seconds=35000))
    for _ in range(2):
        times_note()
        deliver()
    [(_, mail)] = mails.taken
    assert mail["Subject"].endswith("is near its time limit")
    assert "extend" in mail.get_content()
    Job.objects.filter(pk=attempt.job_id).update(time_limit_s=36500)
    times_note()
    assert deliver() == 1


# ---- webhooks --------------------------------------------------------------------------------------------------------


def test_a_tenants_webhook_is_signed_and_tells_its_tenants_jobs_alone(cluster, manager, calls):
    _, secret = hook_make(actor=manager, tenant=cluster.tenant, url=calls.url, events=["ended"])
    other = Tenant.objects.create(name="zebra")
    otto = given.member("otto", other)
    cluster.end(cluster.running(name="ours"))
    cluster.end(cluster.start(cluster.submit(user=otto, name="theirs")))
    assert deliver() == 1
    [(path, headers, body)] = calls.taken
    told = calls.bodies()[0]
    assert path == "/hook"
    assert [(each["event"], each["job"]["name"], each["job"]["state"]) for each in told["events"]] == [
        ("ended", "ours", "COMPLETED")
    ]
    assert told["id"] == headers["Berth-Delivery"]
    signed = headers["Berth-Timestamp"].encode() + b"." + body
    expected = hmac.new(secret.encode(), signed, hashlib.sha256).hexdigest()
    assert headers["Berth-Signature"] == f"v1={expected}"
    assert secret not in str(list(Hook.objects.values())), "it is sealed"


def test_ten_thousand_events_are_few_calls(cluster, manager, calls):
    hook_make(actor=manager, tenant=cluster.tenant, url=calls.url, events=["failed"])
    job, now = cluster.submit(), timezone.now()
    Happening.objects.bulk_create(Happening(job=job, what="failed", mark=str(n), at=now) for n in range(1200))
    while deliver():
        pass
    assert [len(body["events"]) for body in calls.bodies()] == [500, 500, 200]


def test_a_receiver_that_fails_rests_and_hears_the_same_id_again(cluster, manager, calls):
    hook_make(actor=manager, tenant=cluster.tenant, url=calls.url, events=["ended"])
    calls.status = 500
    cluster.end(cluster.running())
    assert deliver() == 0
    assert deliver() == 0
    assert len(calls.taken) == 1, "it rests"
    assert Hook.objects.get().last_answer == "500"
    calls.status = 204
    due_now()
    assert deliver() == 1
    assert len({body["id"] for body in calls.bodies()}) == 1
    assert Hook.objects.get().failures == 0


def test_one_that_fails_for_long_is_switched_off(cluster, manager, calls, monkeypatch):
    monkeypatch.setattr(sending, "HOOK_FAILURES", 2)
    hook_make(actor=manager, tenant=cluster.tenant, url=calls.url, events=["ended"])
    calls.status = 500
    cluster.end(cluster.running())
    for _ in range(3):
        deliver()
        due_now()
    assert not Hook.objects.get().is_active
    assert len(calls.taken) == 2


def test_no_redirect_is_followed(cluster, manager, calls):
    hook_make(actor=manager, tenant=cluster.tenant, url=calls.url, events=["ended"])
    calls.status, calls.headers = 302, {"Location": f"{calls.url}/elsewhere"}
    cluster.end(cluster.running())
    assert deliver() == 0
    assert [path for path, *_ in calls.taken] == ["/hook"]


def test_a_receiver_that_trickles_keeps_nobody_waiting(cluster, manager, calls, monkeypatch):
    monkeypatch.setattr("portal.work.notifications.guarded.LIMIT_S", 1.0)
    with http_server(slow=True) as slow:
        for _ in range(3):
            hook_make(actor=manager, tenant=cluster.tenant, url=slow.url, events=["ended"])
        hook_make(actor=cluster.owner, url=calls.url, events=["ended"])
        cluster.end(cluster.running())
        assert deliver() == 1
        assert len(calls.taken) == 1
        assert {hook.last_answer for hook in Hook.objects.filter(tenant=cluster.tenant)} == {"no answer in time"}


def test_only_one_process_sends(cluster, lena, mails, monkeypatch):
    wishes_set(user=lena, mail=["ended"], waits_h=24)
    cluster.end(cluster.running())
    inner = []
    original = sending._mails_send
    monkeypatch.setattr(sending, "_mails_send", lambda: (inner.append(deliver()), original())[1])
    assert deliver() == 1
    assert inner == [None]


def test_a_mail_server_that_goes_in_the_middle_loses_nothing(cluster, lena, mails, monkeypatch):
    wishes_set(user=lena, mail=["ended"], waits_h=24)
    for _ in range(2):
        cluster.end(cluster.running())
    sent = sending.mail_send

    def breaks(connection, **told):
        monkeypatch.setattr(sending, "mail_send", sent)
        raise smtplib.SMTPServerDisconnected("gone")

    monkeypatch.setattr(sending, "mail_send", breaks)
    assert deliver() == 1
    due_now()
    assert deliver() == 1
    assert len(mails.taken) == 2
