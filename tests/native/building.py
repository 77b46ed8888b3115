"""Builds a small library of ours with the C compiler of this machine."""

import shutil
import subprocess

import pytest


def built_as(library, source, *flags, without):
    """Compile `source` into the shared library; where there is no compiler skip, and say what nothing did `without` it."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip(f"SKIPPED LOUDLY: no C compiler here, so nothing {without}; install gcc")
    subprocess.run([compiler, *flags, "-shared", "-fPIC", "-Wall", "-o", library, source], check=True)
    return library
