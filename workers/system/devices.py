"""Which device files belong to which GPU of this machine, so that a job can be kept from all that are not its own."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

DEVICES, DRIVER = Path("/dev"), Path("/proc/driver/nvidia/gpus")
_PREFIX = "nvidia"


@dataclass(frozen=True, slots=True)
class Devices:
    """`of`: the device file of each GPU, by the GPU's UUID; `files`: those of all GPUs, also of ones that no job gets."""

    of: Mapping[str, str]
    files: tuple[str, ...]

    def with_instances(self, wholes: Mapping[str, str]) -> Devices:
        """Return the same, with MIG instances: each is reached by the file of the GPU that it is a part of."""
        return Devices(
            {**self.of, **{uuid: self.of[whole] for uuid, whole in wholes.items() if whole in self.of}}, self.files
        )

    def hidden_from(self, spec: Mapping[str, Any]) -> list[str]:
        """Return the device files of GPUs that are not the part's. All of them for a part without GPUs."""
        own = {self.of.get(uuid) for uuid in spec["gpu_uuids"]}
        return [file for file in self.files if file not in own]


def devices_find(*, devices: Path = DEVICES, driver: Path = DRIVER) -> Devices | None:
    """Ask the driver which file is whose; None where it does not tell of every GPU, so that no job loses its own."""
    files = [path for path in sorted(devices.glob(f"{_PREFIX}*")) if path.name.removeprefix(_PREFIX).isdecimal()]
    of = {}
    for each in sorted(driver.glob("*/information")):
        said = dict(line.partition(":")[::2] for line in each.read_text().splitlines())
        uuid, minor = said.get("GPU UUID", "").strip(), said.get("Device Minor", "").strip()
        if uuid and minor:
            of[uuid] = str(devices / f"{_PREFIX}{minor}")
    if not files or set(of.values()) != {str(path) for path in files}:
        return None
    return Devices(of, tuple(map(str, files)))
