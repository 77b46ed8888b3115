"""Contexts of the jobs', rounds' and account pages."""

from __future__ import annotations

from portal.pages.dashboard.jobs.saved import COLUMNS, USUAL
from portal.pages.dashboard.submit.form import fields_make, grouped
from tests.portal.pages.dashboard.samples import DAY, shell


def row(number, state, name, tenant="vision-lab", **changes):
    return {
        "id": number,
        "url": f"/jobs/{number}/",
        "name": name,
        "state": state,
        "tenant": tenant,
        "owner": "lena.brandt",
        "gpus": [{"text": "needs ", "note": True}, {"text": "{4, 8}"}],
        "cores": 16,
        "where": None,
        "reason": None,
        "detail": None,
        "waited_s": 4380,
        "lr": 0.33,
        "progress_percent": None,
        "started_at": None,
        "ended_at": None,
        "starts": None,
        "ends": None,
        "category": "cv",
        "labels": "team=blue",
        "priority": 0,
        "submitted_at": DAY + "09:00:00+00:00",
        "array": None,
        "actions": ["cancel", "hold", "priority"],
        **changes,
    }


def rows():
    running = {
        "where": "a100-01",
        "gpus": [{"text": "4", "bold": True}, {"text": " of {2, 4}", "note": True}],
        "started_at": DAY + "11:48:00+00:00",
        "progress_percent": 83.0,
        "actions": ["cancel"],
    }
    ended = {
        "gpus": "2",
        "where": "rtx-01",
        "started_at": DAY + "09:44:00+00:00",
        "ended_at": DAY + "10:57:00+00:00",
        "actions": [],
    }
    array = {
        "range": "[0-11]",
        "words": "3 done, 4 run, 5 wait",
        "segments": [{"token": "done", "count": 3}, {"token": "run", "count": 4}, {"token": "wait", "count": 5}],
        "tasks_url": "/jobs/?parent=1044",
    }
    return [
        row(1044, "PENDING", "wav2vec-sweep", "speech-co", reason="tenant-quota", lr=1.98, array=array),
        row(1033, "PENDING", "swin-l-detect", reason="gpus-scattered", lr=0.5),
        row(1042, "PENDING", "vit-l16-finetune", reason="gpus-scattered", progress_percent=61.0),
        row(
            1047, "PENDING", "bert-squad-ft", "nlp-startup", reason="dependency", detail="#1036", waited_s=None, lr=None
        ),
        row(
            1041,
            "HELD",
            "gpt2-ablation",
            "nlp-startup",
            detail="by ines.m, 12:58",
            waited_s=None,
            lr=None,
            actions=["cancel", "release"],
        ),
        row(1050, "STARTING", "swin-eval", where="rtx-01", gpus="2", actions=["cancel"]),
        row(1031, "RUNNING", "resnet152-in21k", **running),
        row(
            1049,
            "RUNNING",
            "coco-to-webdataset",
            **{**running, "gpus": "CPU", "where": "rtx-02", "progress_percent": None},
        ),
        row(1039, "PREEMPTED", "tokenise-c4", "nlp-startup", detail="for planning 5110"),
        row(1020, "FAILED", "hubert-layerwise", "speech-co", **{**ended, "detail": "exit 1"}),
        row(1030, "OUT_OF_MEMORY", "segformer-b5", **{**ended, "detail": "23.7 of 24 GB; try batch 6"}),
        row(1026, "TIMEOUT", "rnnt-librispeech", "speech-co", **{**ended, "detail": "4 h reached"}),
        row(1024, "CANCELLED", "clip-probe", **{**ended, "detail": "by lena.brandt"}),
        row(1023, "NODE_FAIL", "sam-distil", **{**ended, "detail": "a100-02 lost"}),
        row(1028, "COMPLETED", "dinov2-probe", **ended),
    ]


def head(key, label, active=None):
    return {"key": key, "label": label, "url": f"?order={key}", "active": active, "css": COLUMNS[key].css}


