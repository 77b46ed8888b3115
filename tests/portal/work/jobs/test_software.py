"""A job's software: which descriptions are taken, what the node is told, and what is refused with the remedy."""

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from portal.cluster.models import Node
from portal.foundation.errors import BerthError
from portal.people.tenants.models import Tenant
from portal.work.jobs.models import Job
from portal.work.jobs.selectors import part_spec
from portal.work.jobs.software import (
    file_requirements,
    image_check,
    node_offers,
    software_check,
    software_need,
    software_words,
)

BUILDS = {"python": "3.11.2", "installer": "pip", "environments": ["torch"], "missing": {}}


IMAGE = "docker.io/pytorch/pytorch:2.4.0"


def refused(value, files=None):
    with pytest.raises(BerthError) as caught:
        software_check(value, files or {})
    return caught.value.code, caught.value.field


def test_each_way_to_say_it():
    assert software_check({}, {}) == {}
    assert software_check({"environment": "torch-2.3"}, {}) == {"environment": "torch-2.3"}
    assert software_check({"path": "/opt/venv/"}, {}) == {"path": "/opt/venv"}
    text = f"numpy==1.26.4 --hash=sha256:{'a' * 64} # why\r\n\r\n# a comment\ntorch @ https://a.example/torch.whl\n"
    assert software_check({"requirements": text}, {}) == {"requirements": text.replace("\r\n", "\n")}
    assert software_check({"image": IMAGE}, {}) == {"image": IMAGE}
    assert software_check({"image": f"registry:5000/a/b@sha256:{'0' * 64}"}, {})
    files = {"req/lock.txt": base64.b64encode(b"numpy\n").decode()}
    assert software_check({"requirements_file": "req/lock.txt"}, files) == {"requirements": "numpy\n"}


HOSTILE = {
    "two at once": ({"environment": "a", "path": "/b"}, "conflict", "software"),
    "another word": ({"conda": "x"}, None, None),
    "no object": ("numpy", None, "software"),
    "shell characters": ({"environment": "a;reboot"}, "bad_name", "software.environment"),
    "an option as a name": ({"environment": "--privileged"}, "bad_name", "software.environment"),
    "a name that leads up": ({"environment": "../x"}, "bad_name", "software.environment"),
    "a line end": ({"environment": "a\n"}, None, "software.environment"),
    "a relative path": ({"path": "venv"}, "path_escape", "software.path"),
    "a path that leads up": ({"path": "/opt/../root"}, "path_escape", "software.path"),
    "a second entry of PATH": ({"path": "/opt/a:/opt/b"}, "path_escape", "software.path"),
    "nothing": ({"requirements": " \n# only this\n"}, "blank", "software.requirements"),
    "10 000 packages": ({"requirements": "a\n" * 10_000}, "too_long", "software.requirements"),
    "too much text": ({"requirements": "a" * 70_000}, "too_long", "software.requirements"),
    "a missing file": ({"requirements_file": "requirements.txt"}, "unknown_file", "software.requirements_file"),
    "an image without its registry": ({"image": "pytorch/pytorch"}, "bad_image", "software.image"),
    "an option as an image": ({"image": "--bind=/"}, "bad_image", "software.image"),
    "a file as an image": ({"image": "/etc/passwd"}, "bad_image", "software.image"),
    "another transport": ({"image": "docker-archive:a.io/x"}, "bad_image", "software.image"),
    "an image with a query": ({"image": "a.io/x?y"}, "bad_image", "software.image"),
    "a list": ({"requirements": ["numpy"]}, "wrong_type", "software.requirements"),
}


def test_what_cannot_be_is_refused(subtests):
    for case, (value, code, field) in HOSTILE.items():
        with subtests.test(case=case):
            found = refused(value)
            assert code in {None, found[0]}
            assert field in {None, found[1]}


ELSEWHERE = "-r a.txt|-ra.txt|-c a|-e .|--editable=src|--requirement x|./a.whl|../a|/root/a|a/b.whl|.|file:///etc|x @ file:///e|-f a|--find-links https://a.example/b"


def test_requirements_that_read_other_files_are_refused(subtests):
    for line in ELSEWHERE.split("|"):
        with subtests.test(line=line):
            assert refused({"requirements": f"numpy\n  {line}\n"}) == ("not_self_contained", "software.requirements")


