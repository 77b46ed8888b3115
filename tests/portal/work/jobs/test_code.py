"""Where a job's code comes from: what is refused, what a node is told, and the commit that later attempts keep."""

import pytest

from portal.cluster.models import Node
from portal.foundation.errors import BerthError
from portal.work.jobs.description import description_parse
from portal.work.jobs.models import Attempt, Job
from portal.work.jobs.selectors import part_spec
from portal.work.jobs.software import need_check, node_offers, software_need
from portal.work.secrets.services import secret_set
from tests.portal.foundation.api.conftest import refusal, unchanged, world  # noqa: F401 - fixtures
from tests.portal.given import node_make

URL = "https://host.example/lab/aerial.git"
FIRST, SECOND = "a" * 40, "b" * 40


def parsed(code, **more):
    return description_parse({"command": "true", "code": code, **more})


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (URL, URL),
        ("ssh://git@host:2222/lab/a.git", "ssh://git@host:2222/lab/a.git"),
        ("git@host:lab/a.git", "ssh://git@host/lab/a.git"),
        ("https://[::1]:8443/a", "https://[::1]:8443/a"),
    ],
)
def test_a_url_in_normal_form(given, kept):
    assert parsed({"git": given}).code == {"git": kept, "ref": "HEAD", "secret": "", "submodules": False}


WRONG_URLS = [
    ("https://lena:pass-word@host/a", "credentials_in_url"),
    ("https://token@host/a", "credentials_in_url"),
    ("ssh://git:pass-word@host/a", "credentials_in_url"),
    ("http://host/a", "scheme_not_allowed"),
    ("file:///etc", "scheme_not_allowed"),
    ("/etc", "bad_url"),
    ("../a", "bad_url"),
    ("ext::sh -c id", "bad_url"),
    ("--upload-pack=id", "bad_url"),
    ("https://-oProxyCommand=id/a", "bad_url"),
    ("ssh://-oProxyCommand=id/a", "bad_url"),
    ("git@-oProxyCommand=id:a", "bad_url"),
    ("https://host/a b", "bad_url"),
    ("https://host/a?x=1", "bad_url"),
    ("https://host/a\nb", "control_character"),
    ("https://host/../a", "path_escape"),
    ("gopher://host/a", "bad_url"),
    ("https:///a", "bad_url"),
    ("https://host", "bad_url"),
    (7, "wrong_type"),
    ("https://host/" + "a" * 500, "too_long"),
]


def test_a_url_that_is_none_or_holds_a_password(subtests):
    for url, code in WRONG_URLS:
        with subtests.test(url=url):
            with pytest.raises(BerthError) as refused:
                parsed({"git": url})
            assert (refused.value.code, refused.value.field) == (code, "code.git")
            assert "pass-word" not in refused.value.detail


REFUSED = [
    ({}, {}, "required", "code"),
    ({"git": URL, "path": "/shared"}, {}, "conflict", "code"),
    ({"git": URL, "depth": 1}, {}, "unknown_field", "code"),
    ({"path": "/shared", "ref": "main"}, {}, "unknown_field", "code"),
    ({"git": URL, "ref": "--upload-pack=id"}, {}, "bad_ref", "code.ref"),
    ({"git": URL, "ref": "a..b"}, {}, "bad_ref", "code.ref"),
    ({"git": URL, "ref": "a:b"}, {}, "bad_ref", "code.ref"),
    ({"git": URL, "ref": "+a"}, {}, "bad_ref", "code.ref"),
    ({"git": URL, "submodules": "yes"}, {}, "wrong_type", "code.submodules"),
    ({"git": URL}, {"workdir": "/shared"}, "conflict", "working_directory"),
    ({"path": "shared"}, {}, "path_escape", "code.path"),
    ({"path": "/shared/../etc"}, {}, "path_escape", "code.path"),
    ({"path": "/sharedness"}, {}, "path_not_allowed", "code.path"),
    ({"path": "/shared"}, {"workdir": "/shared/x"}, "conflict", "working_directory"),
    ({"path": "/shared"}, {"software": {"image": "docker.io/a/b:1"}}, "conflict", "code"),
    ({"path": "/shared"}, {"artefacts": ["*.pt"]}, "not_with_absolute_directory", "artefacts"),
]


