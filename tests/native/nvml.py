"""Builds the stub of NVIDIA's management library, which the real pynvml then loads."""

from pathlib import Path

from tests.native.building import built_as

SOURCE = Path(__file__).with_name("nvml_stub.c")


def built(tmp_path_factory, *flags):
    """Return the directory with the stub, as NVML's library."""
    directory = tmp_path_factory.mktemp("nvml")
    built_as(directory / "libnvidia-ml.so.1", SOURCE, *flags, without="drove the real pynvml")
    return directory
