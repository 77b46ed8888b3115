"""DqnGPU's rivals on the one GPU."""

from research.simulator.sharing.rivals import sjf, tetris
from tests.scheduler.simulator.sharing.test_one_gpu import gpu_of, job


def test_sjf_runs_the_shortest_alone_and_tetris_what_aligns_with_what_is_idle():
    gpu = gpu_of(job(0, 9), job(1, 3))
    assert sjf(gpu) == [1]
    gpu.start([1])
    assert sjf(gpu) == []
    gpu = gpu_of(job(0, 4, gpu=0.6), job(1, 4, gpu=0.3), job(2, 4, gpu=0.5))
    assert tetris(gpu) == [0]
    gpu.start([0])
    assert tetris(gpu) == [1]
