"""The shim loads little of the standard library, and what a stand-in does not do is there when somebody asks."""

from __future__ import annotations

import json
import subprocess
import sys
from shutil import which

import pytest

from tests.workers.conftest import ROOT

LARGE = {"collections", "contextlib", "dataclasses", "json", "pathlib", "signal", "typing"}
NEVER = {"ast", "enum", "functools", "inspect", "json.decoder", "re", "threading", "urllib.parse"}
BEGIN = """
from __future__ import annotations
import sys
sys.path.insert(0, sys.argv[1])
from workers.lean.standins import load_little, load_whole
load_little()
import workers.controls.shim
from pathlib import Path
import collections, contextlib, dataclasses, json, signal, typing
later = lambda: sorted(name for name, module in sys.modules.items() if type(module).__name__ == "Later")
"""
LOADED = "print(json.dumps([later(), sorted(sys.modules)]))"
ASKED = """
import collections.abc, json.decoder
said = [Path("/a b").as_uri(), Path("/a/b.txt").suffix, str(typing.Optional[int]), str(collections.OrderedDict(a=1))]
said += [signal.Signals.SIGTERM.name, collections.abc.Mapping.__name__, json.dumps({"a": 1}, indent=1)]
try:
    json.loads("{")
except json.decoder.JSONDecodeError as error:
    said.append(error.msg)
with contextlib.ExitStack() as stack:
    said.append(type(stack).__name__)
@dataclasses.dataclass
class Pair:
    one: int = 1
    two: list[int] = dataclasses.field(default_factory=list)
said += [repr(Pair()), str(dataclasses.is_dataclass(Pair))]
print(json.dumps([later(), said]))
"""
WHOLE = """
load_whole()
import dataclasses, json, pathlib, signal
print(json.dumps([later(), [pathlib.Path.__module__, signal.SIGTERM.name, dataclasses.__name__, json.JSONDecoder.__name__]]))
"""


@pytest.fixture(params=["", "python3.11", "python3.12", "python3.13"])
def answer(request):
    """Run a program after the shim's beginning, under each Python that Berth runs with and that is here."""
    python = which(request.param) if request.param else sys.executable
    if python is None or subprocess.run([python, "-c", ""], capture_output=True, check=False).returncode:
        pytest.skip(f"{request.param} is not here")

    def asked(program: str) -> list:
        command = [python, "-I", "-S", "-c", BEGIN + program, str(ROOT)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, env={})
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return asked


def test_no_shim_pays_for_what_it_does_not_call(answer):
    later, modules = answer(LOADED)
    assert set(later) >= LARGE
    assert not NEVER & set(modules)


@pytest.mark.parametrize("room", ["controls", "system"])
def test_all_that_a_shim_may_load_later_loads_beside_the_stand_ins(answer, room):
    names = [f"workers.{room}.{path.stem}" for path in sorted((ROOT / "workers" / room).glob("[a-z]*.py"))]
    assert len(names) > 10
    assert (
        answer(f"import importlib\nfor name in {names}: importlib.import_module(name)\nprint(json.dumps([name]))")
        == names[-1:]
    )


def test_what_a_stand_in_does_not_do_the_module_does(answer):
    later, said = answer(ASKED)
    assert not {"collections", "contextlib", "json", "pathlib", "signal", "typing"} & set(later)
    assert said[:3] == ["file:///a%20b", ".txt", "typing.Optional[int]"]
    assert "OrderedDict" in said[3]
    assert said[4:7] == ["SIGTERM", "Mapping", '{\n "a": 1\n}']
    assert said[7].startswith("Expecting property name")
    assert said[8] == "ExitStack"
    assert said[9] == "Pair(one=1, two=[])"


def test_the_process_that_becomes_the_job_gets_the_librarys_own(answer):
    later, said = answer(WHOLE)
    assert later == []
    assert said[0].startswith("pathlib")
    assert said[1:] == ["SIGTERM", "dataclasses", "JSONDecoder"]
