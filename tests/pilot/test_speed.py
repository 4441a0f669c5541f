"""What the pilot's times are multiplied by: the tokens and steps that a run really computes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from testigo.encoding import EncodedRow
from testigo.pilot.speed import collect, prompt_tokens, steps_of

if TYPE_CHECKING:
    from testigo.pilot.bench import Bench


def row(prompt: tuple[int, ...], n_answer: int) -> EncodedRow:
    return EncodedRow("r", "", (*prompt, *range(900, 900 + n_answer)), len(prompt))


def test_a_place_that_becomes_free_is_taken_at_once() -> None:
    assert steps_of([3, 3, 3, 3], 4) == 3
    assert steps_of([9, 1, 1, 1], 2) == 9
    assert steps_of([2, 2, 2], 2) == 4
    assert steps_of([], 2) == 0


def test_what_all_prompts_begin_with_is_read_once() -> None:
    rows = [row((1, 2, 3, 4), 2), row((1, 2, 3, 5, 6), 1)]
    assert prompt_tokens(rows) == 3 + 1 + 2
    assert prompt_tokens([row((1, 2), 1), row((1, 2), 1)]) == 1 + 1 + 1  # the last token of a prompt is each row's own
    assert prompt_tokens(["a picture", "another"]) == 2
    assert prompt_tokens([]) == 0


def test_the_tokens_of_the_loss_are_those_that_a_validation_computes(bench: Callable[..., Bench]) -> None:
    made = bench()
    speed = collect(made, start_seconds=1.0)
    seen: list[int] = []

    def count(module: Any, arguments: tuple[Any, ...], named: dict[str, Any]) -> None:
        ids = named.get("input_ids", arguments[0] if arguments else None)
        seen.append(ids.numel())

    handle = made.model.register_forward_pre_hook(count, with_kwargs=True)
    made.session.validate()
    handle.remove()
    assert speed.loss_tokens == sum(seen)
    assert speed.prompt_tokens > 0
    assert speed.steps > 0