def job_list():
    counts = [
        (None, "All", 828),
        ("RUNNING", "Running", 14),
        ("PENDING", "Waiting", 10),
        ("HELD", "Held", 1),
        ("COMPLETED", "Completed", 781),
        ("FAILED", "Failed", 12),
        ("TIMEOUT", "Timed out", 3),
        ("OUT_OF_MEMORY", "Out of memory", 2),
        ("CANCELLED", "Cancelled", 5),
        ("NODE_FAIL", "Node failed", 0),
    ]
    return {
        "shell": shell(),
        "owners": [
            {"value": "", "label": "Everyone", "selected": True, "url": "?"},
            {"value": "me", "label": "Mine", "selected": False, "url": "?owner=me"},
        ],
        "chips": [
            {"state": s, "label": label, "count": n, "url": f"?state={s or ''}", "selected": s is None}
            for s, label, n in counts
        ],
        "search": "",
        "hidden_filters": [("state", "")],
        "filters": [
            {"label": "Ended within", "value": "24 h", "choices": [], "clear_url": "?"},
            {
                "label": "Tenant",
                "value": "any of 3",
                "choices": [
                    {"value": "v", "label": "vision-lab", "selected": False, "url": "?tenant=vision-lab", "count": 5}
                ],
                "clear_url": None,
            },
            {"label": "Reason", "value": "any", "choices": [], "clear_url": None},
        ],
        "order_note": "Grouped by state, then LR. Filters are in the address.",
        "fields": {
            "on": [("Ended", "in the last 24 h", "?")],
            **dict.fromkeys(("owner", "node", "label", "since", "until"), ""),
            "category": [("cv", "cv", False)],
            "when": [("ended", "Ended", True)],
            "within": [("24h", "the last 24 h", True)],
            "kept": [],
        },
        "columns": [head(key, COLUMNS[key].label, "desc" if key == "lr" else None) for key in USUAL],
        "picker": {
            "choices": [(name, each.label, name in USUAL, name == "job") for name, each in COLUMNS.items()],
            "usual": True,
            "of_view": None,
        },
        "views": {"choices": [], "name": None, "own": False, "delete_url": None, "shares": ["vision-lab"]},
        "rows": rows(),
        "paging": {"summary": "1-15 of 671 jobs", "previous_url": None, "next_url": "?page=2"},
        "query_ms": 42,
        "empty": "No job matches.",
        "csv_url": None,
        "query": "?state=",
    }


def plot(name, title, note, legend=()):
    return {"name": name, "title": title, "note": note, "url": f"/figures/{name}", "legend": list(legend)}


