"""Greedy answers: token for token those of transformers, whatever is shared, sorted or cut on the way."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import AutoModelForCausalLM, GPT2Config

from testigo.evaluation.decode import decode_all, room_of

if TYPE_CHECKING:
    from tiny import Tiny

HEAD = tuple(range(20, 36))
PROMPTS = {
    "common prefix": [(*HEAD, 50), (*HEAD, 51, 52, 53, 54, 55, 56), (*HEAD, 57, 58), (*HEAD, 59, 60, 61)],
    "no common prefix": [(50, *HEAD), (51, 52), (53,), (54, *HEAD[:7])],
    "one prompt": [(*HEAD, 50, 51)],
    "the same twice": [(*HEAD, 50), (*HEAD, 50), (*HEAD, 50)],
    "one begins the other": [HEAD, (*HEAD, 50), (*HEAD, 50, 51)],
    "prompts of one token": [(50,), (51,), (52,)],
}
LIMIT = 12


@pytest.fixture(scope="module")
def models(tiny: Tiny) -> dict[str, Any]:
    return {
        kind: AutoModelForCausalLM.from_pretrained(tiny.folder / kind).eval() for kind in ("llama", "gpt2", "qwen2")
    }


def of_transformers(model: Any, prompt: Sequence[int], stop_ids: Sequence[int]) -> tuple[int, ...]:
    """What `generate` writes for one prompt, with the token that ends it."""
    ids = torch.tensor([prompt])
    made = model.generate(
        ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=LIMIT, eos_token_id=list(stop_ids),
        pad_token_id=0,
    )  # fmt: skip
    return tuple(made[0, len(prompt) :].tolist())


def decoded(model: Any, prompts: Sequence[Sequence[int]], **options: Any) -> list[tuple[tuple[int, ...], str]]:
    given = {"stop_ids": (2,), "max_new_tokens": LIMIT, "batch_size": 4} | options
    with torch.no_grad():
        return [(answer.token_ids, answer.stop) for answer in decode_all(model, prompts, **given)]


def common_tokens(model: Any, prompts: Sequence[Sequence[int]]) -> tuple[int, ...]:
    """Tokens that the answers hold, so that stopping at one of them really cuts some short."""
    answers = [of_transformers(model, prompt, (399,)) for prompt in prompts]
    return (answers[0][min(3, len(answers[0]) - 1)],)


@pytest.mark.parametrize("prompts", PROMPTS.values(), ids=PROMPTS)
@pytest.mark.parametrize("kind", ["llama", "gpt2", "qwen2"])
def test_answers_are_those_of_transformers_row_by_row(
    models: dict[str, Any], kind: str, prompts: list[tuple[int, ...]]
) -> None:
    model = models[kind]
    for stop_ids in ((399,), common_tokens(model, prompts)):
        expected = []
        for prompt in prompts:
            answer = of_transformers(model, prompt, stop_ids)
            ended = answer[-1] in stop_ids
            expected.append((answer[:-1] if ended else answer, "end" if ended else "length"))
        for size in (1, 4):
            assert decoded(model, prompts, stop_ids=stop_ids, batch_size=size) == expected


def test_a_stop_really_cuts_answers_in_these_tests(models: dict[str, Any]) -> None:
    prompts = PROMPTS["common prefix"]
    stop_ids = common_tokens(models["llama"], prompts)
    stops = [stop for _, stop in decoded(models["llama"], prompts, stop_ids=stop_ids)]
    assert "end" in stops


def test_a_length_limit_cuts_and_says_so(models: dict[str, Any]) -> None:
    whole = decoded(models["llama"], PROMPTS["common prefix"], stop_ids=())
    for limit in (1, 5):
        cut = decoded(models["llama"], PROMPTS["common prefix"], stop_ids=(), max_new_tokens=limit)
        assert cut == [(ids[:limit], "length") for ids, _ in whole]


def test_an_end_at_the_very_limit_is_an_end(models: dict[str, Any]) -> None:
    (ids, _), *_ = decoded(models["llama"], PROMPTS["one prompt"], stop_ids=())
    place = next(k for k in range(1, LIMIT) if ids[k] not in ids[:k])
    assert decoded(models["llama"], PROMPTS["one prompt"], stop_ids=(ids[place],), max_new_tokens=place + 1) == [
        (ids[:place], "end")
    ]
    assert decoded(models["llama"], PROMPTS["one prompt"], stop_ids=(ids[0],)) == [((), "end")]


def test_nothing_to_decode_is_nothing(models: dict[str, Any]) -> None:
    assert decoded(models["llama"], []) == []


def test_the_common_prefix_is_computed_once(models: dict[str, Any]) -> None:
    model, seen = models["llama"], []
    handle = model.register_forward_pre_hook(
        lambda _, __, keywords: seen.append(tuple(keywords["input_ids"].shape)), with_kwargs=True
    )
    decoded(model, PROMPTS["common prefix"], stop_ids=(), max_new_tokens=1, batch_size=2)
    handle.remove()
    assert seen == [(1, 16), (2, 2), (2, 6)]


def test_rows_that_ended_leave_the_batch_at_once(models: dict[str, Any]) -> None:
    model, seen = models["llama"], []
    prompts = PROMPTS["common prefix"]
    stop_ids = common_tokens(model, prompts)
    lengths = [len(ids) for ids, _ in decoded(model, prompts, stop_ids=stop_ids)]
    handle = model.register_forward_pre_hook(
        lambda _, __, keywords: seen.append(keywords["input_ids"].shape[0]), with_kwargs=True
    )
    decoded(model, prompts, stop_ids=stop_ids)
    handle.remove()
    alive = [sum(n > step for n in lengths) for step in range(LIMIT - 1)]
    prefix, tried, read = [1], [2, 2, 2], [4]
    assert seen == [*prefix, *tried, *read, *(n for n in alive if n)]


def test_the_next_prompt_takes_the_slot_of_a_row_that_ended(models: dict[str, Any]) -> None:
    model, seen = models["llama"], []
    prompts = [(*HEAD, 50 + k, 60, *range(61, 61 + k % 5)) for k in range(12)]
    stop_ids = common_tokens(model, prompts)
    alone = [decoded(model, [prompt], stop_ids=stop_ids)[0] for prompt in prompts]
    handle = model.register_forward_pre_hook(
        lambda _, __, keywords: seen.append(tuple(keywords["input_ids"].shape)), with_kwargs=True
    )
    assert decoded(model, prompts, stop_ids=stop_ids, batch_size=4) == alone
    handle.remove()
    steps = [rows for rows, n in seen[4:] if n == 1]
    total = sum(max(len(ids) - (stop == "length"), 0) for ids, stop in alone)
    assert sum(steps) == total  # no step is spent on a row that is done
    assert len({len(ids) for ids, _ in alone}) > 1


@settings(max_examples=200)
@given(
    n_asked=st.integers(1, 400),
    batch_size=st.integers(1, 64),
    n_prefix=st.integers(0, 3000),
    n_rest=st.integers(1, 300),
    limit=st.integers(2, 300),
)
def test_more_rows_at_once_take_no_more_memory_than_one_batch_in_one_pass(
    n_asked: int, batch_size: int, n_prefix: int, n_rest: int, limit: int
) -> None:
    slots, read = room_of(n_asked, batch_size, n_prefix + n_rest, n_rest + limit)
    places = slots * (n_rest + limit) + read * (n_prefix + n_rest)
    assert places <= min(n_asked, batch_size) * (n_rest + limit + n_prefix + n_rest) or read == 1 == batch_size
    assert min(n_asked, batch_size) <= slots <= n_asked
    assert read <= slots


def test_what_a_shared_prompt_saves_lets_more_rows_be_written_at_once(models: dict[str, Any]) -> None:
    seen: list[int] = []
    prompts = [(*HEAD, *HEAD, 50 + k) for k in range(12)]
    handle = models["llama"].register_forward_pre_hook(
        lambda _, __, keywords: seen.append(keywords["input_ids"].shape[0]), with_kwargs=True
    )
    decoded(models["llama"], prompts, stop_ids=(), batch_size=4)
    handle.remove()
    assert max(seen) == 11  # 4 x (33 + 13) places hold 11 slots of 13 and one prompt that is read


def test_slots_that_would_say_something_else_are_not_used(models: dict[str, Any], monkeypatch: Any) -> None:
    from testigo.evaluation import decode

    prompts = PROMPTS["common prefix"]
    expected = decoded(models["llama"], prompts)
    monkeypatch.setattr(decode, "MOST_APART", {torch.float32: -1.0})
    monkeypatch.setattr(decode, "_in_slots", None)
    assert decoded(models["llama"], prompts) == expected


def test_progress_is_told_in_rows(models: dict[str, Any]) -> None:
    done: list[int] = []
    decoded(models["llama"], PROMPTS["common prefix"], batch_size=3, on_batch=done.append)
    assert done == sorted(set(done))
    assert done[-1] == 4


def test_an_answer_ends_where_the_model_has_no_more_places() -> None:
    torch.manual_seed(0)
    configuration = GPT2Config(vocab_size=60, n_embd=16, n_layer=1, n_head=2, n_positions=24)
    model = AutoModelForCausalLM.from_config(configuration).eval()
    prompts = [tuple(range(n)) for n in (20, 24, 22, 1, 30)]
    answers = decoded(model, prompts, stop_ids=(), max_new_tokens=10)
    assert [len(ids) for ids, _ in answers] == [4, 0, 2, 10, 0]
    assert {stop for _, stop in answers} == {"length"}
    assert decoded(model, [tuple(range(30))] * 2) == [((), "length")] * 2


@settings(max_examples=25, deadline=None)
@given(
    prompts=st.lists(st.lists(st.integers(20, 23), min_size=1, max_size=9), min_size=1, max_size=6),
    size=st.integers(1, 6),
)
def test_batches_change_no_answer(models: dict[str, Any], prompts: list[list[int]], size: int) -> None:
    alone = [decoded(models["qwen2"], [prompt])[0] for prompt in prompts]
    assert decoded(models["qwen2"], prompts, batch_size=size) == alone


@pytest.mark.parametrize("kind", ["llama", "gpt2"])
def test_answers_in_mixed_precision_begin_as_those_of_prompts_alone(models: dict[str, Any], kind: str) -> None:
    prompts = PROMPTS["common prefix"]
    with torch.autocast("cpu", dtype=torch.float16):
        alone = [decoded(models[kind], [prompt])[0] for prompt in prompts]
        together = decoded(models[kind], prompts, batch_size=2)
    assert [ids[0] for ids, _ in together] == [ids[0] for ids, _ in alone]
