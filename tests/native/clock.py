"""A time of day that a test sets, for all processes that begin with its environment."""

import struct
from pathlib import Path

from tests.native.building import built_as


class Clock:
    """Sets the time of day of processes by whole seconds against this machine's."""

    def __init__(self, directory):
        self.file = directory / "ahead"
        library = built_as(directory / "clock.so", Path(__file__).with_suffix(".c"), without="set a clock")
        self.environment = {"LD_PRELOAD": str(library), "CLOCK_FILE": str(self.file)}
        self.file.write_bytes(struct.pack("d", 0.0))

    def set(self, ahead_s):
        with self.file.open("r+b") as file:  # in place: processes have mapped it
            file.write(struct.pack("d", ahead_s))
