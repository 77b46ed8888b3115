"""NVML's Python bindings, without the warning of the package pynvml 13 (in .venv of Berth 0.1), which only wraps nvidia-ml-py."""

import warnings

with warnings.catch_warnings():
    warnings.filterwarnings("ignore", category=FutureWarning)
    import pynvml

__all__ = ["pynvml"]
