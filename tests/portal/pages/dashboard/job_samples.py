"""Contexts of the jobs', rounds' and account pages."""

from __future__ import annotations

from portal.pages.dashboard.jobs.saved import COLUMNS, USUAL
from portal.pages.dashboard.submit.apart import code_choices
from portal.pages.dashboard.submit.form import fields_make, gpus_context
from portal.pages.dashboard.submit.rows import of_group, rows_context
from tests.portal.pages.dashboard.samples import DAY, shell


def row(number, state, name, tenant="vision-lab", **changes):
    return {
        "id": number,
        "url": f"/jobs/{number}/",
        "name": name,
        "state": state,
        "tenant": tenant,
        "owner": "lena.brandt",
        "gpus": "4 or 8",
        "cores": 16,
        "where": None,
        "reason": None,
        "detail": None,
        "waited_s": 4380,
        "ran_s": None,
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
        "gpus": [{"text": "4", "bold": True}],
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
        "fields": {
            "on": [("Ended", "in the last 24 h", "?")],
            **dict.fromkeys(("owner", "node", "label", "since", "until"), ""),
            "category": [("cv", "cv", False)],
            "tenant": [("vision-lab", "vision-lab", False)],
            "reason": [("gpus-scattered", "free, but not on one node, 2", False)],
            "when": [("ended", "Ended", True)],
            "within": [("24h", "the last 24 h", True)],
            "kept": [],
        },
        "columns": [head(key, COLUMNS[key].label, "desc" if key == "job" else None) for key in USUAL],
        "picker": {
            "choices": [(name, each.label, name in USUAL, name == "job") for name, each in COLUMNS.items()],
            "usual": True,
            "of_view": None,
        },
        "views": {"choices": [], "name": None, "own": False, "delete_url": None, "shares": ["vision-lab"]},
        "rows": rows(),
        "paging": {"summary": "1-15 of 671 jobs", "previous_url": None, "next_url": "?page=2"},
        "empty": "No job matches.",
        "csv_url": None,
        "query": "?state=",
    }


def plot(name, title, note, legend=()):
    return {"name": name, "title": title, "note": note, "url": f"/figures/{name}", "legend": list(legend)}


