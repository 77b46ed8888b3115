"""Contexts as a page gets them, of a small busy cluster; every name is invented."""

from __future__ import annotations

from portal.pages.dashboard.overview.nodes import Holder, group_cells

DAY = "2026-11-20T"


def shell(*, operator=True, streams=("cluster",)):
    return {
        "title": "A sample",
        "menu": [{"value": "job-list", "label": "Jobs", "url": "/jobs/", "selected": True}],
        "username": "mira.okafor",
        "initials": "MO",
        "is_operator": operator,
        "tenants": ["vision-lab", "nlp-startup"],
        "live_streams": list(streams),
        "live_numbers": dict.fromkeys(streams, 17),
        "banner": None,
    }


def wave(base, spread, count=32):
    return [base + spread * (((i * 7) % 11) / 11 - 0.5) for i in range(count)]


def cell(index, use, active, memory=61.0):
    idle = use is None
    return {
        "index": index,
        "active": active,
        "use_percent": use,
        "memory_percent": None if idle else memory,
        "idle": idle,
    }


def job_holder(number, name, tenant):
    return Holder(name, number, f"/jobs/{number}/", tenant)


def node(name, gpu_type, cores, rows, memory=44.0, health=("up", "up")):
    cells = [(cell(i, use, active), holder) for i, (use, active, holder) in enumerate(rows)]
    return {
        "name": name,
        "url": f"/cluster/{name}/",
        "gpu_count": len(rows),
        "gpu_type": gpu_type,
        "virtual": True,
        "health": health[0],
        "health_word": health[1],
        "cores_used": cores[0],
        "cores_total": cores[1],
        "memory_percent": memory,
        "groups": group_cells(cells),
        "cpu_job_count": 1,
    }


def nodes():
    resnet = job_holder(1031, "resnet152-in21k", "vision-lab")
    bert = job_holder(1036, "bert-large-pretrain", "nlp-startup")
    lora = job_holder(1027, "llama7b-lora", "nlp-startup")
    ctc = job_holder(1038, "conformer-l-ctc", "speech-co")
    sweep = job_holder("1044_6", "wav2vec-sweep", "speech-co")
    yolo = job_holder(1029, "yolov8-aerial", "vision-lab")
    return [
        node(
            "a100-01",
            "A100 80 GB",
            (42, 64),
            [(use, 1.0, resnet) for use in (94, 95, 93, 94)]
            + [(88, 1.0, bert), (87, 1.0, bert)]
            + [(None, 0.63, Holder("idle 22 min", note="22 idle cores"))] * 2,
        ),
        node(
            "a100-02",
            "A100 80 GB",
            (63, 64),
            [(use, 1.0, lora) for use in (97, 98, 97, 96)]
            + [(71, 1.0, ctc), (69, 1.0, ctc), (63, 0.68, sweep)]
            + [(None, 0.51, Holder("idle 29 min", note="1 idle core"))],
        ),
        node(
            "rtx-01",
            "RTX 3090",
            (18, 32),
            [(82, 1.0, yolo), (84, 1.0, yolo)] + [(None, 0.28, Holder("idle 43 min", note="14 idle cores"))] * 2,
        ),
        node(
            "rtx-02",
            "RTX 3090",
            (26, 32),
            [
                (66, 0.97, job_holder("1044_3", "wav2vec-sweep", "speech-co")),
                (61, 0.96, job_holder("1044_4", "wav2vec-sweep", "speech-co")),
                (64, 0.95, job_holder("1044_5", "wav2vec-sweep", "speech-co")),
                (34, 0.54, job_holder(1040, "distil-eval", "nlp-startup")),
            ],
        ),
    ]


def spark(values, low, high, kind="line", tone="accent"):
    return {"values": values, "low": low, "high": high, "kind": kind, "tone": tone}


def tile(name, label, figure, unit, denominator, shown, help_text=None):
    return {
        "name": name,
        "label": label,
        "help": help_text,
        "figure": figure,
        "unit": unit,
        "denominator": denominator,
        "spark": shown,
    }


