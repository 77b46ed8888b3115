"""What a node offers, what names an environment, and what is refused."""

from __future__ import annotations

import pytest

from workers.environments.offer import Offer, OfferError, index_options, named_parse, offer_find, offer_with
from workers.environments.plan import PlanError, environment_hash, software_plan

ABOUT = {"version": "3.11.2", "implementation": "cpython-311", "platform": "linux-x86_64-glibc-2.36"}


def offer(tmp_path, **more) -> Offer:
    return Offer(
        tmp_path, **({"about": ABOUT, "installer": "pip", "program": ("pip",), "python": "/usr/bin/python3"} | more)
    )


def test_this_machine_builds_with_what_it_has(tmp_path):
    found = offer_find(tmp_path)
    assert found.installer in {"uv", "pip"}
    assert found.to_wire()["python"].startswith("3.")
    assert set(found.missing) <= {"image"}


def test_a_node_with_neither_uv_nor_a_python_says_the_remedy(tmp_path):
    found = offer_find(tmp_path, python=tmp_path / "none", environ={"PATH": str(tmp_path)})
    assert found.to_wire()["installer"] is None
    assert "--environments-python" in found.missing["build"]
    with pytest.raises(PlanError, match="--environments-python"):
        software_plan({"requirements": "a"}, found, 1)


def test_uv_on_the_path_is_taken(tmp_path):
    uv = tmp_path / "uv"
    uv.write_text("#!/bin/sh\n")
    uv.chmod(0o755)
    found = offer_find(tmp_path, environ={"PATH": str(tmp_path)})
    assert (found.installer, found.program) == ("uv", (str(uv),))


def test_named_environments_are_read_and_checked(tmp_path):
    assert named_parse("") == {}
    (tmp_path / "torch/bin").mkdir(parents=True)
    (tmp_path / "torch/bin/python").touch()
    found = offer_find(tmp_path, named=f"torch={tmp_path}/torch, gone={tmp_path}/gone")
    assert found.to_wire()["environments"] == ["torch"]
    assert "has no bin/python" in found.missing["environment:gone"]
    for wrong in ("a b=/x", "x=rel", "x=/a,x=/b", "=/a", "../x=/a"):
        with pytest.raises(OfferError, match="--environments"):
            named_parse(wrong)


def test_what_operators_name_for_all_nodes_is_looked_for_beside_the_nodes_own(tmp_path):
    for name in ("own", "torch", "late", "closed/in"):
        (tmp_path / name / "bin").mkdir(parents=True)
        (tmp_path / name / "bin/python").touch()
    (tmp_path / "link").symlink_to(tmp_path / "closed/in")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/python").touch()
    wanted = {name: str(tmp_path / name) for name in ("torch", "gone", "link")}
    wanted |= {"own": str(tmp_path / "late"), "above": str(tmp_path), "bad name": "/opt", "relative": "opt"}
    base = offer(tmp_path, named={"own": tmp_path / "own"})
    found = offer_with(base, wanted, closed=[tmp_path / "closed"])
    assert found.named == {"own": tmp_path / "own", "torch": tmp_path / "torch"}, "the node's own name comes first"
    said = {name.partition(":")[2]: why for name, why in found.missing.items()}
    assert "has no bin/python" in said["gone"]
    assert "closed to jobs" in said["link"]
    assert "closed to jobs" in said["above"]
    assert {"bad name", "relative"} < set(said)
    assert offer_with(base, {}) == base


def test_wheels_without_an_index_ask_no_network(tmp_path):
    assert index_options(None, tmp_path) == ("--no-index", "--find-links", str(tmp_path))
    assert index_options("https://i.example", tmp_path) == (
        "--index-url",
        "https://i.example",
        "--find-links",
        str(tmp_path),
    )
    assert index_options(None, None) == ()


def test_the_name_of_an_environment_is_all_that_decides_what_is_in_it(tmp_path):
    base = environment_hash("numpy==1\ntorch\n", offer(tmp_path))
    assert environment_hash("# ours\nnumpy==1   # why\r\n\n torch", offer(tmp_path)) == base
    others = [
        environment_hash("numpy==2\ntorch\n", offer(tmp_path)),
        environment_hash("torch\nnumpy==1\n", offer(tmp_path)),
        environment_hash("numpy==1\ntorch\n", offer(tmp_path, about=ABOUT | {"version": "3.11.3"})),
        environment_hash("numpy==1\ntorch\n", offer(tmp_path, about=ABOUT | {"platform": "linux-aarch64"})),
        environment_hash("numpy==1\ntorch\n", offer(tmp_path, installer="uv")),
        environment_hash("numpy==1\ntorch\n", offer(tmp_path, index=("--no-index",))),
        environment_hash("numpy==1\ntorch\n", offer(tmp_path, python="/opt/python3")),
    ]
    assert len({base, *others}) == 8


def test_tenants_do_not_share_what_they_build(tmp_path):
    one, two = (software_plan({"requirements": "a"}, offer(tmp_path), tenant) for tenant in (1, 2))
    assert one.entry.parent == tmp_path / "tenant-1"
    assert two.entry.parent == tmp_path / "tenant-2"


@pytest.mark.parametrize("path", ["venv", "/opt/../root/venv", ""])
def test_a_path_that_leads_elsewhere_is_refused(tmp_path, path):
    with pytest.raises(PlanError):
        software_plan({"path": path}, offer(tmp_path), 1)


def test_a_kind_of_a_later_version_is_refused(tmp_path):
    with pytest.raises(PlanError, match="upgrade"):
        software_plan({"flake": "x"}, offer(tmp_path), 1)
