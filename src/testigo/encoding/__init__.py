"""Exact tensors: render a row with the model's template, tokenise it, mark what counts in the loss, lay it into packs.

Reading order: `frame` (how the tokenizer frames a turn), `encoder` (a row becomes ids), `pack` (rows become tensors).
"""

from testigo.encoding.encoder import EncodedRow, Encoder, Lengths
from testigo.encoding.frame import Frame
from testigo.encoding.pack import IGNORED, Pack, lay_out, pack, pad

__all__ = ["IGNORED", "EncodedRow", "Encoder", "Frame", "Lengths", "Pack", "lay_out", "pack", "pad"]