def tiles():
    live = [0.3] * 20 + [0.3 + 0.08 * i for i in range(12)]
    fragments = [0, 0, 0, 1, 0, 0, 2, 2, 0, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 2, 2, 0, 2, 0, 1, 2, 2, 5, 5, 5]
    return [
        tile(
            "gpu-active",
            "GPU active rate",
            "79.2",
            "%",
            "19 of 24 allocated",
            spark(wave(74, 18), 0, 100),
            "GPUs a job holds, of all GPUs.",
        ),
        tile(
            "cpu-active",
            "CPU active rate",
            "77.6",
            "%",
            "149 of 192 cores",
            spark(wave(72, 14), 0, 100),
            "Cores that jobs hold.",
        ),
        tile(
            "gpu-use",
            "GPU utilisation",
            "80.7",
            "%",
            "mean of the 19 active",
            spark(wave(75, 12), 0, 100),
            "Mean use of the active GPUs.",
        ),
        tile("queue", "Queue", "9", "jobs", "21 GPUs; oldest 1 h 43 min", spark(wave(4, 5), 0, 10)),
        tile(
            "raqlr",
            "RAQLR",
            "0.31",
            None,
            "h = 1 h, m = 37",
            spark(wave(0.2, 0.05), 0, 1.3),
            "Mean latency ratio of jobs that ended.",
        ),
        tile(
            "live-lr",
            "Live LR, waiting",
            "1.25",
            None,
            "9 waiting, max 1.98",
            spark(live, 0, 1.3, tone="wait"),
            "Mean latency ratio of those waiting.",
        ),
        tile(
            "fragments",
            "Fragments",
            "5",
            "20.8 %",
            "1 no cores, 4 scattered",
            spark(fragments, 0, 8, "bars", "wait"),
            "Idle GPUs that no waiting job can use.",
        ),
    ]


def overview():
    waiting = [
        ("1044", "wav2vec-sweep [7-11]", "speech-co", "needs 1", "tenant-quota", 1.98, 4740),
        (1033, "swin-l-detect", "vision-lab", "needs 4 or 8", "gpus-scattered", 0.50, 6180),
        (1037, "mae-vit-b", "vision-lab", "needs 4", "gpus-scattered", 0.45, 4200),
        (1042, "vit-l16-finetune", "vision-lab", "needs 4 or 8", "gpus-scattered", 0.33, 4380),
        (1045, "t5-xl-instruct", "nlp-startup", "needs 4 or 8", "gpus-scattered", 0.10, 1860),
    ]
    placed = [3, 2, 1, 2, 3, 4, 2, 1, 2, 3, 2, 2, 1, 3, 2, 1, 1, 0, 1, 0]
    fragments = [0, 0, 2, 2, 0, 0, 0, 0, 2, 0, 0, 1, 0, 2, 2, 3, 3, 5, 5, 5]
    return {
        "shell": shell(),
        "subtitle": "demo-cluster, 4 nodes, 24 GPUs",
        "next_planning": {"number": 5118, "next_at": DAY + "12:42:00+00:00", "period_s": 360.0},
        "horizons": [
            {"value": "1", "label": "last 1 h", "selected": True, "url": "?h=1"},
            {"value": "6", "label": "6 h", "selected": False, "url": "?h=6"},
            {"value": "24", "label": "24 h", "selected": False, "url": "?h=24"},
        ],
        "horizon_label": "1 h",
        "query": "",
        "board": None,
        "board_url": "/cluster/board?h=1",
        "can_operate": True,
        "tiles": tiles(),
        "notice": {
            "lead": "5 GPUs idle, yet the largest job that could start needs 2.",
            "text": "4 jobs need 4 GPUs on one node; 5 tasks wait for speech-co's quota (6 of 6).",
            "url": "/cluster/",
            "link": "Fragmentation",
        },
        "nodes": nodes(),
        "show_memory": True,
        "next": {
            "jobs": [
                {
                    "job_id": i,
                    "url": f"/jobs/{i}/",
                    "name": n,
                    "tenant": t,
                    "needs": k,
                    "reason": r,
                    "first": "2 more idle GPUs on a100-01",
                    "lr": lr,
                    "waited_s": w,
                    "starts": None,
                }
                for i, n, t, k, r, lr, w in waiting
            ],
            "percent": None,
            "not_counted": "Not counted: 1 waits on a dependency, 1 held.",
            "empty": "No job waits.",
        },
        "tenants": [
            {"name": "vision-lab", "held": 6, "quota": 20, "total": 24, "share": 0.25, "full": False},
            {"name": "nlp-startup", "held": 7, "quota": 16, "total": 24, "share": 0.292, "full": False},
            {"name": "speech-co", "held": 6, "quota": 6, "total": 24, "share": 0.25, "full": True},
        ],
        "rounds": {
            "columns": [
                {
                    "number": 5099 + i,
                    "url": f"/rounds/plannings/{5099 + i}/",
                    "placed": placed[i],
                    "fragments": fragments[i],
                    "solve_ms": 180 + 13 * i,
                    "current": i == 19,
                }
                for i in range(20)
            ],
            "summary": "Planning 5118: window 4 jobs, 6 candidates, 440 ms, nothing placed",
            "note": "the last 20, all solved to gap 0",
        },
        "plots": [
            {
                "name": "latency-ratio",
                "title": "Latency ratio",
                "note": "6 h",
                "url": "/figures/latency-ratio",
                "legend": [
                    {"label": "RAQLR, h = 1 h", "token": "plot-1", "kind": "line"},
                    {"label": "live, waiting", "token": "plot-2", "kind": "line"},
                ],
            },
            {
                "name": "fragments",
                "title": "Fragments",
                "note": "6 h",
                "url": "/figures/fragments",
                "legend": [
                    {"label": "no cores", "token": "plot-2", "kind": "block"},
                    {"label": "scattered", "token": "plot-4", "kind": "block"},
                ],
            },
        ],
    }


