"""The names that knobs choose among, and what each means."""

from __future__ import annotations

POLICIES = {
    "fifo": "strictly in the order of submission, no job passes one that does not fit",
    "drf": "the tenant with the smallest dominant share of GPUs and cores starts its next job",
    "coda": "arrays for CPU, small GPU and large GPU jobs, tenants by their share, each job at its smallest size",
    "hops": "the queue by latency ratio, a service window, and a joint ILP for where and on how many GPUs",
    "berth": "tenants by their share in each array, the jobs of each tenant by latency ratio, a joint ILP for the rest",
}
SHARING = {
    "off": "no job starts on a shared GPU",
    "res-ag": "a job joins where the compute and the memory that it asks for are left",
    "cbp": "it gets the memory that its model was seen to use, and joins none whose use rises with its own",
    "cbp-pp": "as cbp, and where that refuses it may join a GPU whose memory is forecast to leave room for it",
    "dqn": "it joins where a learned policy (./berth train-sharing) would start it now; where that cannot judge, as cbp-pp",
}
PRIORITIES = ("lrf", "fifo", "sjf", "srtf", "las", "ftf")
