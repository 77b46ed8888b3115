"""Contexts as a page gets them, of a small busy cluster; every name is invented."""

from __future__ import annotations

from portal.pages.dashboard.parts.gpus import Caption

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


def tiles():
    """The four figures, each with its course."""
    rows = [
        ("GPUs held", "19", "of 24", "5 free", "held"),
        ("Computing", "17", "of 19", "2 held, but idle", "computing"),
        ("Waiting", "9", "jobs", "waited 0.31 times its run time", ""),
        ("Lost to fragments", "5", "GPUs", "free, but no waiting job fits", ""),
    ]
    spark = {"values": [None, *wave(4, 5)], "high": 10, "tone": "wait"}
    names = ("label", "figure", "unit", "note", "count")
    return [dict(zip(names, row, strict=True)) | {"spark": spark, "title": "The mean"} for row in rows]


def overview():
    return {
        "shell": shell(),
        "key": [{"looks": ("u1", "u3", "u5"), "word": "busy, 0 to 100 %"}, {"looks": ("free",), "word": "free"}],
        "board": None,
        "board_url": "/cluster/board?h=1",
        "can_operate": True,
        "problems": {
            "shown": [
                {
                    "what": "GPU 5 of a100-02 is out: memory errors",
                    "since": DAY + "11:02:00+00:00",
                    "note": "no new job gets it",
                    "act": "What to do",
                    "url": "/cluster/a100-02/",
                    "mild": False,
                    "posts": posts,
                }
                for posts in (False, True)
            ],
            "more": 2,
        },
        "tiles": tiles(),
        "nodes": [
            {
                "name": name,
                "url": f"/cluster/{name}/",
                "gpu_words": "8 × A100",
                "health": health,
                "health_word": health,
                "gpus_active": 0.97,
                "cores_active": 0.61,
                "gpus": GPUS,
                "cpu_jobs": 1,
            }
            for name, health in (("a100-01", "up"), ("a100-02", "drained"))
        ],
        "waits": [
            {
                "name": "wav2vec-sweep",
                "url": "/jobs/1044/",
                "note": "speech-co, 1 GPU",
                "waited_s": 4740,
                "word": "starts about",
                "at": DAY + "12:48:00+00:00",
            }
        ],
        "unused": [
            {
                "name": "notebook",
                "number": "1041",
                "url": "/jobs/1041/",
                "owner": "tomas.ek",
                "has": "1 A100",
                "unused_s": 11400.0,
            }
        ],
    }


def gpu_cell(look, index, word=""):
    return {"look": look, "word": word, "title": f"GPU {index}, {word or look}", "index": index}


GPUS = {
    "many": False,
    "groups": [
        {
            "caption": Caption("another tenant", None, "until about", DAY + "15:30:00+00:00", True)._asdict(),
            "cells": [gpu_cell("others", index) for index in range(4)],
        },
        {"caption": Caption("lr-sweep", "/jobs/1044/", "mira", None, True)._asdict(), "cells": [gpu_cell("mine", 4)]},
        {"caption": Caption("memory errors")._asdict(), "cells": [gpu_cell("out", 5, "out")]},
        {"caption": Caption("for sharing")._asdict(), "cells": [gpu_cell("share share-used", 6), gpu_cell("share", 7)]},
    ],
}


