"""Where the heavy part of a search runs: on this machine, or on a Ray cluster. The results are the same.

The engine is daft, the same query on either. It and Ray report their use by default; that is switched off here, before
either is imported, and nothing else imports them.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from testigo.errors import DataError
from testigo.ray_cluster import SILENT, connect

if TYPE_CHECKING:
    import pyarrow as pa

PERMUTATIONS = 128


def band_keys(texts: list[str], shingle: int, rows_a_band: int, engine: str) -> pa.Table:
    """MinHash signatures of texts, folded into one key a band.

    Parameters
    ----------
    texts
        Words between single spaces.
    shingle
        Words of a shingle.
    rows_a_band
        Permutations that make a key.

    Returns
    -------
    pyarrow.Table
        Columns `place` and `key0`, `key1`, …: unsigned 64-bit numbers, in the order of the texts.
    """
    import pyarrow as pa

    daft = _daft(engine)
    table = pa.table({"place": pa.array(range(len(texts)), pa.int64()), "text": pa.array(texts, pa.large_string())})
    text, signature = daft.col("text"), daft.col("signature")
    hashed = daft.functions.minhash(
        text, num_hashes=PERMUTATIONS, ngram_size=shingle, seed=1, hash_function="xxhash3_64"
    )
    bands = range(0, PERMUTATIONS - rows_a_band + 1, rows_a_band)
    keys = [
        daft.functions.hash(daft.functions.slice(signature, start, start + rows_a_band)).alias(f"key{band}")
        for band, start in enumerate(bands)
    ]
    rows = daft.from_arrow(table).select("place", hashed.alias("signature")).select("place", *keys)
    return rows.to_arrow().sort_by("place")


def _daft(engine: str) -> Any:
    """The library with its runner set."""
    os.environ.update({**SILENT, "DAFT_PROGRESS_BAR": "0"})
    import daft

    if engine == "ray":
        connect(DataError, needed_for="runs the search for duplicates on a cluster", otherwise="data.engine: local")
        daft.set_runner_ray(noop_if_initialized=True)
    elif daft.runners.get_or_infer_runner_type() != "native":
        raise DataError(
            expected="one engine in a process",
            found="`data.engine: local` after a search on Ray",
            where="data.engine",
            action="start a fresh process",
        )
    return daft
