"""The demo's virtual nodes."""

from dataclasses import dataclass


@dataclass(frozen=True)
class VirtualNode:
    """A node of the demo: the same agent and real processes, but simulated GPUs."""

    name: str
    gpus: int
    gpu_type: str
    gpu_memory_mib: int
    cores: int
    memory_mib: int
    core_percent: int = 3
    memory_gb_s: int = 200

    @property
    def specification(self) -> str:
        return (
            f"gpus={self.gpus},type={self.gpu_type},gpu-memory-mib={self.gpu_memory_mib},"
            f"cores={self.cores},memory-mib={self.memory_mib},core-percent={self.core_percent},memory-gb-s={self.memory_gb_s}"
        )


DEMO_NODES = (
    VirtualNode("a100-01", 8, "A100 80 GB", 81920, 64, 524288),
    VirtualNode("a100-02", 8, "A100 80 GB", 81920, 64, 524288),
    VirtualNode("rtx-01", 4, "RTX 3090", 24576, 32, 131072),
    VirtualNode("rtx-02", 4, "RTX 3090", 24576, 32, 131072),
)
