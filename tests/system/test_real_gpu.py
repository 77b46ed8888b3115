"""A real GPU from NVIDIA's own library and driver to the pages, under real trainings in PyTorch: where this machine has both.

    ./berth test tests/system/test_real_gpu.py -s       # prints what was measured

BERTH_TEST_TORCH names a Python with PyTorch, if that is not `python3`. Nothing of the GPU's settings is changed.
"""

import functools
import json
import os
import re
import shlex
import shutil
import subprocess
import time
from pathlib import Path

import httpx2
import pytest

from portal.nodes.fields import MEASURES
from tests.system.helpers.client import FINAL, Tenant, operator_node_action, operator_settings, rows
from tests.system.helpers.machine import machine

pytestmark = [pytest.mark.system, pytest.mark.slow]

SCRIPT = Path(__file__).parent / "helpers" / "gpu_training.py"
OUTSIDE = "import torch, time; held = torch.ones(2**29, device='cuda'); print('holds', flush=True); time.sleep(600)"
OPENS = "import glob, os\nfor each in sorted(glob.glob('/dev/nvidia[0-9]*')): os.open(each, os.O_RDWR)\nprint('opened')"
CUDA = "import torch; assert torch.cuda.is_available()"
NODE, BATCH = "real", 2048


@functools.cache
def torch_python():
    """A Python with PyTorch that reaches a GPU; the tests are skipped loudly without one."""
    if not list(Path("/dev").glob("nvidia[0-9]*")):
        return None
    for found in filter(None, (os.environ.get("BERTH_TEST_TORCH"), shutil.which("python3"), "/usr/bin/python3")):
        if subprocess.run([found, "-c", CUDA], capture_output=True, check=False).returncode == 0:
            return found
    return None


@pytest.fixture(scope="module")
def python():
    found = torch_python()
    if found is None:
        pytest.skip("SKIPPED LOUDLY: no Python here has PyTorch and a GPU for it (BERTH_TEST_TORCH names one)")
    return found


@pytest.fixture(scope="module")
def berth(python, berth_up):
    started = berth_up(demo=True, workload=False, environment={"BERTH_LEASE_S": "900"})
    operator_settings(started, tune_step_s=6, tune_cores="off", sharing_slowdown="")
    for (name,) in rows(started, "select name from cluster_node"):
        operator_node_action(started, name, "drain")  # its GPUs are virtual
    return started


@pytest.fixture(scope="module")
def agent(berth):
    with machine(berth, NODE, **library_path()) as process:
        berth.wait(
            lambda: gpu(Tenant(berth)) and gpu(Tenant(berth))["sample"], limit_s=60.0, what="a GPU's first figures"
        )
        yield process


def library_path():
    return {name: os.environ[name] for name in ("LD_LIBRARY_PATH",) if name in os.environ}


@pytest.fixture
def tenant(berth, agent):
    return Tenant(berth)


def node(tenant, name=NODE):
    status, found = tenant.berth.request(f"/api/v1/nodes/{name}", token=tenant.token)
    assert status == 200, found
    return found


def gpu(tenant, index=0, name=NODE):
    return next((each for each in node(tenant, name)["gpu_list"] if each["index"] == index), None)


def live(berth, number, name=NODE):
    """The last figures of a job on its node."""
    ((text,),) = rows(berth, "select live from cluster_node where name = ?", name)
    ((key,),) = rows(
        berth, "select a.key from jobs_attempt a join jobs_job j on j.id = a.job_id where j.id = ?", number
    )
    return json.loads(text or "{}").get("attempts", {}).get(str(key), {})


def train(tenant, python, *flags, **description):
    """Submit a training; its script comes as a file of the job's own."""
    given = {"gpus": 1, "gpu_types": [gpu(tenant)["gpu_type"]], "instrumented": True, "cores_per_gpu": 2, **description}
    command = shlex.join([python, "train.py", *map(str, flags)])
    return tenant.submit(command, files={"train.py": SCRIPT.read_text()}, **given)