def job():
    spans = [
        ("waiting", "09:40", "10:00", 0, "20 min", "submitted"),
        ("running", "10:00", "10:30", 4, "4", "attempt 1, a100-01"),
        ("running", "10:30", "11:12", 8, "8 GPUs", None),
        ("running", "11:12", "11:48", 4, "4", None),
        ("waiting", "11:48", None, 0, "waiting 53 min", "preempted"),
    ]
    return {
        "id": 1042,
        "name": "vit-l16-finetune",
        "state": "PENDING",
        "since": {"at": DAY + "11:48:00+00:00", "ended": False, "attempt": "attempt 2"},
        "actions": [
            {"verb": "hold", "label": "Hold", "confirm": None},
            {"verb": "requeue", "label": "Requeue", "confirm": None},
            {"verb": "cancel", "label": "Cancel", "confirm": "Cancel job 1042?"},
        ],
        "relaunch_url": "/jobs/new?from=1042",
        "template": {"again_url": None, "words": None, "save_url": "/templates/new?from=1042"},
        "facts": [
            {"label": "Tenant", "value": "vision-lab"},
            {"label": "Owner", "value": "lena.brandt"},
            {"label": "GPUs", "value": "4 or 8"},
            {"label": "Cores", "value": "4 a GPU"},
            {"label": "Checkpoint", "value": "step 41 200,", "at": DAY + "11:48:04+00:00"},
            {"label": "Time limit", "value": "8 h", "note": "1 h 48 min used"},
        ],
        "why": {
            "title": "Why it waits",
            "reason": "gpus-scattered",
            "planning_number": 5118,
            "planning_url": "/rounds/plannings/5118/",
            "at": DAY + "12:36:00+00:00",
            "sentence": [
                {"text": "Waiting: 3rd of vision-lab's 3 jobs. It needs "},
                {"text": "4 GPUs on one node", "bold": True},
                {"text": "; the largest free block is "},
                {"text": "2", "bold": True},
                {"text": " (a100-01 and rtx-01)."},
            ],
            "note": None,
            "ahead": [
                {"text": "Place 3 of 9 in the queue for jobs of 4 GPUs and more", "href": "/queue/#queue-gpu-large"},
                {"text": "."},
            ],
            "starts": {
                "earliest": "2026-11-21T14:05:00+00:00",
                "latest": "2026-11-21T14:20:00+00:00",
                "median": "2026-11-21T14:12:00+00:00",
                "passed": False,
                "record": "Past start ranges held 83 % of the time.",
            },
            "remedy": "With 2 GPUs it would fit on a100-01 now.",
        },
        "speed": {
            "facts": [
                {"label": "Done", "value": "61%", "note": "781,000 of 1,281,167 samples"},
                {"label": "Left", "value": "1.2 h", "note": "at its present speed"},
            ],
            "rows": [
                {
                    "number": 2,
                    "gpus": 4,
                    "measured": 1804.2,
                    "predicted": 1760.0,
                    "source": "measured on this GPU type",
                    "deviation": 0.025,
                    "iterations": 12040,
                    "lost": None,
                },
                {
                    "number": 1,
                    "gpus": 2,
                    "measured": 951.0,
                    "predicted": None,
                    "source": "assumed: nothing was known of its speed",
                    "deviation": None,
                    "iterations": 410,
                    "lost": 1280.0,
                },
            ],
            "empty": None,
        },
        "tuning": {
            "attempt": 2,
            "steps": [
                {
                    "number": 1,
                    "cores": 3,
                    "utilisation": 91.2,
                    "samples_per_s": 900.0,
                    "from_at": DAY + "11:50:00+00:00",
                    "kept": False,
                },
                {
                    "number": 2,
                    "cores": 2,
                    "utilisation": None,
                    "samples_per_s": None,
                    "from_at": DAY + "11:50:00+00:00",
                    "kept": True,
                },
            ],
            "most": 3,
            "fastest": 900.0,
            "by_throughput": True,
            "result": 2,
            "words": "2 cores a GPU: found best",
        },
        "waiting": None,
        "asks_what_if": True,
        "numbers": {
            "classes": "2 more kinds of candidates, all worth less.",
            "figures": [
                {"label": "Wait", "value": "1 h 13 min", "note": "20 min queued + 53 min stopped"},
                {"label": "Age, expected run time", "value": "3 h 40 min", "note": "estimator: assumed"},
                {"label": "Latency ratio, wait / age", "value": "0.33", "note": "cluster mean 1.25"},
                {"label": "Rank", "value": "3 of 3", "note": "in vision-lab; 4 of 4 in window"},
                {"label": "Window", "value": "inside", "note": "closes here: 16 of 16 GPUs"},
            ],
            "throughput_unit": "img/s",
            "candidates": [
                {
                    "configuration": "not placed",
                    "gpus": None,
                    "cores": None,
                    "throughput": None,
                    "goodness": None,
                    "weight": 0.0,
                    "objective": 1.71,
                    "loss": None,
                    "verdict": "chosen",
                    "result": "",
                },
                {
                    "configuration": "a100-01 \u00d7 4",
                    "gpus": "4 / 6",
                    "cores": "16 / 22",
                    "throughput": "1 240",
                    "goodness": 1.0,
                    "weight": 0.33,
                    "objective": 1.01,
                    "loss": -0.7,
                    "verdict": "best-rejected",
                    "result": "would shrink #1031 from 4 to 2 GPUs",
                },
                {
                    "configuration": "rtx-01 \u00d7 4",
                    "gpus": "4 / 2",
                    "cores": "16 / 14",
                    "throughput": None,
                    "goodness": None,
                    "weight": None,
                    "objective": None,
                    "loss": None,
                    "verdict": "not-generated",
                    "result": "not generated: 2 GPUs short",
                },
            ],
            "binding": [
                {"text": "Binding constraint: GPUs of a100-01.", "bold": True},
                {"text": " 4 (#1031) + 4 (this job) = 8 > 6."},
            ],
            "json_url": "/api/v1/jobs/1042/explain",
        },
        "timeline": {
            "start": DAY + "09:30:00+00:00",
            "end": DAY + "13:30:00+00:00",
            "now": DAY + "12:41:00+00:00",
            "spans": [
                {
                    "kind": kind,
                    "from_at": f"{DAY}{a}:00+00:00",
                    "to_at": f"{DAY}{b}:00+00:00" if b else None,
                    "gpus": gpus,
                    "label": label,
                    "caption": caption,
                }
                for kind, a, b, gpus, label, caption in spans
            ],
        },
        "plots": [
            plot("gpu", "GPU use, %", "mean and range of its GPUs"),
            plot(
                "cores",
                "CPU cores",
                "used against allocated",
                [{"label": "allocated", "token": "text-2", "kind": "dashed"}],
            ),
            plot("memory", "Memory, GiB", "its limit is dotted"),
        ],
        "attempts": [
            {
                "number": 1,
                "state": "PREEMPTED",
                "where": "a100-01",
                "gpus": "4 GPUs",
                "cores": 16,
                "started_at": DAY + "10:00:00+00:00",
                "ended_at": DAY + "11:48:00+00:00",
                "run_s": 6480.0,
                "exit": "exit 0",
                "cause": "after a checkpoint",
                "restart_s": 4.2,
            },
        ],
        "events": [
            {
                "at": DAY + "12:36:00+00:00",
                "text": [{"text": "Planning 5118: not placed, "}, {"text": "gpus-scattered", "code": True}],
            },
            {"at": DAY + "11:48:06+00:00", "text": "Attempt 1 ended, exit 0 after checkpoint"},
        ],
        "files": [{"name": "train.py", "size_bytes": 1200}],
        "log": {
            "url": "/jobs/1042/log",
            "download_url": "/jobs/1042/log/download",
            "attempts": [{"value": "1", "label": "Attempt 1", "selected": True}],
            "ranks": [
                {"value": "0", "label": "Rank 0", "selected": True},
                {"value": "1", "label": "Rank 1", "selected": False},
            ],
            "size_bytes": 2400000,
            "empty": "Nothing yet.",
        },
    }


