"""The shim loads little of the standard library, and what it put aside is there when somebody asks."""

from __future__ import annotations

import json
import subprocess
import sys

from tests.workers.conftest import ROOT

PROGRAM = """
from __future__ import annotations
import sys
sys.path.insert(0, sys.argv[1])
from workers.controls.lean import load_little
load_little()
import workers.controls.shim
from pathlib import Path
import dataclasses, inspect, json, typing, urllib.parse
later = lambda: sorted(name for name, module in sys.modules.items() if type(module).__name__ == "_Later")
before = later()
said = [Path("/a b").as_uri(), str(inspect.signature(Path.exists)), str(typing.Optional[int])]
@dataclasses.dataclass
class Pair:
    one: int = 1
    two: list[int] = dataclasses.field(default_factory=list)
said += [repr(Pair()), Pair.__doc__, str(typing.get_type_hints(Pair)["one"])]
print(json.dumps([before, later(), said]))
"""


def test_modules_that_are_put_aside_are_loaded_when_they_are_called():
    command = [sys.executable, "-I", "-S", "-c", PROGRAM, str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    before, after, said = json.loads(done.stdout)
    assert {"inspect", "typing"} <= set(before), "no shim pays for them"
    assert not {"inspect", "typing", "urllib.parse"} & set(after)
    assert said[0] == "file:///a%20b"
    assert "self" in said[1]
    assert said[2:] == [
        "typing.Optional[int]",
        "Pair(one=1, two=[])",
        "Pair(one: 'int' = 1, two: 'list[int]' = <factory>)",
        "<class 'int'>",
    ]
