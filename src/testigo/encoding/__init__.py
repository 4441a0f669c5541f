"""Exact tensors: render a row with the model's template, tokenise it, mark what counts in the loss, lay it into packs.

Reading order: `template` (what the chat template writes), `turns` (which characters are the assistant's, proved),
`frame` (a conversation becomes ids), `row` (a row as the model sees it), `encoder` (a row becomes ids), `cutting` (what
a maximum length would cut), `store` (rows on disk), `tree` (what rows share), `bins` (which rows meet in a pack),
`pack` (rows become tensors); for class heads `classes` (a row with one answer, a batch of them), `class_encoder`,
`image_encoder` (with `augment`).
"""

from testigo.encoding.bins import bins, microbatches
from testigo.encoding.class_encoder import ClassEncoder
from testigo.encoding.classes import Labelled, LabelledRow
from testigo.encoding.cutting import Cut, cut
from testigo.encoding.encoder import Encoder, Lengths
from testigo.encoding.frame import Frame
from testigo.encoding.image_encoder import ImageEncoder
from testigo.encoding.pack import IGNORED, Pack, common_prefix, lay_out, pack, pad
from testigo.encoding.row import EncodedRow
from testigo.encoding.store import StoredRows, lengths_of, stored
from testigo.encoding.tree import n_laid

AnyEncoder = Encoder | ClassEncoder | ImageEncoder
AnyRow = EncodedRow | LabelledRow
Batch = Pack | Labelled

__all__ = [
    "IGNORED", "AnyEncoder", "AnyRow", "Batch", "ClassEncoder", "Cut", "EncodedRow", "Encoder", "Frame", "ImageEncoder",
    "Labelled", "LabelledRow", "Lengths", "Pack", "StoredRows", "bins", "common_prefix", "cut", "lay_out", "lengths_of",
    "microbatches", "n_laid", "pack", "pad", "stored",
]  # fmt: skip
