"""The memory of each phase before a GPU is rented: predicted from the configuration, without weights and without a GPU.

Reading order: `lengths` (which rows meet), `architecture` (the model as a shape), `tracker` (whose bytes are alive),
`passes`, `step` and `outputs` (what the loop does to memory), `rehearse` (one run with fake tensors), `bench` (runs of
changed campaigns), `limits` (the largest inputs), `sizing` (verdict and ways out), `sheet` (choices for several GPUs),
`terms` (what pilots measured).
"""

from testigo.sizing.gpu import KNOWN_GPUS_GIB, gpu_bytes_of
from testigo.sizing.lengths import RowLength, RowLengths
from testigo.sizing.sheet import Choice, sheet
from testigo.sizing.sizing import Examples, PhaseSize, Remedy, Sizing, size
from testigo.sizing.terms import Terms

__all__ = [
    "KNOWN_GPUS_GIB",
    "Choice",
    "Examples",
    "PhaseSize",
    "Remedy",
    "RowLength",
    "RowLengths",
    "Sizing",
    "Terms",
    "gpu_bytes_of",
    "sheet",
    "size",
]
