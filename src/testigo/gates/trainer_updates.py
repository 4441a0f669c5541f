"""Rules over the optimizer and the schedule of a Trainer that the user already has (codes U2xx)."""

from __future__ import annotations

from testigo.gates.measured import need
from testigo.gates.trainer import TrainerEvidence
from testigo.rules import CannotCheck, Finding, Passed, found, passed, rule


@rule("U201", "peak-never-reached", "warn", phase="update", requires=("U202",))
def schedule_reaches_its_peak(evidence: TrainerEvidence, share: float = 0.5) -> Finding | Passed:
    """The learning rate comes near what was asked for at some time of the run.

    Why it matters: with a warm-up longer than the run, the learning rate is another than the one in the settings, and
    no log compares them.

    What to do: give `warmup_steps` as a share of the run (below 1), or shorten it.

    Source: a linear warm-up reaches `learning_rate` at its end (transformers, `get_scheduler`); half of it is beyond
    what a schedule's shape explains.
    """
    asked, peak = need(evidence.learning_rate, "the learning rate"), need(evidence.peak_learning_rate, "the schedule")
    seen = f"the schedule's highest learning rate is {peak:.3g}, asked for is {asked:.3g}"
    return found(seen) if peak < share * asked else passed(seen)


@rule("U202", "learning-rate-zero", "stop", phase="update")
def learning_rate_is_above_zero(evidence: TrainerEvidence) -> Finding | Passed:
    """Some update of the run has a learning rate above zero.

    Why it matters: at zero nothing moves; losses and gradient norms look as always.

    What to do: set `learning_rate`; see what the schedule makes of it.

    Source: an update is proportional to the learning rate.
    """
    peak = need(evidence.peak_learning_rate, "the schedule")
    if evidence.learning_rate is None:
        raise CannotCheck("the learning rate was not measured")
    seen = f"the schedule's highest learning rate is {peak:.3g}"
    return passed(seen) if peak > 0 else found(seen)


@rule("U203", "schedule-of-another-optimizer", "stop", phase="update")
def schedule_moves_this_optimizer(evidence: TrainerEvidence) -> Finding | Passed:
    """The schedule changes the learning rate of the optimizer that is used.

    Why it matters: a schedule of an optimizer that was built anew since then changes nothing: no warm-up, no decay.

    What to do: build the schedule from the same optimizer that the Trainer gets: `optimizers=(optimizer, schedule)`.

    Source: torch.optim.lr_scheduler writes into the parameter groups of the optimizer that it was given.
    """
    if need(evidence.schedule_is_the_optimizers, "the schedule's optimizer"):
        return passed("the schedule changes this optimizer's learning rate")
    return found("the schedule was built for another optimizer than the Trainer's")


@rule("U204", "nothing-to-run", "stop", phase="update")
def there_is_a_batch(evidence: TrainerEvidence) -> Finding | Passed:
    """An epoch has at least one batch.

    Why it matters: with fewer rows than a batch, and the last incomplete one dropped, the run ends at once without an
    update and with exit code 0.

    What to do: set `dataloader_drop_last=False`, or lower `per_device_train_batch_size`.

    Source: torch.utils.data.DataLoader: `drop_last` leaves out an incomplete batch.
    """
    n_batches = need(evidence.n_batches, "the batches of an epoch")
    seen = f"an epoch has {n_batches} batches"
    return passed(seen) if n_batches else found(seen)


@rule("U205", "norms-decayed", "note", phase="update")
def norms_are_not_decayed(evidence: TrainerEvidence) -> Finding | Passed:
    """Norms and biases have no weight decay.

    Why it matters: decay pulls a norm's scale towards zero, where its neutral value is one.

    What to do: let the Trainer build the optimizer, or give norms and biases a parameter group with
    `weight_decay=0.0`. `torch.optim.AdamW` decays by 0.01 unless told otherwise.

    Source: Loshchilov and Hutter 2019; transformers' `Trainer.get_decay_parameter_names` leaves norms and biases out.
    """
    decayed = need(evidence.decayed_vectors, "parameter groups")
    return found(f"{decayed} norms and biases have weight decay") if decayed else passed("norms have no weight decay")


@rule("U133", "reentrant-beside-unused-search", "stop", phase="update")
def processes_can_mark_each_gradient_once(evidence: TrainerEvidence) -> Finding | Passed:
    """Several processes do not search for unused parameters while activations are computed twice in the reentrant way.

    Why it matters: the first step of several processes ends with "marked as ready twice"; one process, on which the
    script was tried, trains.

    What to do: set `activation_checkpointing_kwargs={"use_reentrant": False}`, or `ddp_find_unused_parameters=False`.

    Source: PyTorch's DistributedDataParallel: "Reentrant activation checkpointing is not supported with
    find_unused_parameters"; its hooks fire again in the inner backward pass.
    """
    reentrant = need(evidence.recomputes_reentrantly, "the kind of activation checkpointing")
    if reentrant and need(evidence.searches_unused, "the search for unused parameters"):
        return found("reentrant activation checkpointing with ddp_find_unused_parameters=True")
    return passed("no search for unused parameters beside reentrant activation checkpointing")
