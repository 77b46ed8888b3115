"""The names that knobs choose among, and what each means."""

from __future__ import annotations

POLICIES = {
    "fifo": "strictly in order of submission, nobody passes a job that does not fit",
    "drf": "the tenant with the smallest dominant share of GPUs and cores starts its next job",
    "coda": "CPU, small-GPU and large-GPU arrays, tenants by their share, each job at its smallest size",
    "hops": "latency-ratio fairness, service window and a joint ILP for where and how large",
    "berth": "tenants by their share in each array, each one's jobs by latency ratio, a joint ILP for the rest",
}
PRIORITIES = ("lrf", "fifo", "sjf", "srtf", "las", "ftf")
