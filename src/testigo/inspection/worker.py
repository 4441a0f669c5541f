"""The process that measures rows under the base: ``python -m testigo.inspection.worker SPEC.json``.

It adds the token losses of its rows to ``losses-<split>.json``, batch by batch, so that a kill loses one batch.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from testigo.campaign import Campaign
from testigo.corpus import open_corpus
from testigo.disk import working_in, write_json
from testigo.encoding import Batch, lay_out
from testigo.errors import exit_code_of
from testigo.inspection.strange import PROGRESS, LossSpec, losses_path
from testigo.model.starter import end_with_starter

_ROWS_AT_ONCE = 4


def measure(spec: LossSpec) -> None:
    """Write the losses; what is there already stays.

    Raises
    ------
    WorkspaceError
        When the disk is full or not writable.
    """
    with working_in(Path(spec.out)):
        _measure(spec)


def _measure(spec: LossSpec) -> None:
    from testigo.model.encoder import encoder_of
    from testigo.model.load import pad_id_of
    from testigo.model.prepare import load_exactly
    from testigo.model.quantised import on_device
    from testigo.tasks import labels_of

    settings, out = Campaign.from_json(spec.campaign, folder=Path(spec.campaign_folder)), Path(spec.out)
    wanted = set(spec.rows)
    corpus = open_corpus(Path(spec.corpus))
    rows = {row.id: row for row in corpus.rows(spec.split) if row.id in wanted}
    loaded, model = load_exactly(settings, spec.base_digest, seed=0, labels=labels_of(settings, corpus))
    on_device(model).eval()
    encoder: Any = encoder_of(settings, loaded, corpus.folder)
    encoded = [encoder.encode(rows[row_id]) for row_id in spec.rows]
    encoded = [row for row in encoded if row.n_tokens <= encoder.maximum_length]
    layout, pad_id = settings.encoding.layout, 0 if loaded.tokenizer is None else pad_id_of(loaded.tokenizer)
    lay = encoder.lay_out if loaded.head else partial(lay_out, layout=layout, pad_id=pad_id)
    path = losses_path(out, spec.split)
    known: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))["rows"] if path.exists() else {}
    for start in range(0, len(encoded), _ROWS_AT_ONCE):
        write_json(out / PROGRESS, {"done": start, "of": len(encoded)})
        known |= _token_losses(model, encoded[start : start + _ROWS_AT_ONCE], lay)
        write_json(path, {"split": spec.split, "base": spec.base_digest, "rows": known})
    write_json(out / PROGRESS, {"done": len(encoded), "of": len(encoded)})


def _token_losses(model: Any, rows: list[Any], lay: Callable[[list[Any]], Batch]) -> dict[str, list[float]]:
    """Of each row, in the order of its tokens [nats]."""
    import torch

    from testigo.model.device import device
    from testigo.model.losses import token_losses

    laid = lay(rows).to(device())
    with torch.inference_mode():
        every = token_losses(model, laid).double().cpu()
    owner = laid.owner.cpu()
    return {row_id: every[owner == k].round(decimals=4).tolist() for k, row_id in enumerate(laid.row_ids)}


def main(arguments: list[str]) -> int:
    """Measure one spec; a user's error is one JSON line on standard error."""
    end_with_starter()
    document = json.loads(Path(arguments[0]).read_text(encoding="utf-8"))
    return exit_code_of(lambda: measure(LossSpec(**{**document, "rows": tuple(document["rows"])})))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