def told(tenant, number, limit_s=150.0):
    """What the training said of itself, once it has ended."""
    tenant.berth.wait(lambda: tenant.state(number) in FINAL, limit_s=limit_s, what="its end")
    text = tenant.log(number)
    said = re.search(r"told (\{.*\})", text)
    assert said, text + tenant.log(number, stream="stderr")
    return json.loads(said[1])


def page(berth, path):
    """A page as an operator reads it, without tags."""
    with httpx2.Client(base_url=berth.url, timeout=30.0, follow_redirects=True) as browser:
        form = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', browser.get("/login").text)[1]
        assert browser.post("/login", data={"csrfmiddlewaretoken": form, **berth.operator}).status_code == 200
        return " ".join(re.sub(r"<[^>]+>", " ", browser.get(path).text).split())


def smi(what):
    """What NVIDIA's own program says, for comparison."""
    argv = ["nvidia-smi", f"--query-gpu={what}", "--format=csv,noheader,nounits", "-i", "0"]
    return subprocess.run(argv, capture_output=True, text=True, check=False).stdout.strip()


def measured(what, *values):
    """One line of what was measured, for docs/evidence/real-gpu.md (`-s` shows it)."""
    print(f"\n{what}:", *values)


def test_what_the_driver_says_of_a_gpu_stands_on_its_node(berth, tenant):
    found, measures = gpu(tenant), {name for name in MEASURES["gpus"] if "." not in name}
    name, total, kept = smi("name,memory.total,memory.reserved").split(", ")
    assert (found["gpu_type"], found["memory_mib"]) == (name, pytest.approx(float(total) - float(kept), abs=2))
    sample = found["sample"]
    measured("not told by this driver", sorted(measures - set(sample)))
    assert {"utilisation", "memory_mib", "power_w", "temperature_c"} <= set(sample)
    assert [sample[each] for each in ("memory_mib", "power_w", "temperature_c")] == [
        pytest.approx(float(now), abs=slack)
        for now, slack in zip(smi("memory.used,power.draw,temperature.gpu").split(", "), (64, 40, 10), strict=True)
    ]
    assert node(tenant)["findings"] == []
    assert f" 1 × {name}" in page(berth, f"/cluster/{NODE}/")


@pytest.mark.skipif(
    os.geteuid() != 0, reason="SKIPPED: only an agent of root keeps a job from GPUs that are not its own"
)
def test_a_job_without_gpus_opens_no_gpu(tenant, python):
    number = tenant.submit(f"{python} -c {shlex.quote(OPENS)}", gpus=0, cores=1)
    tenant.berth.wait(lambda: tenant.state(number) in FINAL, what="its end")
    assert tenant.state(number) == "FAILED"
    assert "PermissionError" in tenant.log(number, stream="stderr")
    assert "opened" not in tenant.log(number)


def test_a_trainings_speed_use_and_memory_reach_its_page(berth, tenant, python):
    number = train(tenant, python, "--seconds", 25, "--hold-mib", 4000)
    tenant.wait_log(number, "trains", limit_s=60.0)
    time.sleep(15)
    use, memory = map(float, smi("utilization.gpu,memory.used").split(", "))
    during, whole = live(berth, number), gpu(tenant)["sample"]
    measured("use and memory, the job's, the GPU's, nvidia-smi's", during, whole, (use, memory))
    assert 4000 < during["gpu_memory_mib"] == pytest.approx(memory, abs=64)
    assert whole["memory_mib"] == pytest.approx(memory, abs=64)
    assert during["gpu_utilisation"] == pytest.approx(use, abs=15)
    said = told(tenant, number)
    rates = "select s.iterations, s.samples / s.seconds from estimation_attemptspeed s"
    own = f"{rates} join jobs_attempt a on a.id = s.attempt_id where a.job_id = ?"
    berth.wait(lambda: tenant.state(number) == "COMPLETED" and rows(berth, own, number), what="its speed")
    ((iterations, speed),) = rows(berth, own, number)
    measured("iterations and samples a second, Berth's and its own", (iterations, speed), said)
    assert iterations == pytest.approx(said["iterations"], rel=0.02)
    assert speed == pytest.approx(said["per_s"] * BATCH, rel=0.1)
    assert f"{iterations:,} iterations".replace(",", " ") in page(berth, f"/jobs/{number}/").replace("\u202f", " ")
    metrics = berth.request("/metrics/gpus", token=(berth.data / "metrics-token").read_text())[1]
    assert re.search(rf'DCGM_FI_DEV_GPU_UTIL{{gpu="0".*Hostname="{NODE}"}} \d', metrics)


