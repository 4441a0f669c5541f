"""The memory of each phase before a GPU is rented: predicted from the configuration, without weights and without a GPU.

Reading order: `lengths` (which rows meet), `architecture` (the model as a shape), `tracker` (whose bytes are alive),
`step` (what the loop does to memory), `rehearse` (one run with fake tensors), `sizing` (verdict and ways out), `gpu`.
"""

from testigo.sizing.gpu import KNOWN_GPUS_GIB, gpu_bytes_of
from testigo.sizing.lengths import RowLength, RowLengths
from testigo.sizing.sizing import Examples, PhaseSize, Remedy, Sizing, size

__all__ = [
    "KNOWN_GPUS_GIB",
    "Examples",
    "PhaseSize",
    "Remedy",
    "RowLength",
    "RowLengths",
    "Sizing",
    "gpu_bytes_of",
    "size",
]
