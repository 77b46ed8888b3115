"""Jobs in container images. No engine is on this machine: what stands for Apptainer notes how it is called, and acts its part.

So these tests hold what is said to it to its manual, and nothing more: it has not met a real one.
"""

from __future__ import annotations

import json
import sys

import pytest

from tests.workers.controls.test_shim import PART, ShimRun
from tests.workers.specs import spec_make
from workers.environments.offer import Offer, engine_find
from workers.environments.plan import PlanError, software_plan
from workers.environments.programs import programs_make
from workers.parts.contents import SpecError
from workers.parts.workspace import Rooms, Workplace, part_environment, part_prepare
from workers.system.landlock import Walls, landlock_version
from workers.system.procs import boot_id

REFERENCE = "docker.io/pytorch/pytorch:2.4.0"
ENGINE = """#!{python} -IS
import json, os, sys
with open({calls!r}, "a") as file:
    file.write(json.dumps({{"argv": sys.argv[1:], "environment": dict(os.environ)}}) + "\\n")
if sys.argv[1] == "pull" and "missing" in sys.argv[-1]:
    sys.exit("FATAL: While making image from oci registry: error: manifest unknown")
if sys.argv[1] == "pull":
    open(sys.argv[-2], "w").write("an image")
if sys.argv[1] == "exec":
    prefix = "APPTAINERENV_"
    inside = {{name[len(prefix):]: value for name, value in os.environ.items() if name.startswith(prefix)}}
    inside["PATH"] = "/image/bin:/bin" + "".join(":" + path for path in [inside.pop("APPEND_PATH", "")] if path)
    os.execve("/bin/sh", sys.argv[sys.argv.index("/bin/sh"):], inside)
"""


def engine_write(directory):
    """A stand-in for Apptainer; returns its path."""
    directory.mkdir(exist_ok=True)
    engine = directory / "apptainer"
    engine.write_text(ENGINE.format(python=sys.executable, calls=str(directory / "calls")))
    engine.chmod(0o755)
    return engine


class ImageRun(ShimRun):
    """A prepared part that runs in an image."""

    def prepare(self, *, reference=REFERENCE, virtual=True, walls=None, programs=None, **spec) -> ImageRun:
        engine = engine_write(self.root / "tools")
        offer = Offer(self.root / "environments", engine=str(engine))
        place = Workplace(
            storage=self.root / "storage",
            walls=walls,
            landlock=landlock_version(),
            virtual=virtual,
            virtual_pace=None,
            nice=0,
            boot_id=boot_id(),
            node_grace_s=1.0,
            lease_grace_s=3.0,
            software=offer,
            programs=programs,
        )
        self.spec = spec_make(**{**PART, "tenant_id": 7, "software": {"image": reference}, **spec})
        self.entry = offer.root / part_environment(self.spec, place)
        part_prepare(Rooms(self.directory, self.job, mark=self.mark), self.spec, {"lease_s": None}, place)
        return self

    def calls(self) -> list[dict]:
        return [json.loads(line) for line in (self.root / "tools/calls").read_text().splitlines()]


@pytest.fixture
def run(tmp_path):
    made = ImageRun(tmp_path)
    yield made
    made.end()


def test_the_image_is_fetched_and_the_command_runs_in_it_with_what_is_the_jobs(run):
    hostile = {"APPTAINER_BIND": "/", "LD_LIBRARY_PATH": "/x", "MINE": "a $(id) b"}
    run.prepare(command='echo "$MINE" $BERTH_GPUS; pwd', environment=hostile, gpus=[0], gpu_uuids=["GPU-1"])
    assert run.start().result()["exit_code"] == 0
    assert run.stdout().splitlines()[-2:] == ["a $(id) b 1", str(run.job / "work")]
    pull, started = run.calls()
    image, work, tmp = run.entry / "image.sif", run.job / "work", run.job / "tmp"
    assert pull["argv"] == ["pull", "--force", "--disable-cache", str(image), f"docker://{REFERENCE}"]
    assert "MINE" not in str(pull["environment"])
    instrument = started["environment"]["APPTAINERENV_BERTH_INSTRUMENT_PATH"]
    bound = [(run.job, "ro"), (work, "rw"), (tmp, "rw"), *((run.job / each, "rw") for each in ("records", "artefacts"))]
    bound += [(run.root / "storage/checkpoints/9", "rw"), (instrument, "ro")]
    assert started["argv"] == [
        *("exec", "--userns", "--containall", "--no-eval"),
        *("--home", str(work), "--pwd", str(work), "--workdir", str(tmp)),
        *(word for path, mode in bound for word in ("--bind", f"{path}:{path}:{mode}")),
        *(str(image), "/bin/sh", "-c", 'echo "$MINE" $BERTH_GPUS; pwd'),
    ]
    engines = {name for name in started["environment"] if not name.startswith("APPTAINERENV_")}
    assert engines - {"LC_CTYPE"} == {"PATH", "HOME", "TMPDIR", "LANG"}, "no variable of the tenant's is the engine's"
    assert started["environment"]["APPTAINERENV_APPTAINER_BIND"] == "/"
    assert "APPTAINERENV_PATH" not in started["environment"]


