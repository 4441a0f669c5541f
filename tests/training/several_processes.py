"""Started by torchrun in tests: trains each given spec with the processes that there are, one after the other."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import torch

from testigo.disk import write_json
from testigo.model.digest import weights_sha256
from testigo.training import replicas
from testigo.training.prepare import prepare, session
from testigo.training.spec import RunSpec


def main(specs: list[str]) -> None:
    torch.set_num_threads(1)
    own = replicas.begin()
    for path in map(Path, specs):
        spec = RunSpec.read(path)
        work = session(spec, prepare(spec, own), path.parent, own)
        work.resume(1)
        last = int(os.environ.get("STOP_AFTER", "0"))
        work.stop_requested = lambda progress=work.progress, last=last: bool(last) and progress.update >= last
        outcome = work.run()
        digests = own.gathered(weights_sha256(work.parameters))
        if own.is_first:
            write_json(
                path.parent / "result.json",
                {"state": outcome.state, "cause": outcome.cause, "digests": digests, "processes": own.n},
            )
    replicas.end()
    replicas.leave(0)


if __name__ == "__main__":
    main(sys.argv[1:])
