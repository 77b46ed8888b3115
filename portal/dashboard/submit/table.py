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
    Field("model_label", "Model label", 4, "Jobs with one label share measured throughput."),
    Field("tenant", "Tenant", 3, kind="select"),
    Field(
        "command",
        "Command",
        8,
        "Run by /bin/sh on the node.",
        "textarea",
        placeholder="python train.py --epochs 30",
        mono=True,
        required=True,
    ),
    Field("workdir", "Working directory", 4, "Empty: the job's own directory.", mono=True),
    Field("category", "Category", 12, kind="cards"),
    Field("pipelined", "Pipelined", 6, "Loads the next batch while the GPU computes.", "check"),
    Field("heavy", "Heavy work between iterations", 6, "Augmentation or evaluation on the CPU.", "check"),
    Field(
        "instrumented",
        "Records its iterations",
        6,
        "With berth_instrument. With several sizes it is first profiled on one idle GPU of each type, for a minute at most.",
        "check",
    ),
    Field("checkpointable", "Checkpointable", 6, "May be stopped and resumed; saves on SIGTERM within 30 s.", "check"),
    Field("restartable", "Restartable", 6, "May be started again from zero after a node is lost.", "check"),
    Field("parameters", "Model parameters", 4, kind="number"),
    Field("gpu_types", "GPU types", 3, kind="select"),
    Field("batch_size", "Batch a GPU", 3, "Stays the same at every size.", "number"),
    Field("samples", "Total samples", 3, kind="number"),
    Field("learning_rate", "Learning rate", 4, "Or one for each size: 1: 1e-4, 2: 2e-4.", placeholder="none given"),
    Field("learning_rate_at", "At so many GPUs", 3, "The rule's reference.", "number"),
    Field("learning_rate_rule", "As the size changes", 5, kind="select"),
    Field("expected_s", "Expected duration", 3, "As 40 min or 6 h; helps to rank it."),
    Field("cores", "CPU cores a GPU", 3, "CPU only: in all.", "number"),
    Field("cores_exactly", "Exactly these cores", 6, "Never fewer at the start, and never tuned.", "check"),
    Field("memory", "Memory", 3, "As 24 GiB; more ends the job.", placeholder="no limit"),
    Field("disk", "Disk", 3, "As 50 GiB: its files, logs, checkpoints; more ends the job."),
    Field("time_limit", "Time limit", 3, "As 10 h or 30 min.", placeholder="none"),
    Field("priority", "Priority", 3, "Orders only your tenant's own jobs.", "number", placeholder="0"),
    Field("retries", "Retries", 3, "Started again after a failure.", "number", placeholder="0"),
    Field("array", "Array of", 3, "Tasks; each gets BERTH_ARRAY_INDEX.", "number"),
    Field("array_limit", "At once", 3, "At most so many tasks.", "number"),
    Field("dependencies", "After jobs", 6, "Ids; it starts when they have completed.", mono=True),
    Field("labels", "Labels", 6, "NAME=value, one a line.", "textarea", mono=True),
    Field("env", "Environment", 6, "NAME=value, one a line.", "textarea", mono=True),
)
"""In the form's order. Help and placeholders that depend on the cluster or on other fields are filled in by `form`."""
