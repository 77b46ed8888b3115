"""What the node measures: GPUs (NVML, or simulated on a virtual node), the host, and each part."""