def test_cores_follow_a_real_gpus_use(berth, tenant, python):
    operator_settings(berth, tune_cores="on")
    given = {"instrumented": False, "cores_per_gpu": 2}
    number = train(tenant, python, "--seconds", 75, "--load-ms", 120, "--size", 4096, "--silent", **given)
    told(tenant, number, limit_s=150.0)
    operator_settings(berth, tune_cores="off")
    steps = rows(
        berth,
        "select s.cores_per_gpu, s.utilisation, c.signal from jobs_corestep s join jobs_coresearch c on c.id = s.search_id "
        "join jobs_attempt a on a.id = c.attempt_id where a.job_id = ? order by s.number",
        number,
    )
    measured("cores and the GPU's use, by steps", steps)
    assert {signal for *_, signal in steps} == {"utilisation"}
    assert len(steps) > 2
    by_cores = [use for _, use in sorted((cores, use) for cores, use, _ in steps[:3])]
    assert by_cores == sorted(by_cores), "its loaders are what it waits for"


def test_a_process_of_nobody_closes_a_gpu(berth, tenant, python):
    with subprocess.Popen([python, "-c", OUTSIDE], stdout=subprocess.PIPE, text=True) as outside:
        try:
            assert outside.stdout.readline() == "holds\n"
            berth.wait(lambda: gpu(tenant)["outside_since"], limit_s=30.0, what="the process of nobody")
            assert "out: used by a process outside Berth" in page(berth, f"/cluster/{NODE}/")
        finally:
            outside.kill()
    berth.wait(lambda: gpu(tenant)["outside_since"] is None, limit_s=30.0, what="a free GPU")


def used_s(process):
    """Processor seconds of a process until now, and its memory in MiB."""
    stat = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    rss = re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{process.pid}/status").read_text())[1]
    return (int(stat[11]) + int(stat[12])) / os.sysconf("SC_CLK_TCK"), int(rss) / 1024


def memories(berth, numbers, name):
    """MiB of a GPU that each job has as its node tells it; None while it does not tell it of all."""
    found = [live(berth, number, name).get("gpu_memory_mib") for number in numbers]
    return found if all(found) else None


def sharing(berth, tenant, python, name):
    """Two trainings on one GPU, alone and together, and one that takes more than it was granted: speeds, and how that ended."""
    part = {
        "shareable": True,
        "gpu_compute": 0.4,
        "gpu_memory_mib": 9000,
        "gpu_types": [gpu(tenant, name=name)["gpu_type"]],
    }
    alone = told(tenant, train(tenant, python, "--seconds", 25, "--hold-mib", 2000, model=f"{name}-a", **part))["per_s"]
    first = train(tenant, python, "--seconds", 75, "--hold-mib", 2000, model=f"{name}-a", **part)
    second = train(tenant, python, "--seconds", 75, "--hold-mib", 5000, model=f"{name}-b", **part)
    for number in (first, second):
        tenant.wait_log(number, "trains", limit_s=60.0)
    own = berth.wait(lambda: memories(berth, (first, second), name), what="the memory of both")
    measured("memory of two on one GPU", own, smi("utilization.gpu,memory.used"))
    assert own == [pytest.approx(held + 800, abs=450) for held in (2000, 5000)], (
        "what it holds, its model and CUDA's own"
    )
    assert re.search(r"for sharing: .+, .+, and 20 % free", page(berth, f"/cluster/{name}/"))
    assert f"GPU 0 with #{second}" in page(berth, f"/jobs/{first}/")
    greedy = train(
        tenant, python, "--seconds", 50, "--grow-after", 5, "--grow-mib", 12000, **part | {"gpu_compute": 0.2}
    )
    both = [told(tenant, number)["per_s"] for number in (first, second)]
    tenant.berth.wait(lambda: tenant.state(greedy) in FINAL, limit_s=60.0, what="the end of who took too much")
    measured("iterations a second alone, together", alone, both)
    assert [tenant.state(number) for number in (first, second)] == ["COMPLETED", "COMPLETED"]
    return alone, both, tenant.job(greedy)


