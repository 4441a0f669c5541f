"""Leaves a Trainer as it was found: weights, gradients, optimizer, random states, modes, hooks and counters."""

from __future__ import annotations

import contextlib
import random
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import nn

#: Frozen weights are copied, so that they can be compared and put back, up to this size together [bytes]. Larger
#: models keep copies of all that can change: what is trained, what the optimizer holds, and buffers.
MOST_COPIED_BYTES = 4 * 2**30

Restore = Callable[[], Any]


@dataclass(frozen=True)
class Kept:
    """The weights as they were found, by the parameter's identity, for comparison."""

    copies: dict[int, torch.Tensor]

    def has(self, parameter: torch.Tensor) -> bool:
        """Whether a copy of this parameter was made."""
        return id(parameter) in self.copies

    def changed(self, parameter: torch.Tensor) -> bool:
        """Whether any bit differs from the copy; NaN is equal to itself."""
        copy = self.copies[id(parameter)]
        now = parameter.detach().to(copy.device)
        return not torch.equal(
            now.contiguous().view(-1).view(torch.uint8), copy.contiguous().view(-1).view(torch.uint8)
        )


@contextlib.contextmanager
def everything_kept(trainer: Any) -> Iterator[Kept]:
    """Whatever happens inside, the trainer and the process's random states are afterwards as they were, bit for bit."""
    with contextlib.ExitStack() as stack:
        # The last entered is the first restored: random states come back when nothing else runs any more.
        stack.enter_context(_put_back(_random_states()))
        stack.enter_context(_put_back([_remember_object(thing) for thing in _plain_objects(trainer)]))
        optimizer = _optimizer_of(trainer)
        held = [] if optimizer is None else [p for group in optimizer.param_groups for p in group["params"]]
        copies, restore_weights = _weights(trainer.model, held)
        stack.enter_context(_put_back(restore_weights))
        stack.enter_context(_put_back([_remember_object(module) for module in _modules(trainer)]))
        stack.enter_context(_put_back([] if optimizer is None else _optimizer(optimizer)))
        yield Kept(copies)


@contextlib.contextmanager
def random_states_kept() -> Iterator[None]:
    """The random states of Python, numpy, torch and its devices are afterwards as they were."""
    with _put_back(_random_states()):
        yield


@contextlib.contextmanager
def _put_back(restores: Iterable[Restore]) -> Iterator[None]:
    restores = list(restores)
    try:
        yield
    finally:
        for restore in restores:
            restore()


def _random_states() -> list[Restore]:
    python, numpy, cpu = random.getstate(), np.random.get_state(), torch.get_rng_state()
    restores: list[Restore] = [
        lambda: random.setstate(python),
        lambda: np.random.set_state(numpy),
        lambda: torch.set_rng_state(cpu),
    ]
    if torch.accelerator.is_available():
        device = torch.get_device_module()
        for number in range(torch.accelerator.device_count()):
            state = device.get_rng_state(number)
            restores.append(partial(device.set_rng_state, state, number))
    return restores


def random_state_digest() -> tuple[Any, ...]:
    """Something that is equal when no random number was drawn in between."""
    numpy = np.random.get_state(legacy=True)
    states = [random.getstate(), numpy[1].tobytes(), numpy[2:], torch.get_rng_state().numpy().tobytes()]  # type: ignore[index]
    if torch.accelerator.is_available():
        device = torch.get_device_module()
        states += [device.get_rng_state(n).numpy().tobytes() for n in range(torch.accelerator.device_count())]
    return tuple(states)


def _plain_objects(trainer: Any) -> list[Any]:
    """Everything around the model that a training step or a look at the data may write to."""
    from accelerate.optimizer import AcceleratedOptimizer
    from accelerate.state import GradientState

    config = getattr(trainer.model, "config", None)
    scheduler = trainer.lr_scheduler
    things = [
        trainer,
        trainer.args,
        trainer.state,
        trainer.control,
        trainer.callback_handler,
        trainer.accelerator,
        GradientState(),
        config,
        getattr(trainer.model, "generation_config", None),
        trainer.optimizer if isinstance(trainer.optimizer, AcceleratedOptimizer) else None,
        scheduler,
        *getattr(scheduler, "_schedulers", ()),
        trainer.data_collator,
        getattr(trainer.data_collator, "__self__", None),
    ]
    evaluation = trainer.eval_dataset
    datasets = [trainer.train_dataset, *(evaluation.values() if isinstance(evaluation, dict) else [evaluation])]
    for dataset in datasets:
        for _ in range(3):  # a subset of a wrapped data set keeps the real one inside
            if dataset is None:
                break
            things.append(dataset)
            dataset = getattr(dataset, "dataset", None)
    return [thing for thing in things if hasattr(thing, "__dict__")]


