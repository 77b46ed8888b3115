"""Starting NVML, and why it does not start: a machine without GPUs is well, one with GPUs and without their driver is not."""

from __future__ import annotations

from pathlib import Path

import pynvml

from workers.system import log

PCI = Path("/sys/bus/pci/devices")
NVIDIA = "0x10de"
DISPLAY_CLASSES = ("0x0300", "0x0302")


def nvml_start() -> str | None:
    """Start NVML. None: it runs. Empty: there are no GPUs here. Else why the GPUs that are here cannot be used."""
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        why = str(error)
        mismatch = error.value == getattr(pynvml, "NVML_ERROR_LIB_RM_VERSION_MISMATCH", 18)
        there = gpus_on_bus()
        if not mismatch and not there:
            log.info("no GPUs", reason=why)
            return ""
        log.error("gpus cannot be used", reason=why, on_the_bus=there)
        if mismatch:
            return "The NVIDIA driver in the kernel and its library are of different versions."
        return (
            f"The machine has {there} NVIDIA GPU{'s' if there != 1 else ''}, but their driver does not answer: {why}."
        )
    return None


def gpus_on_bus(root: Path = PCI) -> int:
    """Count the NVIDIA GPUs that the kernel sees on the PCI bus, with a driver or without."""
    return sum(
        _word(each / "vendor") == NVIDIA and _word(each / "class")[:6] in DISPLAY_CLASSES for each in root.glob("*")
    )


def _word(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:  # the device went while we looked
        return ""
