"""Rows: read, cleaned, checked, searched for copies, split by group, and the test split sealed.

`build` makes a corpus once and finds it again by its fingerprint; `Corpus.rows` reads train and validation, and only
`open_sealed` reads the test rows.
"""

from __future__ import annotations

from testigo.corpus.building import build
from testigo.corpus.cleaning import CLEANING_STEPS
from testigo.corpus.comparing import CorpusDiff, compare_corpora
from testigo.corpus.images import Picture, is_image, open_image
from testigo.corpus.row import Row
from testigo.corpus.storage import Corpus, check_seal, open_corpus, open_sealed
from testigo.corpus.unclean import unclean_rows

__all__ = [
    "CLEANING_STEPS",
    "Corpus",
    "CorpusDiff",
    "Picture",
    "Row",
    "build",
    "check_seal",
    "compare_corpora",
    "is_image",
    "open_corpus",
    "open_image",
    "open_sealed",
    "unclean_rows",
]
