"""Exact tensors: render a row with the model's template, tokenise it, mark what counts in the loss, lay it into packs.

Reading order: `template` (what the chat template writes), `turns` (which characters are the assistant's, proved),
`frame` (a conversation becomes ids), `row` (a row as the model sees it), `encoder` (a row becomes ids), `cutting` (what
a maximum length would cut), `pack` (rows become tensors).
"""

from testigo.encoding.cutting import Cut, cut
from testigo.encoding.encoder import Encoder, Lengths
from testigo.encoding.frame import Frame
from testigo.encoding.pack import IGNORED, Pack, lay_out, pack, pad
from testigo.encoding.row import EncodedRow

__all__ = ["IGNORED", "Cut", "EncodedRow", "Encoder", "Frame", "Lengths", "Pack", "cut", "lay_out", "pack", "pad"]