def node_row(sample):
    held = sum(len(group["cells"]) for group in sample["groups"] if group["job_id"])
    return {
        **{key: sample[key] for key in ("name", "url", "health", "health_word", "gpu_count", "virtual")},
        "contact_at": DAY + "12:41:18+00:00",
        "cells": [each for group in sample["groups"] for each in group["cells"]],
        "gpus_held": held,
        "cores_gpu_jobs": sample["cores_used"] - 10,
        "cores_cpu_jobs": 10,
        "cores_total": sample["cores_total"],
        "memory_used_gib": 181.0,
        "memory_total_gib": 512.0,
        "note": "1 idle GPU without cores" if sample["name"] == "a100-02" else None,
        "kept": [
            {
                "url": "/jobs/1042/",
                "who": "#1042",
                "until": "until it starts, probably from 2026-11-21T12:48Z to 2026-11-21T12:52Z",
            },
            {
                "url": None,
                "who": "a job of another tenant",
                "until": "until it starts, at the latest 2026-11-21T12:57Z",
            },
        ],
    }


def board():
    """The frame of a large cluster's strips, with the dialog that its card's button opens."""
    choices = [("type", "Type", True), ("rack", "Rack", False)]
    return {
        "board": {
            "groupings": [{"value": v, "label": label, "selected": chosen} for v, label, chosen in choices],
            "note": "993 up, 6 drained, 1 unreachable",
            "hours": 1,
        },
        "board_url": "/cluster/board?h=1",
        "horizon_label": "1 h",
        "show_memory": True,
    }


def node_card():
    sample = nodes()[0]
    return {
        "node": node_row(sample),
        "groups": sample["groups"],
        "gpu_type": "A100 80 GB",
        "rack": "rack 3",
        "jobs": [],
        "can_operate": True,
    }


def node_rows():
    return {
        "title": "A100 80 GB",
        "rows": [node_row(sample) for sample in nodes()[:2]],
        "can_operate": True,
        "paging": {"summary": "1\u20132 of 2 nodes", "previous_url": None, "next_url": "/cluster/rows?page=2"},
    }


EVENTS = [
    {
        "at": DAY + "08:20:00+00:00",
        "node": "a100-02",
        "what": "resumed",
        "reason": "GPU 6 replaced",
        "by": "mira.okafor",
    },
    {"at": DAY + "06:02:00+00:00", "node": "a100-02", "what": "drained", "reason": None, "by": "health check"},
]


def cluster():
    rows = [node_row(sample) for sample in nodes()]
    rows[3] |= {"health": "drained", "health_word": "drained: driver update"}

    def blocks(name, note, texts, *, total=False):
        fills = {"2": "ramp-3", "1": "ramp-2", "4": "ramp-4", "no cores": "short-1", "4 ": "short-4"}
        return {
            "name": name,
            "note": note,
            "total": total,
            "cells": [{"text": text.strip(), "fill": fills.get(text, "none"), "note": ""} for text in texts],
        }

    return {
        "shell": shell(),
        "subtitle": "4 nodes up, 24 GPUs, 192 cores",
        "blocks": {
            "sentence": [
                {"text": "5 idle GPUs, largest placeable job 2.", "bold": True},
                {"text": " 4 waiting jobs need 4 on one node."},
            ],
            "sizes": [1, 2, 4, 8],
            "rows": [
                blocks("a100-01", "2, 22", ["2", "1", "2 short", "6 short"]),
                blocks("a100-02", "1, 1", ["no cores", "1 short", "3 short", "7 short"]),
                blocks("rtx-01", "2, 14", ["2", "1", "2 short", "\u2013"]),
                blocks("Placeable now", "5, 43", ["4", "2", "0", "0"], total=True),
                blocks("Waiting jobs", "9, by smallest size", ["5", "0", "4 ", "0"], total=True),
            ],
            "per": "Node",
            "number": 5118,
        },
        "has_blocks": True,
        "has_events": True,
        "board": None,
        "board_url": "/cluster/board?h=1",
        "groups": [
            {"title": "A100 80 GB", "note": "2 nodes, 13 of 16 GPUs held", "rows": rows[:2]},
            {"title": "RTX 3090", "note": "2 nodes, 6 of 8 GPUs held", "rows": rows[2:]},
        ],
        "events": EVENTS,
        "can_operate": True,
        "join_command": "./berth node --join https://berth.example:8000 --token TOKEN",
    }