def job_detail():
    return {"shell": shell(streams=("cluster", "job:1042")), "job": job()}


def field(name, label, kind="text", value="", **more):
    return {"name": name, "label": label, "kind": kind, "value": value, **more}


def submit():
    values = {
        "name": "convnext-b-aerial",
        "command": "torchrun train.py",
        "memory_mib": "24 GiB",
        "time_limit_s": "0 h",
    }
    errors = {"time_limit_s": "The time limit must be at least 1 s: give for example 10 h."}
    effects = {"checkpointable": "elastic", "category:cv": "your past: 5"}
    chosen = {"tenants": ["vision-lab"], "gpu_types": [], "software": (), "secrets": ()}
    fields = fields_make(values, **chosen, errors=errors, effects=effects)
    return {
        "shell": shell(),
        "fields": fields,
        "groups": grouped(fields),
        "problems": [
            {
                "field": "time_limit_s",
                "label": "Time limit",
                "target": "id_time_limit_s",
                "detail": "Give for example 10 h.",
            },
            {"field": "", "label": None, "target": None, "detail": "vision-lab has 5 jobs waiting and may have 5."},
        ],
        "files": {
            "kept": "",
            "files": [{"name": "train.py", "size_bytes": 1200}],
            "error": None,
            "max_uploaded": 209715200,
            "upload": "",
            "sent": "[]",
            "max_files": 1000,
            "max_bytes": 1048576,
        },
        "gpu_modes": [
            {"value": "set", "label": "Set", "selected": True},
            {"value": "range", "label": "Range", "selected": False},
            {"value": "cpu", "label": "CPU only", "selected": False},
        ],
        "gpu_columns": ["A100 80 GB", "RTX 3090", "Idle block now"],
        "gpu_choices": [
            {"count": n, "checked": n < 8, "cells": [a, b, c], "fits": c == "yes"}
            for n, a, b, c in [
                (1, "16", "8", "yes"),
                (2, "8", "4", "yes"),
                (4, "4", "2", "no"),
                (8, "2", "two nodes", "no"),
            ]
        ],
        "gpu_error": None,
        "gpu_min": "1",
        "gpu_max": "4",
        "gpu_note": None,
        "dry_run": {
            "at": DAY + "12:41:19+00:00",
            "outcome": "placeable",
            "word": "Placeable",
            "sentence": [
                {"text": "Would start on "},
                {"text": "rtx-01", "bold": True},
                {"text": " with "},
                {"text": "2 GPUs", "bold": True},
                {"text": " and 8 cores."},
            ],
            "rows": [
                {"configuration": "rtx-01 \u00d7 2", "text": "8 of 14 idle cores"},
                {"configuration": "a100-02 \u00d7 1", "text": "4 cores needed, 1 idle"},
            ],
            "facts": [{"label": "vision-lab after this", "value": "8 of 20 GPUs"}],
        },
        "request_text": {
            "curl": "curl -X POST $BERTH_URL/api/v1/jobs \\\n -H 'Authorization: Bearer $BERTH_TOKEN' \\\n --json '{\"name\": \"convnext-b-aerial\"}'",
            "python": "import httpx\n",
        },
        "submit_note": "Submits as vision-lab.",
        "imported": {
            "text": "#!/bin/bash\n#SBATCH --hold\n",
            "lines": [
                {
                    "line": 2,
                    "text": "#SBATCH --hold",
                    "verdict": "refused",
                    "detail": "It cannot be held.",
                    "field": None,
                }
            ],
            "left_out": ["The form has no field for epochs."],
            "problems": ["command: it is missing."],
        },
    }


