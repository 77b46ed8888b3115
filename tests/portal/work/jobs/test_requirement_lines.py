"""Requirements: what is taken reads the same for pip, and holds nothing besides packages and the few options there are."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from portal.foundation.errors import BerthError
from portal.work.jobs.software import software_check
from workers.protocol.requirement_lines import OPTIONS, LineError, is_option, requirement_lines

HASH = f"--hash=sha256:{'a' * 64}"
TAKEN = {
    "six": ["six"],
    "# a comment\r\n\r\nsix==1.16.0  # why\r\n\ttorch\n": ["six==1.16.0", "torch"],
    "\ufeffsix": ["six"],
    f"six==1\t{HASH}  {HASH}": [f"six==1 {HASH} {HASH}"],
    "a[b,c] >=1, <2 ; python_version < '3.14' and (os_name == 'posix')": None,
    "a @ https://host/a-1.whl#sha256=ab ; python_version > '3'": None,
    "numpy (>=1)": None,
    "--index-url=https://host:8443/simple\nsix": ["--index-url https://host:8443/simple", "six"],
    "--extra-index-url https://host/whl/cu121\n--pre\n--prefer-binary\n--only-binary :all:\n--no-binary a,b\nsix": None,
    "six # é 漢字": ["six"],
}
REFUSED = {
    "control_character": ["six\r-r x", "six\r", "six\r\r\ntorch"]
    + [f"six{char}-r x" for char in "\v\f\x1c\x1d\x1e\x85\u2028\u2029\x1b\x7f\u202e\u200b"],
    "continuation": ["-\\\nr /opt/x", "six \\\n --hash=sha256:ab", "six # why \\", "six\\"],
    "not_self_contained": [
        "-r x",
        "-rx",
        "-c x",
        "-e .",
        "-f x",
        "-fx",
        "--requirement x",
        "--find-links https://a/b",
        "--editable=x",
        "--constraint x",
        "./a",
        "../a",
        "/a",
        ".",
        "~/a",
        "C:\\a",
        "C:/a",
        "a/b",
        "a.whl",
        "a.zip[x]",
        "a===1.tar.gz",
        "file:///etc/x",
        "a @ file:///x",
        "a @ ../x",
        "--index-url file:///x",
        "a.ZIP",
    ],
    "bad_option": [
        "--req x",
        "--find-l x",
        "--extra-index https://a/",
        "-i https://a/",
        "--trusted-host a",
        "-",
        "--",
        "--pre x",
        "--pre=",
        "--only-binary",
        "--only-binary a b",
        "--config-settings x",
        "--INDEX-URL https://a",
    ],
    "bad_url": [
        "--index-url http://a/",
        "--index-url https:a",
        "--extra-index-url https://a/ b",
        "a @ git+https://h/x",
        "a @ https://",
        "a @ https:///x",
        "a @ https://h/x;python_version>'3'",
        "--index-url",
        "a @ HTTP://h/x",
    ],
    "credentials_in_url": ["--extra-index-url https://user1:pass-word-1@host/simple", "a @ https://token-1@host/a.whl"],
    "bad_hash": ["six --hash=md5:ab", "six --hash=sha256:ab", "six --hash", f"six --hash =sha256:{'a' * 64}"],
    "bad_requirement": [
        "six -r x",
        "six; python_version != '3 -r x'",
        "${HOME}",
        "a @ https://h/${X}",
        "six\xa0x",
        "sïx",
        "https://h/x.whl",
        "six torch",
        "six;",
        "a" + "(" * 900,
        "six ; (" + "(" * 99,
        "`x`",
        "@x",
        "a @ C:\\x",
        "six=1",
        "x:y",
    ],
    "too_long": ["a" * 2001],
}


def test_what_all_read_alike_is_taken(subtests):
    for text, lines in TAKEN.items():
        with subtests.test(text):
            assert requirement_lines(text) == (lines or text.split("\n"))


def test_what_another_reader_could_read_otherwise_is_refused_by_name(subtests):
    for code, text in ((code, text) for code, texts in REFUSED.items() for text in texts):
        with subtests.test(f"{code}: {text}"):
            with pytest.raises(LineError) as caught:
                requirement_lines(f"torch\n{text}")
            assert (caught.value.code, caught.value.number) == (code, 2)
            with pytest.raises(BerthError) as refused:
                software_check({"requirements": f"torch\n{text}"}, {})
            assert (refused.value.code, refused.value.field) == (code, "software.requirements")
            for part in ("pass-word-1", "token-1"):
                assert part not in refused.value.detail + str(caught.value)


PIECES = [
    *OPTIONS,
    "six",
    "torch==2.1",
    "-r",
    "-c",
    "-e",
    "-f",
    "-i",
    "--find-links",
    "--hash=sha256:" + "0" * 64,
    "x.whl",
    "../x",
]
PIECES += [
    " ",
    " ",
    "\n",
    "\r\n",
    "\r",
    "\\\n",
    "\t",
    "#",
    ";",
    "=",
    "@",
    "https://h/s",
    "os_name == 'a -r b'",
    "'",
    '"',
    "${A}",
    "\u2028",
    ".",
]


@given(st.lists(st.sampled_from(PIECES), max_size=12).map("".join))
def test_pip_reads_what_was_taken_as_it_was_read(tmp_path_factory, text):
    req_file = pytest.importorskip("pip._internal.req.req_file")
    try:
        lines = requirement_lines(text)
    except LineError:
        return
    file = tmp_path_factory.mktemp("pip") / "requirements.txt"
    for written in ("\n".join(lines), text):
        file.write_bytes(written.encode())
        parser = req_file.RequirementsFileParser(None, req_file.get_line_parser(None))
        read = list(parser.parse(str(file), constraint=False))
        assert len(read) == len(lines)
        for line, parsed in zip(lines, read, strict=True):
            assert parsed.is_requirement != is_option(line)
            opts = parsed.opts
            assert not (opts.requirements)
            assert not (opts.constraints)
            assert not (opts.editables)
            assert not (opts.find_links)
