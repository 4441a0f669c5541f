"""Secrets as users have them in their environment. None of them opens anything."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

PASSWORD = "planted-Pass-4711-word"
ENVIRONMENT = {
    "HF_TOKEN": "hf_" + "plantedPLANTED" * 2 + "4711",
    "WANDB_API_KEY": "planted" + "0123456789abcdef" * 2,
    "AWS_ACCESS_KEY_ID": "AKIA" + "PLANTED471147114"[:16],
    "AWS_SECRET_ACCESS_KEY": "planted/Secret+4711/abcdefghijklmnopqrst",
    "PGPASSWORD": f"{PASSWORD}-of-the-database",
    "MLFLOW_TRACKING_PASSWORD": f"{PASSWORD}-of-a-tracker",
    "GITHUB_TOKEN": "ghp_" + "planted" * 5 + "4",
    "DATABASE_URL": f"postgresql://user:{PASSWORD}@127.0.0.1:1/db",
}
VALUES = (*(value for name, value in ENVIRONMENT.items() if name != "DATABASE_URL"), PASSWORD)


def found_in(texts: Iterable[str]) -> list[str]:
    """The secrets that some texts repeat."""
    return sorted({value for text in texts for value in VALUES if value in text})


def found_under(folder: Path) -> list[str]:
    """Each file that holds a secret, in any bytes of it."""
    files = [path for path in folder.rglob("*") if path.is_file() and not path.is_symlink()]
    return [str(path) for path in files if any(value.encode() in path.read_bytes() for value in VALUES)]
