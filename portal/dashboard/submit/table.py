"""The submit form's fields as a table: what each is called, how wide it is, and what its help says."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Field:
    """One field. `width` is columns out of 12; an empty `placeholder` shows none."""

    name: str
    label: str
    width: int
    help: str = ""
    kind: Literal["text", "number", "textarea", "select", "check", "cards"] = "text"
    placeholder: str = ""
    mono: bool = False
    required: bool = False


FIELDS = (
    Field("name", "Name", 5, placeholder="from the command"),
    Field("model_label", "Model label", 4, "Jobs with the same label share their measured speeds."),
    Field("tenant", "Tenant", 3, kind="select"),
    Field(
        "command",
        "Command",
        8,
        "The node runs it with /bin/sh.",
        "textarea",
        placeholder="python train.py --epochs 30",
        mono=True,
        required=True,
    ),
    Field("workdir", "Working directory", 4, "Empty: the job's own directory.", mono=True),
    Field(
        "git_url",
        "Repository",
        8,
        "Its URL, without a password. The node fetches it before the command, which starts in it.",
        placeholder="https://host/group/name.git",
        mono=True,
    ),
    Field("git_ref", "Branch, tag or commit", 4, placeholder="the default branch", mono=True),
    Field("git_secret", "Secret that may read it", 6, "A token, NAME:PASSWORD or a private key.", "select"),
    Field("git_submodules", "With its submodules", 6, "From the same server.", "check"),
    Field(
        "code_path",
        "Folder on the nodes",
        8,
        "An absolute path. The command starts there.",
        placeholder="/shared/lena/aerial",
        mono=True,
    ),
    Field("software", "Software", 4, kind="select"),
    Field("software_path", "Its directory, file or image", 8, mono=True, placeholder="/opt/venvs/mine"),
    Field(
        "requirements",
        "Requirements",
        8,
        "As in requirements.txt, a package a line. The job's log tells how they are built.",
        "textarea",
        placeholder="numpy==1.26.4",
        mono=True,
    ),
    Field("category", "Category", 12, kind="cards"),
    Field("pipelined", "Pipelined", 6, "Loads the next batch while the GPU computes.", "check"),
    Field("heavy", "Heavy work between iterations", 6, "For example augmentation or evaluation on the CPU.", "check"),
    Field(
        "instrumented",
        "Records its iterations",
        6,
        "It uses berth_instrument. If it accepts several sizes, it is first profiled on one idle GPU of each type "
        "for at most a minute.",
        "check",
    ),
    Field(
        "checkpointable",
        "Checkpointable",
        6,
        "May be stopped and resumed. It saves its work within its grace after SIGTERM.",
        "check",
    ),
    Field("restartable", "Restartable", 6, "May start again from the beginning after its node is lost.", "check"),
    Field("parameters", "Model parameters", 4, kind="number"),
    Field("gpu_types", "GPU types", 3, kind="select"),
    Field("batch_size", "Batch per GPU", 3, "The same at every size.", "number"),
    Field("samples", "Total samples", 3, kind="number"),
    Field(
        "learning_rate",
        "Learning rate",
        4,
        "One number, or one for each size, such as 1: 1e-4, 2: 2e-4.",
        placeholder="none given",
    ),
    Field("learning_rate_at", "At how many GPUs", 3, "The size for which this rate is right.", "number"),
    Field("learning_rate_rule", "At other sizes", 5, kind="select"),
    Field("expected_s", "Expected duration", 3, "For example 40 min or 6 h. It helps to order the queue."),
    Field("cores", "CPU cores per GPU", 3, "Of a CPU job: in all.", "number"),
    Field(
        "shareable",
        "May share a GPU",
        12,
        "Runs beside others, with a part of one GPU, where GPUs are shared.",
        "check",
    ),
    Field("gpu_share", "Share of the GPU", 4, "Of its compute: 25 % or 0.25.", placeholder="25 %"),
    Field("gpu_memory", "GPU memory", 4, "For example 4 GiB. A job that uses more is ended.", placeholder="4 GiB"),
    Field("latency", "Somebody waits for its answers", 12, "It never gets less GPU memory than it asks for.", "check"),
    Field("cores_exactly", "Exactly these cores", 6, "Never fewer at the start, and never tuned.", "check"),
    Field("memory", "Memory", 3, "For example 24 GiB. A job that uses more is ended.", placeholder="no limit"),
    Field("disk", "Disk", 3, "For example 50 GiB: files, logs and checkpoints. A job that uses more is ended."),
    Field("time_limit", "Time limit", 3, "For example 10 h or 30 min.", placeholder="none"),
    Field(
        "idle_timeout",
        "Idle time-out",
        3,
        "For example 30 min: ended when it was not used for so long.",
        placeholder="none",
    ),
    Field("grace", "Grace", 3, "For example 90 s: from SIGTERM, when it is to stop, to SIGKILL.", placeholder="30 s"),
    Field("priority", "Priority", 3, "It orders your tenant's own jobs only.", "number", placeholder="0"),
    Field("retries", "Retries", 3, "How often it starts again after a failure.", "number", placeholder="0"),
    Field("array", "Tasks of an array", 3, "Each task finds its number in BERTH_ARRAY_INDEX.", "number"),
    Field("array_limit", "Tasks at once", 3, "At most this many wait or run.", "number"),
    Field(
        "dependencies",
        "After jobs",
        6,
        "12: once it completed; any:12: ended; notok:12: failed; singleton: once your earlier jobs of its name ended.",
        mono=True,
    ),
    Field(
        "inputs",
        "Begins with",
        6,
        "Artefacts of earlier jobs, a line each: 41:checkpoints/ is a folder, 41:last.pt as start.pt gives another name.",
        "textarea",
        placeholder="41:model/last.pt as start.pt",
        mono=True,
    ),
    Field(
        "artefacts",
        "Also keeps",
        6,
        "Files of its directory beside those in $BERTH_ARTEFACTS, such as out/*.pt, each on a line of its own.",
        "textarea",
        mono=True,
    ),
    Field(
        "log_matches",
        "Tell me when its log says",
        6,
        "A text in a line of the log; * is any text between. Each on a line of its own; choose Log match on your account page.",
        "textarea",
        placeholder="loss * nan",
        mono=True,
    ),
    Field("labels", "Labels", 6, "NAME=value, each on a line of its own.", "textarea", mono=True),
    Field("secrets", "Secrets", 6, kind="textarea", placeholder="HF_TOKEN=hf-token", mono=True),
    Field("env", "Environment", 6, "NAME=value, each on a line of its own.", "textarea", mono=True),
)
"""In the form's order. Help and placeholders that depend on the cluster or on other fields are filled in by `form`."""
