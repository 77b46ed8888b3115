"""The environment variables Berth reads: the one place that defines them. The settings reference is made from it."""

from __future__ import annotations

import os
from typing import Any

from portal.environment.inside import INSIDE, Variable

VARIABLES = (
    Variable(
        "BERTH_DATA_DIR", str, "", "Directory that holds all state; empty: var/ beside manage.py.", range="a path"
    ),
    Variable("DATABASE_URL", str, "", "Database; empty: SQLite in the data directory.", range="postgres://, sqlite://"),
    Variable(
        "REDIS_URL",
        str,
        "",
        "Redis or Valkey; empty: `./berth up` starts an embedded server and sets it.",
        range="redis://, rediss://, unix://",
    ),
    Variable(
        "BERTH_SECRET_KEY_FILE", str, "", "File with the signing key; empty: DIR/secret-key, generated.", range="a path"
    ),
    Variable("BERTH_DEMO", bool, False, "Demo mode: tenants of single-account nodes trust each other.", range="0, 1"),
    Variable(
        "BERTH_DEMO_WORKLOAD",
        bool,
        True,
        "Submit the demo's jobs: the first ones, and those that keep coming.",
        range="0, 1",
    ),
    Variable(
        "BERTH_DEMO_UNTIL",
        int,
        0,
        "When the demo's jobs stop coming; 0: never. `up --demo --demo-minutes N` sets it.",
        "Unix s",
        "0 or a time",
    ),
    Variable("BERTH_DEBUG", bool, False, "Django's debug pages; never in production.", range="0, 1"),
    Variable("BERTH_BASE_URL", str, "", "Public URL of the portal; https makes cookies secure.", range="http(s)://"),
    Variable(
        "BERTH_HSTS_S",
        int,
        30 * 86400,
        "With an https base URL browsers are told to use this host with TLS alone for so long "
        "(Strict-Transport-Security); 0: they are not.",
        "s",
        "0-63072000",
    ),
    Variable(
        "BERTH_ALLOWED_HOSTS",
        str,
        "127.0.0.1,localhost,[::1],testserver",
        "Host names answered to.",
        range="comma list",
    ),
    Variable("BERTH_LOG_LEVEL", str, "INFO", "How much is logged.", range="DEBUG, INFO, WARNING, ERROR"),
    Variable(
        "BERTH_TRUSTED_PROXIES",
        str,
        "",
        "Addresses or networks of proxies in front; what they say of a caller's address and scheme "
        "(X-Forwarded-For, X-Forwarded-Proto) is believed, what anybody else says is not.",
        range="comma list",
    ),
    Variable(
        "BERTH_SIGN_IN_FAILURES",
        int,
        8,
        "Failed sign-ins before a name is locked for the address they came from.",
        "attempts",
        "1-1000",
    ),
    Variable(
        "BERTH_SIGN_IN_NAME_FAILURES",
        int,
        40,
        "Failed sign-ins from any addresses before a name is locked for all.",
        "attempts",
        "1-10000",
    ),
    Variable(
        "BERTH_QUOTA_WARNING_PERCENT",
        int,
        90,
        "From this part of a quota on the overview, the tenant's page and the submit form say that it is nearly used.",
        "%",
        "1-100",
    ),
    Variable("BERTH_SIGN_IN_LOCK_MINUTES", int, 15, "How long a lock-out lasts.", "min", "1-1440"),
    Variable(
        "BERTH_OPERATORS_SECOND_FACTOR",
        bool,
        False,
        "Operators who sign in without a second factor get no further than their account page, where they set one up.",
        range="0, 1",
    ),
    Variable(
        "BERTH_LEASE_S", int, 900, "Lease of a requeueable attempt; its shim kills it when it ends.", "s", "5-86400"
    ),
    Variable("BERTH_LEASE_GRACE_S", int, 15, "Waited beyond a lease before an attempt counts as lost.", "s", "3-3600"),
    Variable(
        "BERTH_START_LIMIT_S",
        int,
        300,
        "A start counts as lost after so long without a word of it, while its node is in contact.",
        "s",
        "30-86400",
    ),
    Variable(
        "BERTH_DISK_LOW_MIB",
        int,
        200,
        "With less free on the data directory's disk no job is taken in or started, and log output waits on the nodes.",
        "MiB",
        "0-1000000",
    ),
    Variable(
        "BERTH_HANG_LIMIT_S",
        int,
        45,
        "`./berth up` kills and restarts a process of Berth (never a job) that shows no sign of life for so long; 0: never.",
        "s",
        "0, 5-3600",
    ),
    Variable(
        "BERTH_BACKUP_HOURS",
        int,
        24,
        "A backup is made into DIR/backups every so often; 0: none, as in a demo.",
        "h",
        "0-8760",
    ),
    Variable("BERTH_BACKUP_KEEP", int, 3, "So many automatic backups are kept, the newest.", "backups", "1-1000"),
    Variable(
        "BERTH_JOB_DISK_GIB",
        int,
        100,
        "What a job that names no `disk_gib` may have on each node's disk; one that has more is ended. 0: no limit.",
        "GiB",
        "0-1000000",
    ),
    Variable(
        "BERTH_GIT_SCHEMES",
        str,
        "https,ssh",
        "How nodes may fetch the repositories that jobs name. `file` opens every repository on the nodes' own disks.",
        range="comma list of https, ssh, http, file",
    ),
    Variable(
        "BERTH_CODE_ROOTS",
        str,
        "",
        "Directories on the nodes below which jobs may name their code (`code.path`); empty: none.",
        range="comma list of absolute paths",
    ),
    Variable(
        "BERTH_SMTP_HOST",
        str,
        "",
        "Mail server by which people are told of their jobs; empty: no mail is offered.",
        range="a host name",
    ),
    Variable("BERTH_SMTP_PORT", int, 587, "Its port: 587 with starttls, 465 with tls, 25 with none.", "", "1-65535"),
    Variable("BERTH_SMTP_USER", str, "", "Name at the mail server; empty: none is asked for.", range="text"),
    Variable("BERTH_SMTP_PASSWORD_FILE", str, "", "File with the password at the mail server.", range="a path"),
    Variable(
        "BERTH_SMTP_TLS",
        str,
        "starttls",
        "How the way to the mail server is encrypted; none only where nobody else can listen.",
        range="starttls, tls, none",
    ),
    Variable("BERTH_MAIL_FROM", str, "Berth <berth@localhost>", "Sender of mails.", range="a mail address"),
    Variable(
        "BERTH_MAILS_PER_HOUR",
        int,
        20,
        "The most mails to one person in an hour; what comes beyond is told together in the next one.",
        "mails",
        "1-1000",
    ),
    Variable(
        "BERTH_WEBHOOKS_PER_HOUR",
        int,
        120,
        "The most calls of one webhook in an hour; what comes beyond is told together in the next ones.",
        "calls",
        "1-10000",
    ),
    Variable(
        "BERTH_WEBHOOK_NETWORKS",
        str,
        "",
        "Networks within which webhooks may be called though their addresses are not public, such as 10.4.0.0/16; "
        "never those of the portal's own services.",
        range="comma list",
    ),
    Variable(
        "BERTH_LIMIT_WARNING_MINUTES",
        int,
        30,
        "So long before its time limit or idle time-out a job's owner is warned who asked for it, but at most a fifth of that.",
        "min",
        "1-1440",
    ),
    Variable("BERTH_UPLOAD_MIB", int, 200, "The most that the uploaded files of one job may have.", "MiB", "1-1000000"),
    Variable(
        "BERTH_UPLOADS_GIB",
        int,
        20,
        "The most that the uploaded files of one tenant may have in all.",
        "GiB",
        "0-1000000",
    ),
    Variable(
        "BERTH_UPLOADS_KEEP_DAYS",
        int,
        14,
        "Uploaded files that no job has used for so long are removed; those of jobs that have not ended are kept.",
        "days",
        "1-3650",
    ),
    Variable("BERTH_LOG_LIMIT_MIB", int, 64, "Log kept of one stream of one part of an attempt.", "MiB", "1-4096"),
    Variable(
        "BERTH_ARTEFACT_QUOTA_GIB",
        int,
        50,
        "What the artefacts of a tenant may take together, where the tenant has no quota of its own; 0: none are kept.",
        "GiB",
        "0-1000000",
    ),
    Variable(
        "BERTH_ARTEFACT_DAYS",
        int,
        90,
        "Artefacts are kept so long after their job's end, where the tenant has no time of its own; 0: for ever.",
        "days",
        "0-36500",
    ),
    Variable("BERTH_ARTEFACT_FILES", int, 10000, "The most artefacts that one job may have.", "files", "1-100000"),
    Variable(
        "BERTH_ARTEFACT_DISK_LOW_MIB",
        int,
        1024,
        "With less free on the data directory's disk no artefacts are taken in; they wait on the nodes.",
        "MiB",
        "0-1000000",
    ),
    Variable(
        "BERTH_S3_URL",
        str,
        "",
        "Bucket of a server that speaks S3, to which artefacts are brought a minute after they came; empty: they stay in the "
        "data directory.",
        range="s3://BUCKET, s3://BUCKET/FOLDER",
    ),
    Variable("BERTH_S3_ENDPOINT", str, "", "Address of that server; empty: Amazon's.", range="http(s)://"),
    Variable("BERTH_S3_REGION", str, "us-east-1", "Its region.", range="text"),
    Variable(
        "BERTH_S3_CREDENTIALS_FILE",
        str,
        "",
        "File with the credentials, as AWS's programs write it; empty: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or what "
        "the machine has of its own.",
        range="a path",
    ),
    *INSIDE,
)
_BY_NAME = {variable.name: variable for variable in VARIABLES}
_TRUE = {"1", "true", "yes", "on"}


def env(name: str) -> Any:
    """Return a documented variable's value in its kind. Raises ValueError naming the variable and the remedy."""
    variable = _BY_NAME[name]
    raw = os.environ.get(name)
    if raw is None or raw == "":
        return variable.default
    if variable.kind is bool:
        return raw.lower() in _TRUE
    if variable.kind is int:
        try:
            return int(raw)
        except ValueError:
            raise ValueError(f"{name}={raw!r} is not a whole number; expected {variable.range}.") from None
    return raw
