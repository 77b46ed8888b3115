"""A job's software is made ready by its shim, within limits and walls. The installer is a stub on PATH that says it is uv."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest

from tests.remains import processes_of
from tests.workers.conftest import wait_until
from tests.workers.controls.test_shim import PART, ShimRun
from tests.workers.specs import spec_make
from workers.agent.isolation import walls_of
from workers.environments.offer import Limits, Offer
from workers.parts.contents import SpecError
from workers.parts.workspace import Rooms, Workplace, part_environment, part_prepare
from workers.system.landlock import LEAST_VERSION, landlock_version
from workers.system.procs import boot_id

ABOUT = {"version": "3.11.2", "implementation": "cpython-311", "platform": "linux"}
MADE = 'mkdir -p "$2/bin"; ln -sf /bin/sh "$2/bin/python"'
"""What the stub does for `uv venv --... DIRECTORY`, which it finds as its last argument."""


class StageRun(ShimRun):
    """A prepared part whose installer is a shell script."""

    def prepare(
        self, script: str = "exit 0", *, software=None, walls=None, limits=None, tenant_id=7, **spec
    ) -> StageRun:
        uv = self.root / "tools/uv"
        uv.parent.mkdir(exist_ok=True)
        uv.write_text(
            f'#!/bin/sh\nfor last; do :; done\nset -- "$1" "$last"\nif [ "$1" = venv ]; then {MADE}; exit; fi\n{script}\n'
        )
        uv.chmod(0o755)
        limits = replace(Limits(), **(limits or {}))
        self.offer = Offer(self.root / "environments", about=ABOUT, installer="uv", program=(str(uv),), limits=limits)
        kept = {"walls": walls, "landlock": landlock_version(), "virtual": True, "virtual_pace": None, "nice": 0}
        place = Workplace(
            self.root / "storage", **kept, boot_id=boot_id(), node_grace_s=1.0, lease_grace_s=3.0, software=self.offer
        )
        wanted = software or {"requirements": "a"}
        self.spec = spec_make(**{**PART, "tenant_id": tenant_id, "software": wanted, **spec})
        self.entry = self.offer.root / part_environment(self.spec, place)
        part_prepare(Rooms(self.directory, self.job, mark=self.mark), self.spec, {"lease_s": None}, place)
        return self


@pytest.fixture
def stage(tmp_path):
    run = StageRun(tmp_path)
    yield run
    run.end()


def test_the_command_comes_after_and_finds_its_environment_first(stage):
    stage.prepare(
        'echo "installing with $SECRET"',
        command='echo "$VIRTUAL_ENV"; command -v python; echo $SECRET',
        environment={"SECRET": "s3", "PATH": "/usr/bin:/bin"},
    )
    assert stage.start().result()["exit_code"] == 0
    lines = stage.stdout().splitlines()
    assert "installing with " in lines  # the tenant's variables are not the build's
    assert lines[-3:] == [f"{stage.entry}/venv", f"{stage.entry}/venv/bin/python", "s3"]


def test_it_does_not_count_as_running_before(stage):
    stage.prepare(
        f'touch "{stage.root}/begun"; while [ ! -e "{stage.root}/go" ]; do sleep 0.05; done', command="echo ran"
    )
    stage.start()
    wait_until((stage.root / "begun").exists)
    wait_until(lambda: stage.engine.job(stage.directory))  # written beside it
    assert stage.engine.job(stage.directory)["building"] is True
    (stage.root / "go").touch()
    assert stage.result()["reason"] == "exit"
    assert stage.engine.job(stage.directory)["building"] is False


def test_a_failure_ends_the_job_with_the_reason_and_its_command_never_runs(stage):
    stage.prepare("echo 'error: no such package: a' >&2; exit 2", command="echo ran")
    result = stage.start().result()
    assert (result["reason"], result["exit_code"], result["pid"]) == ("start_failed", None, None)
    assert result["detail"] == "its software environment: uv ended with code 2: error: no such package: a"
    assert "\nran" not in stage.stdout()


def test_a_build_that_hangs_is_ended(stage):
    """However much time its job was given since."""
    stage.prepare("sleep 1000", limits={"build_s": 1.0})
    (stage.directory / "limit.json").write_text('{"limit_s": 500.0}')
    result = stage.start().result()
    assert result["reason"] == "start_failed"
    assert "was not ready within 1 s, the node's limit" in result["detail"]
    assert processes_of(stage.directory) == []
    assert not (stage.entry / "ready.json").exists()


def test_a_build_that_fills_the_disk_is_ended(stage):
    fills = 'head -c 20000000 /dev/zero > "$TMPDIR/filled"; sleep 1000'
    result = stage.prepare(fills, limits={"one_gib": 4 / 1024}).start().result()
    assert result["reason"] == "start_failed"
    assert "takes more than 0.00390625 GiB, the node's limit" in result["detail"]


def test_a_job_may_be_stopped_while_it_builds(stage):
    stage.prepare(f'touch "{stage.root}/begun"; sleep 1000').start()
    wait_until((stage.root / "begun").exists)
    stage.engine.stop(stage.directory, grace_s=0.0, detail="cancelled")
    assert stage.result()["reason"] == "stopped"
    assert processes_of(stage.directory) == []


needs_landlock = pytest.mark.skipif(landlock_version() < LEAST_VERSION, reason="this kernel has no Landlock")


@needs_landlock
def test_a_build_writes_into_its_own_environment_alone_and_the_job_into_none(stage):
    theirs = stage.root / "environments/tenant-8/theirs"
    theirs.mkdir(parents=True)
    (theirs / "secret").write_text("x")
    settings = {"dir": stage.root, "storage_dir": stage.root / "storage", "closed": None, "isolation": "auto"}
    walls = walls_of(SimpleNamespace(**settings)).with_readable(stage.root / "tools")
    tries = f"cat {theirs}/secret; touch {theirs}/poison"
    job = 'touch "$VIRTUAL_ENV/mine" && echo wrote; cat "$VIRTUAL_ENV/../ready.json" > /dev/null && echo read'
    stage.prepare(f"{tries}; exit 0", walls=walls, command=f"{tries}; {job}")
    result = stage.start().result()
    assert result["exit_code"] == 0, (result, stage.stdout())
    assert not (theirs / "poison").exists()
    assert "x" not in stage.stdout().splitlines()
    assert "wrote" not in stage.stdout()
    assert stage.stdout().splitlines()[-1] == "read"


def test_a_node_without_the_environment_says_so(stage):
    with pytest.raises(SpecError, match="has no environment named torch"):
        stage.prepare(software={"environment": "torch"})