def test_what_is_refused(monkeypatch, subtests):
    for code, more, error, field in REFUSED:
        with subtests.test(code=code, more=more):
            monkeypatch.setenv("BERTH_CODE_ROOTS", "/shared")
            with pytest.raises(BerthError) as refused:
                parsed(code, **more)
            assert (refused.value.code, refused.value.field) == (error, field)


def test_the_operator_opens_ways_and_directories(monkeypatch):
    with pytest.raises(BerthError, match="No directory on the nodes is opened for code yet"):
        parsed({"path": "/shared"})
    monkeypatch.setenv("BERTH_CODE_ROOTS", "/shared/, /data")
    monkeypatch.setenv("BERTH_GIT_SCHEMES", "https,http,file")
    assert parsed({"path": "/shared//lena/"}, workdir="sub").working_directory == "/shared/lena/sub"
    assert parsed({"path": "/data"}).working_directory == "/data"
    assert [parsed({"git": url}).code["git"] for url in ("http://h/a", "file:///srv/a")] == [
        "http://h/a",
        "file:///srv/a",
    ]
    with pytest.raises(BerthError, match="by https or http or file here"):
        parsed({"git": "ssh://h/a"})


def test_nodes_with_git_are_needed_beside_what_else_is():
    with_git = {"installer": "uv", "environments": ["torch"], "git": True}
    assert software_need({}, git=True) in node_offers(with_git)
    assert software_need({"environment": "torch"}, git=True) in node_offers(with_git)
    assert software_need({"requirements": "a"}, git=True) not in node_offers({"installer": "uv"})
    with pytest.raises(BerthError) as none:
        need_check("git", lambda: [{"installer": "uv"}])
    assert (none.value.code, none.value.field) == ("no_git", "code")
    with pytest.raises(BerthError) as elsewhere:
        need_check("build+git", lambda: [{"installer": "uv"}, {"git": True}])
    assert elsewhere.value.code == "no_git"
    with pytest.raises(BerthError, match="environment named jax"):
        need_check("environment:jax+git", lambda: [with_git])


@pytest.mark.django_db
def test_the_first_commit_is_the_job_s_and_its_later_attempts_get_it(cluster):
    secret_set(actor=cluster.owner, tenant=cluster.tenant, name="gitlab", value="glpat-012345")
    code = {"git": URL, "ref": "main", "secret": "gitlab"}
    Node.objects.update(software={"git": True})
    attempt = cluster.started(code=code, restartable=True, retries=1)
    spec = part_spec(node=cluster.node, key=attempt.key)
    told = {"git": URL, "ref": "main", "submodules": False, "schemes": ["https", "ssh"]}
    assert (spec["code"], spec["secrets"], spec["code_roots"]) == (told, True, None)
    assert Job.objects.get().software_need == "git"
    cluster.report(attempt, "running", pid=1, commit=FIRST)
    cluster.end(attempt, exit_code=1)
    again = cluster.start(Job.objects.get())
    assert part_spec(node=cluster.node, key=again.key)["code"]["ref"] == FIRST
    cluster.report(again, "running", pid=2, commit=FIRST)
    assert list(Attempt.objects.order_by("epoch").values_list("commit", flat=True)) == [FIRST, FIRST]
    assert Job.objects.get().payload.code["commit"] == FIRST


@pytest.mark.django_db
def test_parts_that_fetch_different_commits_do_not_run_together(cluster):
    other = node_make("n2")
    Node.objects.update(software={"git": True})
    attempt = cluster.started(cluster.node, other, code={"git": URL})
    cluster.report(attempt, "running", rank=0, pid=1, commit=FIRST)
    answer = cluster.report(attempt, "running", rank=1, pid=2, commit=SECOND, holding=[])
    assert answer["refused"] == []
    attempt.refresh_from_db()
    assert (attempt.commit, attempt.stop_reason) == (FIRST, "partner")
    assert "different commits" in attempt.end_detail


@pytest.mark.django_db
def test_rest_and_the_form_show_code_and_take_it_again(world):  # noqa: F811
    Node.objects.update(software={"git": True})
    job = world.owner.submit(code={"git": URL, "ref": "main"})
    assert job["code"] == {"git": URL, "ref": "main", "secret": "", "submodules": False, "commit": None, "path": None}
    refused = world.owner("POST", "/jobs", {"command": "true", "code": {"git": "https://a:b@host/a"}})
    refusal(refused, 400, "credentials_in_url", "code.git")
    assert world.owner.submit()["code"] is None
