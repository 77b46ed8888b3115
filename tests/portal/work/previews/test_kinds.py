"""What honest files show: each kind by an example, made by the library that makes such files where there is one."""

import io
import json
import struct
import zipfile
import zlib

import numpy as np
import pytest

from tests.portal.work.previews.given import preview_of, source


def png(width, height):
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(b"\0" * 99)) + chunk(b"IEND", b"")


def saved(save, *args, **named):
    held = io.BytesIO()
    save(held, *args, **named)
    return held.getvalue()


def test_text_has_lines_and_its_encoding():
    shown = preview_of(source("log.txt", "one\ntwo é\n"))
    assert (shown.kind, shown.lines, shown.encoding, shown.rest) == ("text", ["one", "two é"], "UTF-8", None)


@pytest.mark.parametrize(
    ("data", "encoding", "first"),
    [
        ("é".encode("latin-1"), "Latin-1, perhaps", "é"),
        ("\ufeffé".encode(), "UTF-8", "é"),
        ("é".encode("utf-16"), "UTF-16", "é"),
        (b"\x1b[31mred\x1b[0m", "UTF-8", "red"),
        ("a\u202egnp.exe".encode(), "UTF-8", "a\ufffdgnp.exe"),
    ],
)
def test_text_in_other_encodings(data, encoding, first):
    shown = preview_of(source("notes", data))
    assert (shown.encoding, shown.lines[0]) == (encoding, first)


def test_json_is_set_out_in_lines():
    shown = preview_of(source("config.json", '{"lr":1e-3,"é":[1,2]}'))
    assert shown.lines == ["{", '  "lr": 0.001,', '  "é": [', "    1,", "    2", "  ]", "}"]


@pytest.mark.parametrize(
    "text", ['{"a": NaN}', '{"a": 1e999}', '{"a":1,"a":2}', "{broken", '{"a": ' + "9" * 5000 + "}"]
)
def test_json_that_would_not_come_back_as_it_stands_is_shown_as_it_stands(text):
    assert preview_of(source("config.json", text)).lines[0][:200] == text[:200]


@pytest.mark.parametrize(("name", "mark"), [("x.csv", ","), ("x.tsv", "\t")])
def test_a_table_begins_with_its_head(name, mark):
    shown = preview_of(source(name, f'class{mark}f1\n"a{mark}b"{mark}95.0\n\nwater{mark}1\n'))
    assert (shown.head, shown.rows, shown.rest) == (["class", "f1"], [[f"a{mark}b", "95.0"], ["water", "1"]], None)


def test_lines_of_objects_are_a_table():
    shown = preview_of(source("x.jsonl", '{"a":1,"b":"x"}\n{"a":NaN,"c":[1]}\n'))
    assert (shown.head, shown.rows) == (["a", "b", "c"], [["1", "x", ""], ["NaN", "", "[1]"]])


def test_pictures_have_a_type_and_a_size():
    webp = b"RIFF\0\0\0\0WEBPVP8X" + b"\0" * 8 + (639).to_bytes(3, "little") + (479).to_bytes(3, "little") + b"\0" * 9
    jpeg = b"\xff\xd8\xff\xe0\0\x10JFIF" + b"\0" * 10 + b"\xff\xc0\0\x11\x08" + struct.pack(">HH", 480, 640) + b"\3" * 9
    gif = b"GIF89a" + struct.pack("<HH", 640, 480) + b"\0" * 30
    for data, kind in ((png(640, 480), "png"), (jpeg, "jpeg"), (gif, "gif"), (webp, "webp")):
        shown = preview_of(source("whatever.bin", data))
        assert (shown.content_type, shown.width, shown.height) == (f"image/{kind}", 640, 480)


@pytest.mark.parametrize("name", ["a.svg", "a.html"])
def test_what_a_browser_would_run_is_text(name):
    assert preview_of(source(name, "<svg onload='alert(1)'/>")).kind == "text"


def test_one_array_of_numpy():
    (member,) = preview_of(source("v/a.npy", saved(np.save, np.zeros((3, 4), "float32")))).members
    assert (member.name, member.what, member.bytes) == ("a.npy", "3 × 4 float32", 48)
    (member,) = preview_of(source("a.npy", saved(np.save, np.zeros(2, bool)))).members
    assert (member.what, member.bytes) == ("2 bool", 2)


def test_python_objects_in_an_array_are_not_opened():
    (member,) = preview_of(source("a.npy", saved(np.save, np.array([{}]), allow_pickle=True))).members
    assert member.what == "1 of Python objects, which are not opened"


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_arrays_of_numpy_in_one_file(save):
    data = saved(save, x=np.zeros((2, 2), "int64"), y=np.zeros((), "complex64"))
    shown = [(each.name, each.what, each.bytes) for each in preview_of(source("a.npz", data)).members]
    assert shown == [("x", "2 × 2 int64", 32), ("y", "one value complex64", 8)]


def test_a_zip_file_lists_what_is_in_it():
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w") as archive:
        archive.writestr("a/b.txt", "hello")
    (member,) = preview_of(source("a.zip", held.getvalue())).members
    assert (member.name, member.bytes) == ("a/b.txt", 5)


def test_safetensors_by_their_header():
    header = {"__metadata__": {"format": "pt"}, "w": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}}
    head = json.dumps(header).encode()
    shown = preview_of(source("m.safetensors", struct.pack("<Q", len(head)) + head + b"\0" * 24))
    assert [(each.name, each.what, each.bytes) for each in shown.members] == [("w", "2 × 3 F32", 24)]
    assert shown.facts == [("format", "pt")]
    assert [(each.name, each.numbers) for each in shown.groups] == [("all", 6)]


def test_what_is_unknown_shows_its_first_bytes():
    shown = preview_of(source("x.bin", b"\0\1\2ABC" * 9))
    assert shown.kind == "nothing"
    assert shown.first[0].endswith("...ABC...ABC...A")


def test_an_empty_file_says_so():
    assert preview_of(source("x", b"")).why == "The file is empty."