def node_row(name="a100-02", **more):
    return {
        "name": name,
        "url": f"/cluster/{name}/",
        "what": "8 \u00d7 A100, 80 GB",
        "health": "up",
        "health_word": "Up",
        "virtual": True,
        "gpus": GPUS,
        "free": 1,
        "free_words": "1 free",
        "notes": ["1\u00bd for sharing"],
        **more,
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


def now():
    return {
        "node": node_row(),
        "lead": "No GPU is free.",
        "next": {"count": 4, "at": DAY + "15:30:00+00:00"},
        "apart": "GPU 5 is out. GPU 6 and 7 are for small jobs that share a GPU.",
        "kept": [{"url": "/jobs/1042/", "who": "#1042", "until": "until it starts"}],
        "findings": [{"what": "GPU 5", "level": "failed", "bad": True, "detail": "Xid 79.", "remedy": "Reboot it."}],
        "can_operate": True,
    }


def node_card():
    return {**now(), "rack": "rack 3"}


def node_rows():
    return {
        "title": "A100 80 GB",
        "rows": [node_row("a100-01"), node_row()],
        "can_operate": True,
        "paging": {"summary": "1\u20132 of 2 nodes", "previous_url": None, "next_url": "/cluster/rows?page=2"},
    }


EVENTS = [
    {"at": DAY + "08:20:00+00:00", "node": "a100-02", "text": "Takes jobs again.", "by": "mira.okafor"},
    {"at": DAY + "06:02:00+00:00", "node": "a100-02", "text": "Taken out.", "by": ""},
]


def cluster():
    cells = [{"says": "now", "at": None}, {"says": "at", "at": DAY + "15:30:00+00:00"}]
    later = [{"says": "later", "at": DAY + "18:00:00+00:00"}, {"says": "never", "at": None}]
    return {
        "shell": shell(),
        "nodes": 2,
        "gpus": 16,
        "free": "3 GPUs are free",
        "largest": 2,
        "on": "rtx-02",
        "key": [{"looks": ("mine",), "word": "yours"}, {"looks": ("free",), "word": "free"}],
        "rows": [node_row("a100-01"), node_row(health="drained", health_word="Out: driver update")],
        "starts": {
            "tenant": "vision-lab",
            "sizes": [1, 2],
            "rows": [{"name": "any type", "cells": cells}, {"name": "A100", "cells": later}],
        },
        "sharing": "2 GPUs of a100-02 are set aside for small jobs",
        "board": None,
        "board_url": "/cluster/board?h=1",
        "events": EVENTS,
        "can_operate": True,
        "join_command": "./berth node --join https://berth.example:8000 --token TOKEN",
    }


def node_page():
    job = [{"text": "lr-sweep", "href": "/jobs/1044/"}, {"text": ", task 18"}]
    gpu = {"index": 4, "type": "", "job": job, "busy": 84.0, "out": "", "remedy": "", "cordoned": False}
    out = {**gpu, "index": 5, "job": "", "busy": None, "out": "out: memory errors", "cordoned": True}
    return {
        **now(),
        "shell": shell(),
        "head": "8 \u00d7 A100, 80 GB; 64 cores, 512 GB",
        "table": {
            "rows": [{**each, "cells": ["61 GB", "312 W"], "more": ["2.0 kWh"]} for each in (gpu, out)],
            "heads": ["memory", "power"],
            "more_heads": ["energy"],
            "has_busy": True,
        },
        "without": [{"text": "1 job without a GPU holds 2 of 64 cores."}],
        "node_name": "a100-02",
        "limits": {
            "digest": "cores; not disk",
            "rows": [
                {"label": "CPU cores", "held": True, "how": "a job never gets more than it holds", "cause": "cgroup2"},
                {"label": "Disk", "held": False, "how": "the file system has no quotas", "cause": ""},
            ],
        },
        "facts": [{"label": "Agent", "value": "0.1.0", "at": DAY + "07:00:00+00:00"}],
        "busy": [{"name": "gpu", "title": "GPU use", "note": "mean", "url": "/figures/node-gpu"}],
        "plots": [{"name": "power", "title": "Power", "note": "of its GPUs", "url": "/figures/power"}],
        "events": [*EVENTS, {"at": DAY + "06:00:00+00:00", "rich": [*job, {"text": " started."}]}],
    }


def queue():
    starts = {"earliest": DAY + "14:05:00+00:00", "latest": None, "median": DAY + "14:12:00+00:00", "passed": False}
    own = {
        "name": "vit-l16-finetune",
        "number": 1042,
        "url": "/jobs/1042/",
        "tenant": "vision-lab",
        "count": 1,
        "needs": "4 A100",
        "reason": "gpus-scattered",
        "said": "4 free, but on two nodes",
        "waited_s": 4380.0,
        "starts": starts,
        "place": {"place": 3, "queue": "large GPU jobs", "queue_length": 12},
        "lr": 1.33,
    }
    array = {**own, "count": 12, "starts": {**starts, "median": None}, "place": None, "lr": None}
    late = {**own, "starts": {**starts, "passed": True}}
    foreign = {**own, "name": "another tenant", "url": None, "tenant": None, "said": None, "starts": None}
    share = {
        "name": "vision-lab",
        "held": 4.0,
        "total": 16.0,
        "share": 0.25,
        "note": "100.0 % with its considered jobs",
    }
    return {
        "queue": {
            "sentence": [{"text": "6 jobs wait", "bold": True}, {"text": ", 3 of them yours."}],
            "rows": [own, array, late, foreign],
            "choices": [{"label": "Mine", "url": "/queue/?whose=mine", "selected": False}],
            "whose": "",
            "paging": {"summary": "1-25 of 30", "previous_url": None, "next_url": "/queue/?page=2"},
            "can_operate": True,
            "divided": {
                "digest": "12 large GPU jobs",
                "url": "/rounds/plannings/5118/",
                "at": DAY + "13:36:00+00:00",
                "queues": ["Large GPU jobs: 12 wait."],
                "shares": [share],
                "kept": [[{"text": "#1042", "href": "/jobs/1042/"}, {"text": " vit: 4 GPUs on a100-01."}]],
                "aside": "Not counted: 1 held.",
                "record": "Past start ranges held 83 % of the time.",
            },
            "query": "?page=2",
        }
    }
