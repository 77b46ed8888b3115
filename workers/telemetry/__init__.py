"""The node's measurements: GPUs (NVML, or simulated on a virtual node), the host, and each part."""