def planning_row(number, **changes):
    return {
        "number": number,
        "url": f"/rounds/plannings/{number}/",
        "at": DAY + "12:36:00+00:00",
        "kind": "fill",
        "trigger": "tick",
        "policy": "hops",
        "queue": 9,
        "window": 4,
        "placed": 1,
        "candidates": 6,
        "gap": 0.0,
        "solve_ms": 440,
        "total_ms": 520,
        "fragments": 5,
        "outcome": "applied",
        "outcome_word": "applied",
        **changes,
    }


def rounds():
    return {
        "shell": shell(),
        "subtitle": "each planning decides which jobs run where",
        "rows": [
            planning_row(
                5118, placed=0, outcome="nothing", outcome_word="nothing placed", before=2, since=DAY + "12:35:50+00:00"
            ),
            planning_row(5117, outcome="greedy", outcome_word="greedy: time limit"),
            planning_row(
                5116, outcome="failed", outcome_word="failed", window=None, gap=None, solve_ms=None, fragments=None
            ),
            planning_row(5115, kind="re-plan"),
        ],
        "paging": {"summary": "1-4 of 5 118 plannings", "previous_url": None, "next_url": "?page=2"},
        "query": "",
    }


def metrics():
    return {
        "shell": shell(),
        "ranges": [{"value": "1h", "label": "1 h", "selected": True, "url": "/rounds/metrics/"}],
        "range_label": "1 h",
        "plots": [
            {
                "name": "active",
                "title": "Active rates and utilisation",
                "note": "%",
                "url": "/rounds/metrics/figures/active",
                "legend": [{"label": "GPU active", "token": "plot-1", "kind": "line"}],
                "topics": "planning",
            }
        ],
        "rounds": [
            {
                "number": "12",
                "at": "2026-11-20T12:00:00+00:00",
                "length_s": 360.0,
                "cells": [{"text": "85.2", "kept": True}, {"text": None, "kept": False}],
            }
        ],
        "query": "",
        "form": "clock",
    }


