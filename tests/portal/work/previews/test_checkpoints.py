"""PyTorch's checkpoints: their tensors are told without anything of the pickle being run."""

import io
import os
import pickle
import zipfile
from collections import OrderedDict

import pytest

from portal.work.previews.shown import shown_of
from portal.work.previews.source import Unreadable
from portal.work.previews.unpickled import Machine
from tests.portal.work.previews.given import looked, preview_of, source


class Storage:
    def __init__(self, kind, key, count):
        self.told = ("storage", kind, key, "cuda:0", count)


def _rebuild_tensor_v2(storage, offset, size, stride, grad, hooks):
    raise AssertionError("a preview calls nothing")


def _rebuild_parameter(data, grad, hooks):
    raise AssertionError("a preview calls nothing")


class FloatStorage: ...


class HalfStorage: ...


class Tensor:
    def __init__(self, sides, kind=FloatStorage, *, parameter=False, key="0"):
        self.sides, self.kind, self.parameter, self.key = sides, kind, parameter, key

    def __reduce__(self):
        if self.parameter:
            return _rebuild_parameter, (Tensor(self.sides, self.kind), True, OrderedDict())
        return _rebuild_tensor_v2, (Storage(self.kind, self.key, 9), 0, tuple(self.sides), (1,), False, OrderedDict())


def named(thing, module):
    thing.__module__, thing.__qualname__ = module, thing.__name__


for each, module in (
    (_rebuild_tensor_v2, "torch._utils"),
    (_rebuild_parameter, "torch._utils"),
    (FloatStorage, "torch"),
    (HalfStorage, "torch"),
):
    named(each, module)


class Writer(pickle._Pickler):
    """As torch.save does: storages are persistent ids, and names are written unseen."""

    def persistent_id(self, value):
        return value.told if isinstance(value, Storage) else None

    def save_global(self, value, name=None):
        self.write(pickle.GLOBAL + f"{value.__module__}\n{value.__qualname__}\n".encode())
        self.memoize(value)

    dispatch = dict(pickle._Pickler.dispatch)
    dispatch[type] = save_global
    dispatch[type(named)] = save_global


def checkpoint(value, protocol=2):
    held, written = io.BytesIO(), io.BytesIO()
    Writer(written, protocol).dump(value)
    with zipfile.ZipFile(held, "w") as archive:
        archive.writestr("archive/data.pkl", written.getvalue())
        archive.writestr("archive/data/0", b"\0" * 64)
    return held.getvalue()


@pytest.mark.parametrize("protocol", [2, 4])
def test_a_checkpoint_of_a_training_run(protocol):
    value = {
        "model": OrderedDict(
            {"conv.weight": Tensor([8, 3, 3, 3], parameter=True), "conv.bias": Tensor([8], HalfStorage)}
        ),
        "optimizer": {"state": {0: {"exp_avg": Tensor([8, 3, 3, 3])}}, "param_groups": [{"lr": 0.1}]},
        "step": 14000,
    }
    shown = preview_of(source("ckpt.pt", checkpoint(value, protocol)))
    assert [(each.name, each.count, each.numbers, each.bytes) for each in shown.groups] == [
        ("model", 2, 224, 880),
        ("optimizer", 1, 216, 864),
    ]
    assert shown.groups[0].types == "float16, float32"
    assert ("step", "14000") in shown.facts
    assert [(each.name, each.what) for each in shown.members][:2] == [
        ("model.conv.weight", "8 × 3 × 3 × 3 float32"),
        ("model.conv.bias", "8 float16"),
    ]


def test_weights_alone_are_one_group():
    shown = preview_of(source("w.pth", checkpoint(OrderedDict({"a.b": Tensor([2, 2])}))))
    assert [(each.name, each.bytes) for each in shown.groups] == [("all", 16)]


class Evil:
    def __reduce__(self):
        return os.system, ("false",)


def test_what_a_pickle_would_run_is_not_run(monkeypatch):
    pickled = pickle.dumps({"step": 3, "x": Evil()}, protocol=2)
    monkeypatch.setattr(os, "system", lambda _: pytest.fail("it ran"))
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w") as archive:
        archive.writestr("archive/data.pkl", pickled)
    shown = preview_of(source("ckpt.pt", held.getvalue()))
    assert (shown.kind, shown.facts, shown.members) == ("inside", [("step", "3")], [])


def test_a_bare_pickle_is_not_opened():
    shown = preview_of(source("model.pkl", pickle.dumps({"a": b"\0" * 99})))
    assert shown.kind == "nothing"
    assert "opening one runs what is in it" in shown.why


def test_all_that_plain_values_pickle_to_is_read():
    value = {
        "a": [1, 2.5, None, True, False, (1, 2, 3, 4), (), {1, 2}, frozenset([3]), b"x", 2**70, "é"],
        "b": {"c": [[]]},
    }
    for protocol in range(2, 6):
        told = Machine().run(pickle.dumps(value, protocol=protocol))
        assert [key for key, _ in told.pairs] == ["a", "b"]


DAMAGED = [
    b"",
    b"\x80\x02",
    b"\x80\x02.",
    b"\x80\x02}u.",
    b"\x80\x02]e.",
    b"\x80\x02h\x05.",
    b"0.",
    b"t.",
    b"R.",
    b"\x80\x04\x8d" + b"\xff" * 8 + b".",
    b"\x80\x02\x8b\xff\xff\xff\x7f.",
    b"\x80\x02}K\x01s.",
    b"\x80\x02K\x01K\x02K\x03s.",
]


def test_damaged_pickles_are_refused(subtests):
    for data in DAMAGED:
        with subtests.test(data=data), pytest.raises(Unreadable):
            Machine().run(data)


def test_a_pickle_that_holds_itself_ends():
    value = {"step": 1}
    value["again"] = value
    shown = preview_of(source("c.pt", checkpoint(value)))
    assert ("step", "1") in shown.facts


def test_a_pickle_that_unfolds_without_end_is_given_up():
    value = []
    for _ in range(60):
        value = [value] * 40
    shown = preview_of(source("c.pt", checkpoint({"x": value})))
    assert shown.kind == "nothing"
    assert "more parts" in shown.why


@pytest.mark.parametrize("tensors", [3_000, 10_000])
def test_an_honest_checkpoint_of_many_tensors_is_shown(tensors):
    """Of as many names as large models have; in the process that looks, with all its limits."""
    parts = ["self_attn.q_proj", "self_attn.k_proj", "mlp.experts.17.gate_up_proj", "post_attention_layernorm"]
    state = OrderedDict(
        (f"model.layers.{n // 4}.{parts[n % 4]}.weight", Tensor([4096, 4096], HalfStorage, key=str(n)))
        for n in range(tensors)
    )
    shown = shown_of(looked("pytorch_model.bin", checkpoint(state)))
    assert shown.rest == f"The first 300 of {tensors} tensors."
    assert shown.groups[0].count == tensors
    assert shown.members[0].name == "model.layers.0.self_attn.q_proj.weight"
