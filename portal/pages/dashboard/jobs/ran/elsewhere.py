"""Links to trackers of experiments, where a job's variables name its run there: Weights & Biases, and MLflow."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote, urlsplit

if TYPE_CHECKING:
    from collections.abc import Mapping

WANDB = "https://wandb.ai"


def runs_named(environment: Mapping[str, str]) -> list[dict[str, str]]:
    """Return words and address of each. A variable that is no address of the web makes no link."""
    wandb = [environment.get(f"WANDB_{name}", "") for name in ("ENTITY", "PROJECT", "RUN_ID")]
    mlflow = [environment.get(f"MLFLOW_{name}", "") for name in ("EXPERIMENT_ID", "RUN_ID")]
    found = [
        ("Weights & Biases", _site(environment.get("WANDB_BASE_URL") or WANDB), "{}/{}/runs/{}", wandb),
        ("MLflow", _site(environment.get("MLFLOW_TRACKING_URI", "")), "#/experiments/{}/runs/{}", mlflow),
    ]
    return [
        {"words": words, "url": f"{site}/{path.format(*(quote(part, safe='') for part in parts))}"}
        for words, site, path, parts in found
        if site and all(parts)
    ]


def _site(address: str) -> str | None:
    """Return an address of the web as it stands; None where it is none, or has more than host and path."""
    try:
        parts = urlsplit(address)
        is_site = parts.scheme in {"http", "https"} and parts.hostname and "@" not in parts.netloc
    except ValueError:
        return None
    return address.rstrip("/") if is_site and not (parts.query or parts.fragment) else None
