"""NVIDIA's Xid errors, by its catalogue's immediate action ("Analyzing Xid Errors with the Xid Catalog", column Immediate
Action, https://docs.nvidia.com/deploy/xid-errors/). Names are shortened.

A number that is not listed here asks for nothing but a restart of the program, or for nothing at all: most come from the
program itself (13, 31, 43, 69), and cost its node nothing.
"""

from __future__ import annotations

from typing import Literal

Class = Literal["app", "watch", "reset", "reboot", "support"]
RESET = "Reset the GPU (`nvidia-smi --gpu-reset -i {gpu}`) or reboot the node; then resume the GPU."
REBOOT = "Reboot the node. If it comes again, have the GPU, its power and its slot checked. Then resume the GPU."
SUPPORT = "Look at the driver's lines in the kernel's log (`dmesg | grep Xid`); ask NVIDIA or the vendor. Then resume the GPU."
WATCH = "None now. If it comes often, ask NVIDIA or the vendor."
APP = "None here: a program's own error. Its owner should look at it."

XIDS: dict[int, tuple[str, Class]] = {
    13: ("graphics engine exception", "app"),
    31: ("memory page fault", "app"),
    43: ("GPU stopped processing a program", "app"),
    45: ("cleanup after an earlier error", "app"),
    46: ("GPU stopped processing", "reset"),
    48: ("double-bit ECC error", "reset"),
    54: ("auxiliary power is not connected", "support"),
    62: ("internal micro-controller halt", "reset"),
    63: ("memory rows remapped", "watch"),
    64: ("memory rows could not be remapped", "reset"),
    68: ("video decoder exception", "app"),
    69: ("graphics engine class error", "app"),
    74: ("NVLink error", "reset"),
    78: ("vGPU start error", "support"),
    79: ("GPU has fallen off the bus", "reboot"),
    92: ("many single-bit ECC errors", "watch"),
    94: ("contained memory error", "app"),
    95: ("uncontained memory error", "reset"),
    109: ("context switch timeout", "reset"),
    110: ("security fault", "reset"),
    119: ("GSP does not answer", "reset"),
    120: ("GSP error", "reset"),
    121: ("C2C error", "watch"),
    136: ("link training failed", "reset"),
    137: ("NVLink privilege error", "app"),
    140: ("unrecovered ECC error", "reset"),
    143: ("GPU initialisation error", "reset"),
    **dict.fromkeys(range(144, 151), ("NVLink error", "reset")),
    151: ("key rotation error", "reboot"),
    155: ("NVLink error", "reset"),
    156: ("memory retired", "reset"),
    157: ("memory could not be retired", "watch"),
    158: ("GPU fatal timeout", "reset"),
}
REMEDIES: dict[Class, str] = {"app": APP, "watch": WATCH, "reset": RESET, "reboot": REBOOT, "support": SUPPORT}
STOPS = frozenset({"reset", "reboot", "support"})
"""After an error of these classes nothing can run on the GPU until a person has mended it."""


def xid_words(code: int, gpu: int) -> tuple[str, str, Class]:
    """Return an Xid's meaning, remedy and class."""
    name, kind = XIDS.get(code, ("an error of a program or of no consequence", "app"))
    return f"Xid {code}: {name}", REMEDIES[kind].format(gpu=gpu), kind
