"""Name a job that was given no name: after the script or the first program that does its work, not after `for` or `cd`."""

from __future__ import annotations

import re
import shlex
from collections import deque
from pathlib import PurePosixPath

READ_CHARS = 4096
"""The rest of a text is not looked at: a name is found in the first lines or nowhere."""
MAX_CHARS = 128
DEPTH = 3

_SEPARATORS = frozenset({";", ";;", "&", "&&", "|", "||", "|&", "(", ")", "((", "))"})
_KEYWORDS = frozenset("if then elif else fi do done while until { } ! coproc".split())
_LISTS = frozenset("for case select function".split())
"""After these come a variable and words, up to the next separator."""
_SILENT = frozenset(
    "cd export set unset source . ulimit umask module conda mamba true false test [ [[ : exit trap wait read alias eval "
    "pushd popd shopt local declare typeset let return shift mkdir".split()
)
"""Programs that prepare or test; a job is never about one."""
_PLAIN = frozenset(
    "echo printf sleep date hostname whoami id ls cat head tail cp mv rm ln chmod chown touch tar unzip gunzip wget curl "
    "rsync scp git pip pip3 apt apt-get nvidia-smi env which type tee grep sed awk cut sort uniq tr wc".split()
)
"""Programs that a job may be about if it does nothing else."""
_WRAPPERS: dict[str, frozenset[str]] = {
    name: frozenset(options.split())
    for name, options in {
        "sudo": "-u -g",
        "nice": "-n",
        "ionice": "-c -n",
        "time": "-o -f",
        "nohup": "",
        "env": "-u -C",
        "exec": "-a",
        "command": "",
        "builtin": "",
        "setsid": "",
        "stdbuf": "-i -o -e",
        "timeout": "-s -k",
        "numactl": "-N -m -C",
        "taskset": "-c",
        "xargs": "-n -P -I",
        "mpiexec": "-n -np -host -hosts",
        "srun": "-n -N -c -G -p -J -t -w --ntasks --nodes --gpus --partition --job-name --time",
        "mpirun": "-n -np -N -H -x --host --hostfile --map-by --bind-to",
        "torchrun": "--nproc_per_node --nproc-per-node --nnodes --node_rank --node-rank --master_addr --master-addr "
        "--master_port --master-port --rdzv_backend --rdzv-backend --rdzv_endpoint --rdzv-endpoint --rdzv_id --rdzv-id",
        "deepspeed": "--num_gpus --num_nodes --hostfile --include --master_port",
        "accelerate": "--config_file --num_processes --num_machines --mixed_precision",
        "uv": "--with --python -p",
        "poetry": "",
        "pipenv": "",
        "pdm": "",
    }.items()
}
"""Programs that start another one, and which of their options take a value."""
_VERBS = {"uv": "run", "poetry": "run", "pipenv": "run", "pdm": "run", "accelerate": "launch"}
_POSITIONAL = frozenset({"timeout", "taskset"})
"""They take a value of their own before the program."""
_LAUNCHING_MODULES = frozenset({"torch.distributed.run", "torch.distributed.launch", "deepspeed.launcher.runner"})
_SHELLS = frozenset("bash sh dash zsh ksh".split())
_INTERPRETER = re.compile(r"(?:python|pypy)[\d.]*\Z|(?:bash|sh|dash|zsh|ksh|node|perl|ruby|julia|Rscript|octave)\Z")
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*\+?=")
_REDIRECTION = re.compile(r"\d*(?:[<>]+[&|]?|<<-?)")
_ARITHMETIC = re.compile(r"\$\(\([^()]*(?:\([^()]*\)[^()]*)*\)\)")
_SUBSTITUTION = re.compile(r"\$\([^()]*\)|`[^`]*`")
_WITH_VALUE = frozenset({"-W", "-X", "-r", "-I"})


def name_of(*, command: str, model: str = "") -> str:
    """Return a job's name: its model, else its script or program as a file name, else "job"."""
    found = model.strip() or _of_command(command[:READ_CHARS], DEPTH)
    return "".join(char for char in found if char.isprintable())[:MAX_CHARS].strip() or "job"


def _of_command(command: str, depth: int) -> str:
    plain = ""
    for words in _simple_commands(command):
        found, strong = _of_words(deque(words), depth)
        if strong:
            return found
        plain = plain or found
    return plain


def _simple_commands(command: str) -> list[list[str]]:
    """Cut a script into simple commands, without comments; text that no shell would read is cut at blanks."""
    text = _ARITHMETIC.sub("0", command)
    for _ in range(DEPTH):
        text = _SUBSTITUTION.sub("0", text)
    lines = [line for line in text.replace("\\\n", " ").split("\n") if not line.lstrip().startswith("#")]
    lexer = shlex.shlex("\n;\n".join(lines), posix=True, punctuation_chars=True)
    lexer.whitespace_split, lexer.commenters = True, ""
    found: list[list[str]] = [[]]
    try:
        for token in lexer:
            if token in _SEPARATORS:
                found.append([])
            else:
                found[-1].append(token)
    except ValueError:  # a quote is not closed: the words before it count
        found.append(command.split())
    return [words for words in found if words]


def _of_words(words: deque[str], depth: int) -> tuple[str, bool]:
    """Return the program of a simple command, and whether a job can be about it; ("", False) for a command without one."""
    while words:
        word = words.popleft()
        name = PurePosixPath(word).name or word
        if word in _LISTS or name in _SILENT:
            return "", False
        if word in _KEYWORDS or _ASSIGNMENT.match(word):
            continue
        if _REDIRECTION.fullmatch(word):
            _options_skip(words, frozenset(), positional=True)
        elif name in _WRAPPERS and words:
            if _VERBS.get(name) == words[0]:
                words.popleft()
            _options_skip(words, _WRAPPERS[name], positional=name in _POSITIONAL)
        elif word == "-m":  # torchrun -m pkg.train
            words.appendleft(word)
            return _of_module(words, depth)
        elif _INTERPRETER.match(name) or word.startswith("$"):
            return _of_interpreter(name, words, depth)
        else:
            return name, name not in _PLAIN
    return "", False


def _options_skip(words: deque[str], with_value: frozenset[str], *, positional: bool = False) -> None:
    while words and words[0].startswith("-") and words[0] != "-m":
        option = words.popleft()
        if option in with_value and words:
            words.popleft()
    if positional and len(words) > 1:
        words.popleft()


def _of_interpreter(name: str, words: deque[str], depth: int) -> tuple[str, bool]:
    """Return the script of `python -u a/train.py`, the module of `python -m pkg.train`, the command in `bash -c`."""
    while words and words[0].startswith("-"):
        option = words[0]
        if name in _SHELLS and not option.startswith("--") and option.endswith("c"):
            words.popleft()
            found = _of_command(words[0], depth - 1) if words and depth > 0 else ""
            return (found, True) if found else (name, True)
        if option == "-m":
            return _of_module(words, depth)
        words.popleft()
        if option in {"-c", "-e"}:
            return name, True
        if option in _WITH_VALUE and words:
            words.popleft()
    if words and not _REDIRECTION.match(words[0]):
        return PurePosixPath(words[0]).name or name, True
    return name.lstrip("$"), True


def _of_module(words: deque[str], depth: int) -> tuple[str, bool]:
    words.popleft()
    if not words:
        return "python", True
    module = words.popleft()
    if module in _LAUNCHING_MODULES:
        _options_skip(words, _WRAPPERS["torchrun"])
        return _of_interpreter("python", words, depth)
    return module, True