@given(st.dictionaries(st.text(max_size=8), st.one_of(st.none(), st.text(), st.integers()), max_size=3))
def test_whatever_is_sent_is_taken_in_normal_form_or_refused(value):
    try:
        found = software_check(value, {})
    except BerthError as error:
        assert error.detail
    else:
        assert software_check(found, {}) == found
        assert software_words(found)


def test_what_a_node_must_offer():
    assert node_offers(BUILDS) == {"build", "environment:torch"}
    assert node_offers({}) == node_offers({"installer": None}) == frozenset()
    assert software_need({"environment": "torch"}) == "environment:torch"
    assert software_need({"requirements": "a"}) == "build"
    assert node_offers({"installer": None, "images": "apptainer"}) == {"image"}
    assert software_need({"image": IMAGE}) == "image"
    assert software_need({"path": "/x"}) == software_need({}) == ""


@pytest.mark.django_db
def test_the_node_is_told_and_a_task_of_an_array_too(cluster):
    Node.objects.update(software=BUILDS)
    job = cluster.submit(gpus=0, software={"requirements": "tinypack==1.0"})
    assert (job.software_need, job.payload.software) == ("build", {"requirements": "tinypack==1.0"})
    spec = part_spec(node=cluster.node, key=cluster.start(job, gpus=0).key)
    assert spec["software"] == {"requirements": "tinypack==1.0"}
    cluster.submit(gpus=0, software={"environment": "torch"}, array={"size": 2})
    assert set(Job.objects.filter(array__isnull=False).values_list("software_need", flat=True)) == {"environment:torch"}


@pytest.mark.django_db
def test_what_no_node_offers_is_refused_with_what_there_is(cluster):
    for wanted, said in (({"requirements": "a"}, "install one"), ({"environment": "jax"}, "None is registered")):
        with pytest.raises(BerthError) as caught:
            cluster.submit(gpus=0, software=wanted)
        assert (caught.value.code, caught.value.field) == ("unknown_software", "software")
        assert said in caught.value.detail
    Node.objects.update(software=BUILDS)
    with pytest.raises(BerthError, match="There are: torch"):
        cluster.submit(gpus=0, software={"environment": "jax"})


@pytest.mark.parametrize(
    ("allowed", "image"),
    [
        ("docker.io/pytorch/*", IMAGE),
        ("  nvcr.io/*\n\n docker.io/pytorch/pytorch:* ", IMAGE),
        (IMAGE, IMAGE),
    ],
)
def test_an_image_that_a_pattern_allows_is_taken(allowed, image):
    image_check({"image": image}, tenant="vision", allowed=allowed)
    image_check({}, tenant="vision", allowed="")


@pytest.mark.parametrize("allowed", ["", "docker.io/pytorch", "docker.io/pytorch/pytorch:2.4.?", "[a-z]*", "*:latest"])
def test_an_image_that_no_pattern_allows_is_not(allowed):
    with pytest.raises(BerthError) as caught:
        image_check({"image": IMAGE}, tenant="vision", allowed=allowed)
    assert (caught.value.code, caught.value.field) == ("image_not_allowed", "software")


@pytest.mark.django_db
def test_an_image_needs_a_node_that_runs_them_and_a_tenant_that_may(cluster):
    with pytest.raises(BerthError, match="install Apptainer"):
        cluster.submit(gpus=0, software={"image": IMAGE})
    Node.objects.update(software=BUILDS | {"images": "apptainer"})
    with pytest.raises(BerthError, match="None is allowed yet"):
        cluster.submit(gpus=0, software={"image": IMAGE})
    Tenant.objects.update(images="docker.io/pytorch/*")
    job = cluster.submit(gpus=0, software={"image": IMAGE})
    assert (job.software_need, job.payload.software) == ("image", {"image": IMAGE})


@pytest.mark.parametrize("sign", ["\r", "\f", "\v", "\x85", "\u2028", "\x00"])
def test_a_file_that_is_one_comment_to_us_alone_is_refused(sign):
    """An old Mac's file that begins with a comment was all comment: the job ran without its packages, and nothing was said."""
    with pytest.raises(BerthError) as caught:
        file_requirements(f"# ours{sign}six{sign}")
    assert caught.value.code in {"control_character", "null_character"}
    assert file_requirements("# ours\n\n\t# none\r\n") == {}
