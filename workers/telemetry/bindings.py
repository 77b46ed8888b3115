"""NVML's Python bindings, without the warning of pynvml 13, which only wraps nvidia-ml-py, at each import."""

import warnings

with warnings.catch_warnings():
    warnings.filterwarnings("ignore", category=FutureWarning)
    import pynvml

__all__ = ["pynvml"]