def job():
    spans = [
        ("waiting", "09:40", "10:00", 0, "20 min", "submitted"),
        ("running", "10:00", "10:30", 4, "4", "a100-01"),
        ("running", "10:30", "11:12", 8, "8 GPUs", None),
        ("running", "11:12", "11:48", 4, "4", None),
        ("waiting", "11:48", None, 0, "waiting 53 min", "preempted"),
    ]
    return {
        "id": 1042,
        "name": "vit-l16-finetune",
        "state": "PENDING",
        "since": {"at": DAY + "11:48:00+00:00", "ended": False, "ran_s": None, "run": "run 2"},
        "line": {
            "gpus": "4 A100",
            "nodes": [{"name": "a100-01", "held_by": ""}],
            "owner": "lena.brandt",
            "ran_s": None,
            "limit_s": 28800,
        },
        "actions": [
            {"verb": "hold", "label": "Hold", "icon": "player-pause", "front": True, "confirm": None},
            {"verb": "requeue", "label": "Let it wait again", "icon": "refresh", "front": False, "confirm": None},
            {"verb": "cancel", "label": "Cancel", "icon": "x", "front": False, "confirm": "Cancel job 1042?"},
        ],
        "relaunch": "edit",
        "relaunch_url": "/jobs/new?from=1042",
        "template": {"again_url": None, "words": None, "save_url": "/templates/new?from=1042"},
        "facts": [],
        "asked": {
            "words": "16 cores, 8 h at most",
            "facts": [
                {"label": "Tenant", "value": "vision-lab"},
                {"label": "Owner", "value": "lena.brandt"},
                {"label": "GPUs", "value": "4 or 8"},
                {"label": "Cores", "value": "4 cores a GPU"},
                {"label": "Checkpoint", "value": "step 41 200,", "at": DAY + "11:48:04+00:00"},
                {"label": "Time limit", "value": "8 h", "note": "1 h 48 min used"},
            ],
        },
        "speed": {
            "words": "1 804 samples/s on 4 GPUs, as expected",
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
        "stage": "waiting",
        "numbers": {
            "words": "waited 0.33 times its run time",
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
        "runs": {
            "words": "1 run, the last on a100-01",
            "rows": [
                {
                    "number": 1,
                    "how": "stopped for another job",
                    "where": "a100-01",
                    "gpus": "4 GPUs",
                    "cores": 16,
                    "started_at": DAY + "10:00:00+00:00",
                    "ended_at": DAY + "11:48:00+00:00",
                    "run_s": 6480.0,
                    "cause": "after a checkpoint",
                    "restart_s": 4.2,
                },
            ],
            "profiles": [],
        },
        "events": [
            {
                "at": DAY + "12:36:00+00:00",
                "text": [{"text": "Planning 5118: not placed, "}, {"text": "gpus-scattered", "code": True}],
            },
            {"at": DAY + "11:48:06+00:00", "text": "Attempt 1 ended, exit 0 after checkpoint"},
        ],
        "over": None,
        "strip": None,
        "ran": {
            "title": "What ran",
            "command": "torchrun train.py",
            "code": {"name": "vision/aerial", "title": "git", "url": None, "commit": "9f3c1e7", "ref": "main"},
            "files": {
                "first": [{"name": "train.py", "size_bytes": 1200, "url": "/jobs/1042/sent?path=train.py"}],
                "others": [{"name": "b.yaml", "size_bytes": 12, "url": "/jobs/1042/sent?path=b.yaml"}],
                "more": 1,
                "unnamed": 0,
            },
            "variables": {"first": [("EPOCHS", "30")], "others": [("BATCH", "128")], "more": 1},
            "secrets": [("WANDB_API_KEY", "wandb")],
            "software": ("3 requirements", "built on the node"),
            "making": False,
            "line": "berth submit -- 'torchrun train.py'",
            "relaunch_url": "/jobs/new?from=1042",
        },
        "log": {
            "url": "/jobs/1042/log",
            "download_url": "/jobs/1042/log/download",
            "attempts": [{"value": "1", "label": "run 1", "selected": True}],
            "ranks": [
                {"value": "0", "label": "part 0", "selected": True},
                {"value": "1", "label": "part 1", "selected": False},
            ],
            "size_bytes": 2400000,
            "empty": "Nothing yet.",
        },
    }


def job_waiting():
    """The cards of a job that waits, with a change of each kind."""
    at = DAY + "14:12:00+00:00"
    row = {
        "tone": "",
        "words": "Accept 2 GPUs too",
        "small": "53 % as fast",
        "now": True,
        "about": at,
        "where": "on rtx-02",
    }
    row |= {"over": at, "limit": None, "difference": "12 min sooner", "action": None, "button": "Accept 2 GPUs"}
    row |= {"others": "No other job.", "change": "size", "value": "2", "primary": True, "said": "This no longer holds."}
    stands = {
        "tone": "on",
        "words": "As it stands",
        "over": None,
        "action": "your job now",
        "about": None,
        "now": False,
    }
    bad = {
        **row,
        "tone": "bad",
        "button": None,
        "action": "not offered",
        "over": None,
        "limit": at,
        "limit_words": "6 h",
    }
    step = {
        "at": at,
        "cells": [True, False],
        "free": 1,
        "need": 2,
        "job": "#1058",
        "url": "/jobs/1058/",
        "text": "ends",
    }
    steps = [{**step, "at": None, "now": True, "done": True}, {**step, "url": None, "due": True}]
    waiting = {
        "number": "1061",
        "about": at,
        "before": "about",
        "range": {"earliest": at, "median": at, "latest": None, "passed": False},
        "record": "Of the last 20 such ranges 17 held.",
        "cause": "",
        "sentence": [{"text": "It needs "}, {"text": "2 A100 on one node", "bold": True}, {"text": "."}],
        "note": None,
        "steps": {
            "node": "a100-01",
            "rows": [*steps, {**step, "last": True, "starts": True}],
            "more": {"count": 3, "at": at},
        },
        "changes": {
            "at": at,
            "rows": [row, stands, bad],
            "foot": ["One more was tried and changes nothing: fewer cores."],
            "note": None,
            "pending": False,
            "said": "",
        },
    }
    return {"waiting": waiting}


def job_ended():
    remedy = {
        "words": "Add timm.",
        "note": "Built once.",
        "button": "Add timm and run again",
        "post": "/x",
        "url": None,
    }
    ended = {
        "sentence": [{"text": "Its software has no package "}, {"text": "timm", "bold": True}, {"text": "."}],
        "kept": "",
        "lines": [{"text": "Traceback", "tells": False}, {"text": "No module named 'timm'", "tells": True}],
        "remedies": [remedy, {**remedy, "post": None, "url": "/jobs/new?from=1"}],
    }
    return {"job": {"id": 1067, "ended": ended}}


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
        "first": [fields["name"], fields["tenant"]],
        "rows": rows_context(fields, values, None, {"3.11"}),
        "sources": [(kind, of_group(fields, kind)) for kind in ("git", "path")],
        "code_from": code_choices("git"),
        "gpus": gpus_context({"gpus": [1, 3]}),
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
        "gpu_error": None,
        "verdict": {
            "tone": "wait",
            "title": "Starts about",
            "at": DAY + "12:41:19+00:00",
            "cause": "4 A100, 1 free",
            "earliest": DAY + "12:40:00+00:00",
            "latest": DAY + "13:10:00+00:00",
            "over": DAY + "14:10:00+00:00",
            "asks_others": True,
        },
        "of_form": False,
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
            "amiss": True,
            "digest": "1 refused",
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
        "first_at": "2026-11-20T08:20:00+00:00",
        "plots": [
            {
                "name": "gpu",
                "title": "GPU active rate",
                "note": "share of GPUs held, by type",
                "url": "/rounds/metrics/figures/gpu",
                "topics": "planning",
            }
        ],
        "nodes": {
            "by": "node",
            "rows": [
                {
                    "name": "a100-01",
                    "url": "/cluster/a100-01/",
                    "has": "8 × A100",
                    "gpus": 0.88,
                    "cores": None,
                    "busy": 74.0,
                    "free": 1,
                }
            ],
        },
        "query": "",
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
