"""What a run proves of itself on its way: replicas that stay alike, and a resume that repeats what was recorded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch import nn

from testigo.gates.resume import RepeatedUpdate, ResumeEvidence, newest_checkpoint_is_whole, repeated_update_agrees
from testigo.gates.update import UpdateEvidence, replicas_agree
from testigo.model.digest import weights_sha256
from testigo.model.sharding import is_sharded
from testigo.rules import Finding, judge
from testigo.training.replicas import Replicas
from testigo.training.soundness import PassedOver

DIGESTS_EVERY = 25
"""Updates between two comparisons of the weights that processes hold alike; the first two are compared too."""


def drift_of(replicas: Replicas, parameters: Mapping[str, nn.Parameter], update: int) -> Finding | None:
    """What differs between the processes' weights after this update, which all processes are told.

    None where they are alike, are held in parts, or are not due to be compared.
    """
    if replicas.n == 1 or is_sharded(parameters.values()) or (update > 2 and update % DIGESTS_EVERY):
        return None
    digests = tuple(replicas.gathered(weights_sha256(parameters)))
    if len(set(digests)) == 1:
        return None
    (finding,) = judge([replicas_agree], [UpdateEvidence(replica_digests=digests)]).findings
    return finding


def unlike_record(
    recorded: Mapping[str, Any], line: Mapping[str, Any], limits: Mapping[str, Mapping[str, Any]]
) -> tuple[Finding, ...]:
    """What a repeated update shows that an earlier attempt's line of the same update did not."""
    repeated = RepeatedUpdate(
        update=line["update"],
        recorded=float(recorded["loss"]),
        repeated=line["loss"],
        rows_equal=recorded["rows"] == line["rows"],
    )
    return judge([repeated_update_agrees], [repeated], limits=limits).findings


def told_of_passed_over(passed_over: Sequence[PassedOver]) -> tuple[Finding, ...]:
    """The finding that newer checkpoints were not whole."""
    evidence = ResumeEvidence(passed_over=tuple(f"{bad.name} ({bad.why})" for bad in passed_over))
    return judge([newest_checkpoint_is_whole], [evidence]).findings