def planning():
    return {
        "shell": shell(),
        "planning": planning_row(5118),
        "figures": [
            {"label": "Variables", "value": "46", "note": "12 constraints"},
            {"label": "Objective", "value": "1.71", "note": "bound 1.71"},
            {"label": "Solve", "value": "440 ms", "note": "HiGHS, gap 0"},
        ],
        "parameters": [{"label": "lambda", "value": "1.0"}, {"label": "sigma", "value": "1.4"}],
        "outcomes": [
            {
                "what": "Stopped",
                "job_id": "1041",
                "url": "/jobs/1041/",
                "name": "vit-small",
                "words": "resized from 1 to 4 GPUs",
            },
            {"what": "Stopped", "job_id": None, "url": None, "name": "a job of another tenant", "words": "called back"},
        ],
        "decisions": [
            {
                "rank": 1,
                "job_id": 1033,
                "url": "/jobs/1033/",
                "name": "swin-l-detect",
                "tenant": "vision-lab",
                "lr": 0.5,
                "chosen": True,
                "configuration": "a100-01 \u00d7 4",
                "reason": None,
                "detail": "objective 1.01",
            },
            {
                "rank": 2,
                "job_id": None,
                "url": None,
                "name": "a job of another tenant",
                "tenant": None,
                "lr": 0.33,
                "chosen": False,
                "configuration": None,
                "reason": "gpus-scattered",
                "detail": None,
            },
        ],
        "paging": {"summary": "1\u20132 of 2 decisions", "previous_url": None, "next_url": None},
        "previous_url": "/rounds/plannings/5117/",
        "next_url": None,
    }


def tokens():
    return {
        "shell": shell(),
        "tokens": [
            {
                "id": 1,
                "name": "ci",
                "prefix": "brt_7f3c",
                "tenant": "vision-lab",
                "scopes": "jobs:read jobs:write",
                "created_at": DAY + "08:00:00+00:00",
                "expires_at": None,
                "last_used_at": DAY + "12:00:00+00:00",
                "revoked": False,
            },
            {
                "id": 2,
                "name": "old",
                "prefix": "brt_11aa",
                "tenant": "vision-lab",
                "scopes": "jobs:read",
                "created_at": DAY + "07:00:00+00:00",
                "expires_at": DAY + "09:00:00+00:00",
                "last_used_at": None,
                "revoked": True,
            },
        ],
        "fresh": "brt_7f3c9e10d2c84b1f",
        "fields": {
            "name": field("name", "Name", required=True),
            "tenant": field(
                "tenant", "Tenant", "select", choices=[{"value": "1", "label": "vision-lab", "selected": True}], width=6
            ),
            "expires": field(
                "expires", "Ends", "select", choices=[{"value": "30", "label": "in 30 days", "selected": True}], width=6
            ),
            "scopes": field(
                "scopes",
                "Scopes",
                "checks",
                choices=[
                    {"value": "jobs:read", "label": "jobs:read", "note": "see jobs and logs", "selected": True},
                    {"value": "jobs:write", "label": "jobs:write", "note": "submit and act", "selected": False},
                ],
            ),
        },
    }
