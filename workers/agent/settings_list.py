"""All settings of the agent. The command line, the environment and the documentation are made from this list."""

from __future__ import annotations

from pathlib import Path

from workers.networks.settings import RANGE, network_read, services_read
from workers.system.setting import Setting

SETTINGS: tuple[Setting, ...] = (
    Setting("url", str, None, "", "The portal's address, `http://...` or `https://...`. Needed."),
    Setting("token", str, None, "", "A join token. Needed only until the node has its own token (DIR/node.json)."),
    Setting("dir", Path, None, "", "The agent's own directory: node token, journal, jobs. Needed."),
    Setting("name", str, None, "", "The node's name. Default: the machine's name."),
    Setting(
        "address",
        str,
        None,
        "",
        "The address by which other nodes reach this one (MASTER_ADDR). Default: found by itself.",
    ),
    Setting(
        "virtual",
        str,
        None,
        "",
        "Be a virtual node with these resources instead of the machine's: "
        "`gpus=8,type='A100 80 GB',gpu-memory-mib=81920,cores=64,memory-mib=524288`. GPUs of several types are lists: "
        "`gpus=4+2,type=A100+T4,gpu-memory-mib=81920+16384`. With `core-percent=4` the work of one "
        "virtual GPU takes 4 % of a real core (default 100); jobs read that share in BERTH_VIRTUAL_PACE. With `memory-gb-s=200` "
        "its memory can move so much, and jobs that say so draw from it (VIRTUAL_TRAFFIC).",
    ),
    Setting(
        "memory_bandwidth",
        float,
        None,
        "GB/s",
        "What this machine's memory can move (reads and writes together), where its processor counts traffic (resctrl). Default: "
        "measured for a third of a second on all cores, at a start without jobs, and kept in DIR.",
        0.1,
        100_000,
    ),
    Setting("storage_domain", str, None, "", "A name. Nodes with the same name share one storage directory."),
    Setting("storage_dir", Path, None, "", "Where checkpoints are kept. Default: DIR/storage."),
    Setting("trust_tenants", bool, False, "", "Run the jobs of several tenants under this one account."),
    Setting(
        "isolation",
        str,
        "auto",
        "",
        "`auto`: the kernel keeps jobs out of the files and processes of the agent and of other jobs, if it can "
        "(Landlock). `off`: it does not. Jobs that mount file systems or use set-user-id programs need `off`.",
        choices=("auto", "off"),
    ),
    Setting(
        "accounts",
        str,
        "auto",
        "",
        "`auto`: an agent that runs as root gives each tenant's jobs an account of their own: the tenant's, or number "
        "200000 and the tenant's. `off`: all jobs run as root.",
        choices=("auto", "off"),
    ),
    Setting(
        "pids_limit",
        int,
        8192,
        "",
        "The most processes and threads of one job here. Kept by a control group, else by the account's limit.",
        64,
        4194304,
    ),
    Setting(
        "mps_pipes",
        Path,
        Path("/tmp/nvidia-mps"),  # noqa: S108 - NVIDIA's own default
        "",
        "Where the pipes of NVIDIA's MPS control daemon lie, if one runs here: jobs of one account that share a GPU use it.",
    ),
    Setting(
        "jobs_network",
        network_read,
        RANGE,
        "",
        "The range of private IPv4 addresses for tenants' networks on this node, which nothing here may use; each node may have "
        "the same. `off`: jobs stay in the node's network, where tenants reach each other's ports. It needs root.",
    ),
    Setting(
        "jobs_open",
        services_read,
        None,
        "",
        "Services of this node that jobs in tenants' networks may reach, `ADDRESS:PORT,...` (IPv4, TCP and UDP): a resolver, a "
        "proxy, a licence server. Jobs use the same address, 127.0.0.1 too. Other machines are reached in any case.",
    ),
    Setting(
        "closed",
        Path,
        None,
        "",
        "One more directory that jobs are kept out of. On the portal's machine: the portal's data directory.",
    ),
    Setting(
        "ca_sha256", str, None, "", "SHA-256 (hexadecimal) of the certificate authority that the portal must show."
    ),
    Setting("insecure", bool, False, "", "Talk to a portal on another machine without proof that it is the portal."),
    Setting("nice", int, None, "", "Niceness of jobs. Default: 19 on a virtual node, else 0.", 0, 19),
    Setting("sync_wait_s", float, 25.0, "s", "How long one request for work waits at the portal.", 0, 25),
    Setting("log_period_s", float, 1.0, "s", "How often new log output is sent.", 0.1, 60),
    Setting(
        "retry_max_s",
        float,
        10.0,
        "s",
        "The longest pause between two tries while the portal does not answer.",
        0.1,
        300,
    ),
    Setting(
        "revoked_retry_s",
        float,
        60.0,
        "s",
        "The pause between two tries while the portal refuses the node's token.",
        0.1,
        3600,
    ),
    Setting("keep_ended_s", float, 86400.0, "s", "How long the directory of an ended part is kept.", 0, 30 * 86400),
    Setting(
        "disk_low_mib",
        int,
        200,
        "MiB",
        "When less is free where jobs write, the node takes no new jobs. 0: it takes them always.",
        0,
        10**9,
    ),
    Setting(
        "health_check",
        Path,
        None,
        "",
        "A program of yours that says whether this node is well: with exit code 0 it is, else it gets no new jobs.",
    ),
    Setting("health_check_period_s", float, 300.0, "s", "The pause between two runs of --health-check.", 1, 86400),
    Setting("health_check_limit_s", float, 30.0, "s", "The longest that --health-check may take.", 0.1, 3600),
    Setting(
        "environments",
        str,
        "",
        "",
        "Environments of this machine that jobs may name, virtual or conda ones: `torch=/opt/torch,jax=/opt/jax`.",
    ),
    Setting(
        "environments_python",
        Path,
        None,
        "",
        "The Python of the environments that jobs have built from requirements. Default: the agent's.",
    ),
    Setting(
        "environments_index",
        str,
        None,
        "",
        "The package index for these, `https://...`, without a name or password. Default: the installer's.",
    ),
    Setting(
        "environments_wheels",
        Path,
        None,
        "",
        "A directory of wheels for these. Without --environments-index nothing is fetched from a network.",
    ),
    Setting(
        "environments_build_s", float, 600.0, "s", "The longest that building one may take: its job waits.", 1, 86400
    ),
    Setting("environments_one_gib", float, 20.0, "GiB", "The most that one may take of the disk.", 0.01, 10**6),
    Setting("environments_all_gib", float, 50.0, "GiB", "Above this, those longest unused are removed.", 0.01, 10**6),
    Setting(
        "environments_keep_days", float, 14.0, "days", "One that no job has used for so long is removed.", 0.01, 3650
    ),
    Setting("uploads_gib", float, 10.0, "GiB", "Uploaded files kept for next jobs; the longest unused go.", 0, 10**6),
    Setting("artefacts_period_s", float, 2.0, "s", "How often what jobs write for keeping is looked at.", 0.1, 3600),
    Setting("artefacts_rate", float, 50.0, "MiB/s", "The most that is sent of it a second. 0: no limit.", 0, 100_000),
    Setting(
        "artefacts_wait_s",
        float,
        2.0,
        "s",
        "So long a job's end waits for it to be sent; the rest is sent after the end.",
        0,
        3600,
    ),
    Setting(
        "telemetry_backlog_s",
        int,
        600,
        "s",
        "How many seconds of telemetry are kept while the portal is away.",
        5,
        86400,
    ),
)
NEEDED = ("url", "dir")