def test_two_trainings_take_turns_on_one_gpu(berth, agent, tenant, python):
    operator_settings(berth, shared_gpus=1.0)
    berth.wait(lambda: gpu(tenant)["mode"] == "shared", limit_s=30.0, what="a GPU to share")
    before, at = used_s(agent)[0], time.monotonic()
    alone, both, greedy = sharing(berth, tenant, python, NODE)
    now, rss = used_s(agent)
    measured("the agent, of a core, and MiB", (now - before) / (time.monotonic() - at), rss)
    assert greedy["state"] == "OUT_OF_MEMORY"
    assert re.match(r"out of GPU memory: used 1\d{4} MiB of 9000 MiB granted", greedy["end_detail"])
    assert sum(both) < 1.3 * alone
    pairs = rows(
        berth,
        "select s.name, p.beside, p.mean, p.count from estimation_pairspeed p join estimation_signature s on s.id = p.signature_id",
    )
    measured("what each costs the other", pairs)
    assert [mean for name, _, mean, _ in pairs if name.endswith(f"{NODE}-a")] == [
        pytest.approx(both[0] / alone, abs=0.2)
    ]


@pytest.fixture
def daemon(tmp_path):
    """NVIDIA's MPS control daemon with pipes of its own; skipped where this machine has none."""
    program = shutil.which("nvidia-cuda-mps-control")
    if program is None:
        pytest.skip("SKIPPED LOUDLY: no nvidia-cuda-mps-control here")
    own = {"CUDA_MPS_PIPE_DIRECTORY": str(tmp_path / "pipes"), "CUDA_MPS_LOG_DIRECTORY": str(tmp_path / "logs")}
    subprocess.run([program, "-d"], env=os.environ | own, check=True, timeout=30)
    yield tmp_path / "pipes"
    subprocess.run([program], input="quit\n", text=True, env=os.environ | own, check=False, timeout=60)


def test_two_trainings_run_at_once_by_mps(berth, daemon, python):
    """After the others: this agent has its jobs run under its own account, which MPS serves."""
    tenant = Tenant(berth)
    operator_node_action(berth, NODE, "drain")
    with machine(berth, "mps", "--isolation", "off", "--mps-pipes", str(daemon), **library_path()):
        berth.wait(lambda: gpu(tenant, name="mps") and gpu(tenant, name="mps")["sample"], limit_s=60.0, what="figures")
        operator_settings(berth, shared_gpus=1.0)
        berth.wait(lambda: gpu(tenant, name="mps")["mode"] == "shared", limit_s=30.0, what="a GPU to share")
        assert "GPU memory, when shared yes limit set at its start" in page(berth, "/cluster/mps/")
        alone, both, greedy = sharing(berth, tenant, python, "mps")
        assert min(both) > 0.8 * alone, "each has its own 40 % of the threads"
        assert greedy["state"] == "FAILED"
        assert "CUDA out of memory" in tenant.log(greedy["number"], stream="stderr")