def test_an_image_with_python3_alone_runs_python_by_the_folder_behind_its_own_path(run):
    """By the variable of the engine's manual. What a tenant puts there stays before it."""
    programs = programs_make(run.root)
    run.prepare(command="echo $PATH; python -V", environment={"APPEND_PATH": "/mine:/usr/bin"}, programs=programs)
    assert run.start().result()["exit_code"] == 0, (run.directory / "stderr").read_text()
    path, version = run.stdout().splitlines()[-2:]
    assert path == f"/image/bin:/bin:/mine:/usr/bin:{programs}"
    assert version.startswith("Python 3")
    assert ["--bind", f"{programs}:{programs}:ro"] == run.calls()[-1]["argv"][-6:-4]


def test_a_real_nodes_gpus_are_shown_and_the_next_job_fetches_nothing(run, tmp_path):
    run.prepare(command="true", gpus=[0], gpu_uuids=["GPU-1"], virtual=False)
    assert run.start().result()["exit_code"] == 0
    second = ImageRun(tmp_path / "second")
    second.root = tmp_path
    second.prepare(command="true", virtual=False)
    assert second.start().result()["exit_code"] == 0
    pull, first, again = run.calls()
    assert [call["argv"][0] for call in (pull, first, again)] == ["pull", "exec", "exec"]
    assert ("--nv" in first["argv"], "--nv" in again["argv"]) == (True, False)


def test_an_image_that_is_not_there_ends_the_job_with_the_reason(run):
    run.prepare(command="true", reference="docker.io/library/missing:1")
    ended = run.start().result()
    assert ended["reason"] == "start_failed"
    assert "manifest unknown" in ended["detail"]


def test_the_container_takes_the_place_of_the_walls_of_its_command_alone(run):
    walls = Walls(closed=(run.root / "storage",), readable=(), own=())
    run.prepare(command="true", walls=walls)
    launch = json.loads((run.directory / "launch.json").read_text())
    assert launch["walls"] is None
    assert launch["build"]["walls"]["closed"] == [str(run.root / "storage")]


def test_no_directory_of_the_machine_that_a_tenant_names_is_shown(run):
    with pytest.raises(SpecError, match="absolute working directory"):
        run.prepare(command="true", working_directory="/etc")


def test_a_path_that_would_be_read_as_two_is_refused(tmp_path):
    run = ImageRun(tmp_path / "a,b")
    run.prepare(command="true")
    ended = run.start().result()
    assert ended["reason"] == "start_failed"
    assert "comma" in ended["detail"]


def test_where_no_engine_can_run_the_node_says_why_and_the_remedy(tmp_path):
    engine = engine_write(tmp_path / "bin")
    path, switches = str(engine.parent), tmp_path / "sys"
    assert engine_find(path, is_root=False, switches=switches) == (str(engine), "")
    assert "account of its own" in engine_find(path, is_root=True, switches=switches)[1]
    assert "install it" in engine_find(str(tmp_path), is_root=False, switches=switches)[1]
    (switches / "user").mkdir(parents=True)
    (switches / "user/max_user_namespaces").write_text("0\n")
    none, why = engine_find(path, is_root=False, switches=switches)
    assert (none, "user.max_user_namespaces" in why) == (None, True)
    (switches / "user/max_user_namespaces").write_text("1000\n")
    assert engine_find(path, is_root=False, switches=switches)[0] == str(engine)
    engine.write_text("#!/bin/sh\nexit 3\n")
    assert "mend it" in engine_find(path, is_root=False, switches=switches)[1]


def test_a_node_without_an_engine_refuses_the_part_with_its_reason(tmp_path):
    offer = Offer(tmp_path, missing={"image": "Apptainer was not found; install it"})
    assert offer.to_wire()["images"] is None
    with pytest.raises(PlanError, match="install it"):
        software_plan({"image": REFERENCE}, offer, 7)
