"""A stand-in for `sacct`, which prints generated records as that of Debian's Slurm 22.05.8 does."""

import random
import sys

COLUMNS = "JobID|User|Account|State|Submit|Start|Elapsed|AllocTRES|ReqTRES"
PROGRAM = """#!{python}
import os, sys, time
given = dict(word.partition("=")[::2] for word in sys.argv[1:])
now = time.time()
began, ended = (now - float(given[name].partition("-")[2] or 0) for name in ("--starttime", "--endtime"))
assert os.environ["SLURM_TIME_FORMAT"] == "%s" and given["--partition"], given
assert given["--format"].replace(",", "|") == {columns!r} and given.keys() >= {{"--allusers", "--allocations", "--parsable2"}}
print({columns!r})
for line in open({records!r}):
    end, _, record = line.rstrip("\\n").partition(" ")
    if float(record.split("|")[4]) < ended and float(end) > began:
        print(record)
"""


def record(number, *, submit, ran_s, waited_s=60, user="ada", account="lab", state="COMPLETED", gpus=1, cores=8):
    """Return the record of a job with its end before it; times in Unix seconds."""
    days, rest = divmod(int(ran_s), 86_400)
    elapsed = f"{f'{days}-' if days else ''}{rest // 3600:02}:{rest // 60 % 60:02}:{rest % 60:02}"
    gres = f"gres/gpu:a100={gpus},gres/gpu={gpus}," if gpus else ""
    nodes = max(1, -(-gpus // 8))
    tres = f"billing={cores},cpu={cores},{gres}mem={4 * cores}G,node={nodes}"
    start = int(submit + waited_s)
    values = (
        number,
        user,
        account,
        state,
        int(submit),
        start if ran_s else "None",
        elapsed,
        tres if ran_s else "",
        tres,
    )
    return f"{start + int(ran_s)} {'|'.join(map(str, values))}"


def month(jobs, *, now, gpus=8, seed=1, days=30):
    """Return the records of jobs that keep the GPUs busy for two thirds of the time."""
    rng = random.Random(seed)
    drawn = [(rng.choice((0, 1, 1, 1, 2, 4)), min(1e3, rng.lognormvariate(0.0, 1.6))) for _ in range(jobs)]
    fit = 0.66 * days * 86_400 * gpus / sum(size * ran for size, ran in drawn)
    submits = sorted(now - rng.uniform(0.1, days) * 86_400 for _ in range(jobs))
    made = []
    for number, (at, (size, ran)) in enumerate(zip(submits, drawn, strict=True), start=100):
        state = rng.choice(("COMPLETED", "COMPLETED", "COMPLETED", "FAILED", "TIMEOUT", "CANCELLED by 1001"))
        who = {"user": f"user{rng.randrange(60)}", "account": f"lab{rng.randrange(8)}"}
        ran_s = max(1, min(ran * fit, now - at - 61))
        made.append(record(number, submit=at, ran_s=ran_s, state=state, gpus=size, cores=2 * max(1, size), **who))
    return made


def sacct_put(folder, records):
    """Write a `sacct` that has these records."""
    (folder / "records").write_text("".join(f"{each}\n" for each in records))
    words = {"python": sys.executable, "columns": COLUMNS, "records": str(folder / "records")}
    (folder / "sacct").write_text(PROGRAM.format(**words))
    (folder / "sacct").chmod(0o700)
    return folder
