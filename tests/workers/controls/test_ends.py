"""How parts end, told by real shims: what tests of the portal and the client send is this, and nothing else."""

import pytest

from tests.real_ends import BASE, real_end
from tests.workers.conftest import wait_until
from tests.workers.controls.test_shim import shim  # noqa: F401 - a fixture

SLEEP = "touch ready; exec sleep 60"
TRAPS = "trap 'exit 143' TERM; touch ready; sleep 60 & wait"
GREEDY = "exec python3 -c 'import time; x = bytearray(300 << 20); time.sleep(60)'"
WRITES = "head -c 30000000 /dev/zero > x; exec sleep 60"
ENDS = [
    ("true", {}, real_end()),
    ("exit 3", {}, real_end(exit_code=3)),
    ("kill -9 $$", {}, real_end(signal=9)),
    ("kill -SEGV $$", {}, real_end(signal=11)),
    ("sh -c 'kill -9 $$'; exit $?", {}, real_end(exit_code=137)),
    (SLEEP, {"time_limit_s": 1}, real_end("time_limit")),
    (TRAPS, {"time_limit_s": 1}, real_end("time_limit", exit_code=143)),
    (GREEDY, {"memory_mib": 64}, real_end("out_of_memory")),
    (WRITES, {"disk_mib": 5}, real_end("disk_limit")),
    (SLEEP, {"stop": True}, real_end("stopped")),
    (TRAPS, {"stop": True}, real_end("stopped", exit_code=143)),
]


@pytest.mark.parametrize(
    ("command", "spec", "says"), ENDS, ids=[f"{end[2]['reason']}-{n}" for n, end in enumerate(ENDS)]
)
def test_a_real_part_says_what_the_tests_send(shim, command, spec, says):  # noqa: F811
    more = {name: value for name, value in spec.items() if name != "stop"}
    shim.prepare(command=command, grace_s=5.0, **more).start()
    if "stop" in spec:
        wait_until((shim.job / "work/ready").exists)
        shim.engine.stop(shim.directory, grace_s=5.0, detail="cancel")
    told = shim.result()
    assert {name: told[name] for name in BASE} == says | {"pid": told["pid"], "detail": told["detail"]}
    assert bool(told["detail"]) == (says["reason"] != "exit"), "the limit, or the word that it was stopped by"
