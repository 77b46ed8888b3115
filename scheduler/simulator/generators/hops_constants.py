"""What Hops (SoCC '24) does not publish of its workload: the generator's free constants, all of them, frozen here.

Published, and therefore not here: the models, data sets, batch sizes and size classes (Table 2), the clusters, the arrival
process, 25 and 500 jobs, requirements within 1 to 16 GPUs with up to 8 a job (4.2), the iteration model and the two normals
of unstable data times (3.5), prediction above 95 % for stable jobs (Fig. 6).

`CLASS_HOUR_512` is fixed on the rival `gavel-hops` alone (median makespan of ten seeds 15.62 h), `CLASS_HOUR_64` likewise
(14.28 h); speeds, links and models are from public facts about the hardware. `SHORTEST_H`, `LONGEST_H` and the end of XL
were changed after drafts had been run, of ours too: docs/evidence.md tells which and why.
"""

from __future__ import annotations

CLASS_HOUR_512 = 1.0
CLASS_HOUR_64 = 1.72
"""How many hours of one GTX 1080 Ti an hour of Table 2's classes is: the speed of the GPU that they were counted on."""

CLASS_HOURS = {"S": (0.1, 1.0), "M": (1.0, 10.0), "L": (10.0, 50.0), "XL": (50.0, 64.0)}
"""GPU hours of a job, log-uniform. Published: S 0 to 1, M 1 to 10, L 10 to 50, XL above 50; free: 0.1, 64, log-uniform."""

SHORTEST_H, LONGEST_H = 1 / 60, 4.0
"""Nobody asks for a size at which the job would take longer than half a day's work, or be over before its profile is (3.2: one
minute). Without the first one GPU would run for two days, beyond any of the published makespans."""

TERAFLOPS = {
    "cnn": {"gtx1080ti": 6.0, "titanxp": 6.6, "rtx3090": 12.0},
    "transformer": {"gtx1080ti": 6.5, "titanxp": 7.2, "rtx3090": 17.0},
}
"""What training reaches of each GPU: 11, 12 and 36 at their best; the newest gains less on convolutions."""

WITHIN_NODE_GBS, BETWEEN_NODES_GBS = 12.0, 5.0
"""All-reduce bandwidth of one process: PCIe 3.0 x16 within a node; 100 Gbit/s InfiniBand, staged through host memory."""

BYTES_PER_PARAMETER = 8.0
"""That an all-reduce moves: 4 bytes, there and back."""

UPDATE_PARAMETERS_PER_S = {"SGD": 10e9, "AdamW": 5e9}

BACKWARD_OVER_FORWARD = 2.0

CIFAR_COMPUTE = 0.25
"""Compute of an image of CIFAR-10 over one of ImageNet: resized to half the edge."""

DATA_SPREAD = 0.1
"""Standard deviation of a data time over its mean, of hits and of misses."""

WAIT_OF_DATA = 0.3
"""Time spent waiting for the slowest process, T_w, over the data time, where several work together."""

MODEL_ERROR = 0.04
"""Standard deviation of the logarithm of true over modelled throughput, a cell: nine in ten predictions within 7 %."""

PROFILE_NOISE, PROFILED_ITERATIONS = 0.01, 30
"""The profiler's error of a time module, relative; and its iterations, of 10 to 50."""

ENTITY_SPEED = {"w780": 1.0, "w780-3090": 0.8, "yk8100-8g": 1.0, "yk8100-10g": 1.05}
"""A server's factor: the paper's RTX3090 "installed in a less performant server" is the W780-G's (Fig. 1a)."""

ENTITY_SPREAD = 0.03
"""Standard deviation of a node's own factor beside its server's."""

PROFILING_S = 60.0
"""From a job's arrival until its time modules are known: "most models can be completed within one minute"."""

RESTART_S = 60.0
SPEED_NOISE = 0.02
"""Coefficient of variation of an attempt's speed."""
