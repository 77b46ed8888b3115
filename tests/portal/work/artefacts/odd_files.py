"""Files that a job writes, each with a text where a reader shows one: as it is in bytes, and as JSON's escapes."""

import io
import json
import struct
import zipfile
import zlib

from tests.portal.work.previews.given import framed, message
from tests.portal.work.previews.test_checkpoints import Tensor, checkpoint
from tests.portal.work.previews.test_kinds import png


def raw(text):
    return text.encode("utf-8", "surrogatepass")


def lines(*values, **how):
    return "".join(json.dumps(value, **how) + "\n" for value in values)


def archive(text):
    """A name that `zipfile` would not write: another one of as many bytes, overwritten."""
    name = raw(text) or b"x"
    instead = f"\u00e9{'z' * (len(name) + 6)}"
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w") as file:
        file.writestr(instead, b"x")
    return held.getvalue().replace(instead.encode(), b"tensor__"[: len(instead.encode()) - len(name)] + name)


def array(text):
    head = f"{{'descr': '<f4', 'fortran_order': False, 'shape': (2,), {text!r}: {text!r}}}\n".encode(
        "latin-1", "replace"
    )
    return b"\x93NUMPY\1\0" + struct.pack("<H", len(head)) + head + b"\0" * 8


def structured(text):
    head = f"{{'descr': [('{text}', '<f4')], 'fortran_order': False, 'shape': (2,), }}\n".encode(
        "utf-8", "surrogatepass"
    )
    return b"\x93NUMPY\3\0" + struct.pack("<I", len(head)) + head + b"\0" * 8


def safetensors(text, **how):
    tensors = {
        f"a.{text}": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]},
        "__metadata__": {"format": text, text: "x"},
    }
    head = raw(json.dumps(tensors, **how))
    return struct.pack("<Q", len(head)) + head + b"\0" * 8


def event(text):
    summary = message((1, message((1, raw(f"loss/{text}")), (2, 1.0))))
    return framed(message((1, ("d", 1.7e9)), (3, raw(f"brain.Event:2{text}")))) + framed(
        message((1, ("d", 1.7e9)), (2, 1), (5, summary))
    )


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def picture(text):
    whole = png(8, 8)
    return whole[:33] + chunk(b"tEXt", b"Title\0" + raw(text)) + chunk(b"iTXt", raw(text)) + whole[33:]


def notebook(text, **how):
    cell = {"cell_type": "code", "source": [text], "metadata": {text: text}, "execution_count": 1}
    outputs = [
        {"output_type": "stream", "name": text, "text": [text]},
        {"output_type": "display_data", "data": {"text/plain": text, text: text}, "metadata": {}},
        {"output_type": "error", "ename": text, "evalue": text, "traceback": [text]},
    ]
    cells = [cell | {"outputs": outputs}, {"cell_type": "markdown", "source": text, "metadata": {}}]
    return json.dumps(
        {"cells": cells, "metadata": {"kernelspec": {"name": text}}, "nbformat": 4, "nbformat_minor": 5}, **how
    )


def files(text):
    """{path: bytes}; of what is JSON twice, with escapes and without."""
    value = {text: text, "step": 1, "loss": 0.5}
    metrics = [
        {"step": 1, text: 1.0, "a": 2.0},
        {"step": text, "a": text, "time": text},
        {"step": 2, text: 2.0, "a": 1.0},
    ]
    found = {
        "runs/events.out.tfevents.1": event(text),
        "model.pt": checkpoint({text: Tensor([2]), "meta": {text: text}, "b": Tensor([2])}),
        "model4.pt": checkpoint({text: Tensor([2]), text + "x": text}, 4),
        "arrays.npz": archive(text),
        "files.zip": archive(text),
        "array.npy": array(text),
        "parts.npy": structured(text),
        "table.csv": raw(f"a,{text}\n{text},2\n"),
        "table.tsv": raw(f"a\t{text}\n{text}\t2\n"),
        "wide.csv": b"\xff\xfe" + f"a,{text}\n".encode("utf-16-le", "surrogatepass"),
        "notes.txt": raw(text),
        "wide.txt": b"\xfe\xff" + text.encode("utf-16-be", "surrogatepass"),
        "page.svg": raw(f"<svg>{text}</svg>"),
        "grid.png": picture(text),
        "config.yaml": raw(f"a: {json.dumps(text)}\nb: '{text}'\n"),
        "none": raw(text) * 50,
    }
    for name, how in (("", {}), ("-raw", {"ensure_ascii": False})):
        found |= {
            f"metrics{name}.jsonl" if name else "metrics.jsonl": raw(lines(*metrics, **how)),
            f"run{name}/metrics.jsonl": raw(lines(*metrics, **how)),
            f"rows{name}.jsonl": raw(lines(value, value, **how)),
            f"config{name}.json": raw(json.dumps({"list": [value, [text]], text: text}, **how)),
            f"book{name}.ipynb": raw(notebook(text, **how)),
            f"model{name}.safetensors": safetensors(text, **how),
        }
    return found
