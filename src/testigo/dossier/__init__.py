"""The dossier: the report that convinces a sceptical reader, and the check that it still says the truth.

`build_dossier` reads the ledger and the folders of a workspace into one `Record` and writes it three times: as a page
that opens offline (index.html), as JSON for machines (dossier.json), as a model card. `verify_dossier` trusts nothing
of it: it checks every digest, the ledger's chain, and computes the statistics again from the row-by-row outputs.
"""

from __future__ import annotations

from testigo.dossier.build import build_dossier
from testigo.dossier.control import ControlCheck, in_fresh_process
from testigo.dossier.gather import gather
from testigo.dossier.record import Record
from testigo.dossier.twin import json_schema
from testigo.dossier.verify import Verification, verify_dossier
from testigo.dossier.versions import read_record

__all__ = [
    "ControlCheck",
    "Record",
    "Verification",
    "build_dossier",
    "gather",
    "in_fresh_process",
    "json_schema",
    "read_record",
    "verify_dossier",
]