def node_page():
    sample = nodes()[0]
    return {
        "shell": shell(),
        "node": node_row(sample),
        "facts": [
            {"label": "Type", "value": "8 \u00d7 A100 80 GB"},
            {"label": "Cores", "value": "42 of 64"},
            {"label": "Agent", "value": "0.1.0", "at": DAY + "07:00:00+00:00"},
        ],
        "groups": sample["groups"],
        "jobs": [
            {
                "job_id": 1031,
                "url": "/jobs/1031/",
                "name": "resnet152-in21k",
                "tenant": "vision-lab",
                "state": "RUNNING",
                "gpus": "4",
                "cores": 16,
                "since": DAY + "11:48:00+00:00",
            },
            {
                "job_id": None,
                "url": None,
                "name": "a job of another tenant",
                "tenant": "\u2013",
                "state": "RUNNING",
                "gpus": "2",
                "cores": 12,
                "since": DAY + "11:12:00+00:00",
            },
        ],
        "events": EVENTS[:1],
        "plots": [
            {"name": "gpu", "title": "GPU use, %", "note": "mean of its GPUs", "url": "/figures/node-gpu", "legend": []}
        ],
        "can_operate": True,
    }


def queue():
    own = {
        "position": 1,
        "side": "front",
        "name": "vit-l16-finetune",
        "job_id": 1042,
        "url": "/jobs/1042/",
        "tenant": "vision-lab",
        "needs": "needs 4 or 8",
        "state": None,
        "lr": 1.33,
        "waited_s": 4380.0,
        "share": 0.25,
        "turn": "turn 1: its tenant had 25.0 % then",
        "reason": "gpus-scattered",
        "sentence": "It needs 4 GPUs on one node; the largest free block is 2 (a100-01).",
        "to_start": "2 more idle GPUs on a100-01",
        "starts": {"earliest": "2026-11-21T14:05:00+00:00", "latest": None, "median": "2026-11-21T14:12:00+00:00"},
    }
    gone = {**own, "position": 2, "state": "STARTING", "starts": None, "to_start": None}
    foreign = {**dict.fromkeys(own), "position": 3, "side": "outside", "name": "a job of another tenant"}
    lines = [
        {"border": None, "row": own},
        {"border": None, "row": gone},
        {"border": "The window ends here: 17 of 16 GPUs asked for.", "row": None},
        {"border": None, "row": foreign},
    ]
    array = {
        "name": "gpu-small",
        "title": "Small GPU jobs",
        "note": "1 to 3 GPUs, 3 waiting",
        "lines": lines,
        "has_shares": True,
        "window": [{"text": "The window holds "}, {"text": "2 jobs", "bold": True}],
        "paging": {"summary": "1-3 of 3", "previous_url": None, "next_url": "/queue/?gpu-small=2"},
    }
    shares = [
        {"name": "vision-lab", "held": 4.0, "total": 16.0, "share": 0.25, "note": "100.0 % with its considered jobs"}
    ]
    return {
        "queue": {
            "subtitle": "3 in the order, 1 array",
            "planning_number": 5118,
            "planning_url": "/rounds/plannings/5118/",
            "at": "2026-11-21T13:36:00+00:00",
            "arrays": [array],
            "shares": shares,
            "kept": [[{"text": "#1042", "href": "/jobs/1042/"}, {"text": " vit: 4 GPUs on a100-01."}]],
            "aside": "In no order: 1 held.",
            "newcomers": 2,
            "record": "Past start ranges held 83 % of the time.",
            "query": "?gpu-small=2",
        }
    }