def _modules(trainer: Any) -> list[nn.Module]:
    roots = [root for root in (trainer.model, trainer.model_wrapped) if isinstance(root, nn.Module)]
    return list({id(module): module for root in roots for module in root.modules()}.values())


def _remember_object(thing: Any) -> Restore:
    """Remember an object's attributes: modes, hooks, patched methods, counters, generators."""
    return _remember(vars(thing))


def _remember(value: Any, depth: int = 4) -> Restore:
    """A function that puts the content of a value back and returns the same value."""
    if depth and type(value) in (dict, OrderedDict, defaultdict):
        parts = {key: _remember(part, depth - 1) for key, part in value.items()}

        def refill() -> Any:
            value.clear()
            value.update({key: restore() for key, restore in parts.items()})
            return value

        return refill
    if type(value) in (list, deque):
        items = list(value)

        def relist() -> Any:
            value.clear()
            value.extend(items)
            return value

        return relist
    if type(value) is set:
        members = set(value)

        def reset() -> Any:
            value.clear()
            value.update(members)
            return value

        return reset
    return _remember_generator(value)


def _remember_generator(value: Any) -> Restore:
    def put_back(put: Callable[[Any], Any], state: Any) -> Restore:
        def restore() -> Any:
            put(state)
            return value

        return restore

    if isinstance(value, torch.Generator):
        return put_back(value.set_state, value.get_state())
    if isinstance(value, np.random.Generator):
        generator = value.bit_generator
        return put_back(lambda state: setattr(generator, "state", state), generator.state)
    if isinstance(value, np.random.RandomState):
        return put_back(value.set_state, value.get_state())
    if isinstance(value, random.Random):
        return put_back(value.setstate, value.getstate())
    return lambda: value


def _weights(model: nn.Module, held: list[torch.Tensor]) -> tuple[dict[int, torch.Tensor], list[Restore]]:
    """Copies of what can change, and how to put values, flags and gradients back."""
    parameters = list(model.parameters())
    in_use = {id(p) for p in held} | {id(p) for p in parameters if p.requires_grad}
    frozen = [p for p in parameters if id(p) not in in_use and type(p) is nn.Parameter]
    small = sum(p.numel() * p.element_size() for p in frozen) <= MOST_COPIED_BYTES
    # Frozen weights hardly ever change, so their copies need not lie on the device.
    tensors: list[tuple[torch.Tensor, torch.Tensor]] = []
    tensors += [(p, p.detach().to("cpu", copy=True)) for p in frozen] if small else []
    using = [p for p in {id(p): p for p in [*parameters, *held]}.values() if id(p) in in_use]
    tensors += [(t, t.detach().clone()) for t in [*using, *model.buffers()]]
    flags = [(p, p.requires_grad, p.grad) for p in [*parameters, *held]]
    for p, _, _ in flags:
        p.grad = None  # the gradients themselves stay untouched until they are put back

    def restore() -> None:
        with torch.no_grad():
            for tensor, copy in tensors:
                tensor.copy_(copy)
        for p, requires_grad, grad in flags:
            p.requires_grad_(requires_grad)
            p.grad = grad

    return {id(tensor): copy for tensor, copy in tensors}, [restore]


def _optimizer_of(trainer: Any) -> torch.optim.Optimizer | None:
    """The optimizer that there is already, without accelerate's wrapper."""
    from accelerate.optimizer import AcceleratedOptimizer

    optimizer = trainer.optimizer
    while isinstance(optimizer, AcceleratedOptimizer):
        optimizer = optimizer.optimizer
    return optimizer if isinstance(optimizer, torch.optim.Optimizer) else None


def _optimizer(optimizer: torch.optim.Optimizer) -> list[Restore]:
    """The run works on a copy of the optimizer's state; its own is put back untouched."""
    groups = [_remember(group) for group in optimizer.param_groups]
    everything = _remember_shallow(optimizer)
    copied: Any = defaultdict(dict)
    for parameter, state in optimizer.state.items():
        copied[parameter] = {k: v.clone() if isinstance(v, torch.Tensor) else v for k, v in state.items()}
    optimizer.state = copied
    return [everything, *groups]


def _remember_shallow(thing: Any) -> Restore:
    attributes, saved = vars(thing), dict(vars(thing))

    def restore() -> None:
        attributes.clear()
        attributes.update(saved)

    return restore
