"""Rows of a hub data set at one exact revision."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from testigo.errors import DataError

_ADDRESS = re.compile(r"hub:(?P<name>[\w.-]+(/[\w.-]+)?)@(?P<revision>[0-9a-f]{40})")


def read_hub(source: str) -> list[dict[str, Any]]:
    """All rows of `hub:NAME@REVISION`: the data set's split `train`, or its only split.

    Raises
    ------
    DataError
        When the address names no exact revision, the data set cannot be fetched, a local folder has its name, or it has
        several splits without one that is called train.
    """
    match = _ADDRESS.fullmatch(source)
    if match is None:
        raise DataError(
            expected="hub:NAME@REVISION with the 40 hex digits of one commit, since names and branches move",
            found=source,
            where="data.source",
            action="copy the commit from the data set's page, under History",
        )
    if Path(match["name"]).exists():  # the library would read that folder, and the revision would mean nothing
        raise DataError(
            expected="a data set of the hub",
            found=f"a local folder of the same name, {match['name']}",
            where=source,
            action="give the folder itself as source, or run from another folder",
        )
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    import datasets

    try:
        splits = datasets.load_dataset(match["name"], revision=match["revision"])
    except Exception as error:  # the library raises a dozen kinds: offline, not found, gated, broken files
        raise DataError(
            expected="a data set that can be fetched, or is already in the local cache",
            found=f"{type(error).__name__}: {str(error).splitlines()[0][:160] if str(error) else ''}",
            where=source,
            action="check name, revision and network; offline, give the rows as a file instead",
        ) from error
    return rows_of(splits, source)


def rows_of(splits: Mapping[str, Any], source: str) -> list[dict[str, Any]]:
    """The rows of the split that is meant: train, or the only one."""
    name = "train" if "train" in splits else next(iter(splits))
    if name != "train" and len(splits) > 1:
        raise DataError(
            expected="a split that is called train, or one split only",
            found=", ".join(splits),
            where=source,
            action="save the split that you mean as a Parquet file and name that",
        )
    return [dict(row) for row in _undecoded(splits[name])]


def _undecoded(rows: Any) -> Any:
    """Images as the bytes of their files, not as the pictures that the library makes of them."""
    import datasets

    for column, feature in dict(getattr(rows, "features", None) or {}).items():
        if isinstance(feature, datasets.Image):
            rows = rows.cast_column(column, datasets.Image(decode=False))
    return rows
