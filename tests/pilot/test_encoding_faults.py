"""What a text or a tensor can do wrong, over families of tokenizers: the data gate's own evidence shows each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any

import families
import pytest
import torch
from families import FAMILIES, tokenizer
from tiny import row_of
from tokenizers import AddedToken

from testigo.corpus import Row
from testigo.encoding import EncodedRow, Encoder, Frame
from testigo.gates.data import DataEvidence
from testigo.pilot.data import Tensors, collect
from testigo.tasks.calls import read_calls
from testigo.tasks.generation import Generation


@dataclass(frozen=True)
class Conversation:
    """A task whose rows are whole conversations, as one of chats or of tools' calls."""

    name = "chat"
    metrics = ()
    labels = ()

    def request(self, fields: dict[str, Any]) -> list[dict[str, Any]]:
        return list(fields["said"][:-1])

    messages = request

    def score(self, fields: dict[str, Any], output: str) -> dict[str, float]:
        calls = [call["function"] for call in fields["said"][-1]["tool_calls"]]
        return {"exact_match": float([vars(call) for call in read_calls(output) or ()] == calls)}

    def answer(self, fields: dict[str, Any]) -> dict[str, Any]:
        return dict(fields["said"][-1])

    def tools(self, fields: dict[str, Any]) -> list[dict[str, Any]]:
        return list(fields.get("tools", ()))

    def target(self, fields: dict[str, Any]) -> str:
        return str(fields["said"][-1].get("content", ""))


def encoder(name: str, *, template: str | None = None, options: Any = None, **settings: Any) -> Encoder:
    frame = Frame(tokenizer(name, template=template), options=options or {})
    task = settings.pop("task", None) or Generation("email", "order")
    return Encoder(frame, task, settings.pop("maximum_length", 512), input_field="email", **settings)


def seen(own: Encoder, rows: Sequence[Row], change: Any = None, **settings: Any) -> DataEvidence:
    encoded, lengths = own.encode_all(rows)
    encoded = tuple(change(row) for row in encoded) if change else encoded
    tensors = Tensors(
        encoder=own,
        rows={"train": encoded, "validation": ()},
        raw={"train": rows, "validation": ()},
        lengths={"train": lengths},
        vocabulary_size=len(own.frame.tokenizer),
        layout=settings.pop("layout", "packed"),
        pad_id=own.frame.tokenizer.pad_token_id,
        **settings,
    )
    return collect(tensors)


def faults(evidence: DataEvidence) -> set[str]:
    """The fields that name rows at fault."""
    quiet = {"longest_run", "too_long", "dropped", "seam_merged", "stop_ids"}
    return {name for name, value in vars(evidence).items() if isinstance(value, tuple) and value and name not in quiet}


def rows_of(*texts: tuple[str, str]) -> list[Row]:
    return [row_of(f"r{k}", email=email, order=order) for k, (email, order) in enumerate(texts)]


PLAIN = rows_of(("How many pens do you want?", "3 pens"), ("Apples, please!\n\n- one\n- two", "apples: 12"))


@pytest.mark.parametrize("layout", ["packed", "padded"])
@pytest.mark.parametrize("name", FAMILIES)
def test_healthy_rows_are_silent_in_every_family(name: str, layout: str) -> None:
    evidence = seen(encoder(name), PLAIN, layout=layout)
    assert faults(evidence) == set()
    assert evidence.reads_clock is False


# --- marks that a text brings in -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FAMILIES)
def test_a_mark_in_a_prompt_is_named_with_its_row_and_token(name: str) -> None:
    mark = tokenizer(name).eos_token
    evidence = seen(encoder(name), [*PLAIN, row_of("sick", email=f"Hello{mark} Ignore that.", order="3")])
    assert evidence.marks_in_input == (("sick", mark),)
    assert faults(evidence) == {"marks_in_input"}


@pytest.mark.parametrize("name", FAMILIES)
def test_a_mark_in_a_target_is_named_with_its_row_and_token(name: str) -> None:
    mark = tokenizer(name).eos_token
    evidence = seen(encoder(name), [*PLAIN, row_of("sick", email="Hello", order=f"3 pens{mark} and more")])
    assert evidence.marks_in_target == (("sick", mark),)
    assert faults(evidence) == {"marks_in_target"}


def test_words_that_only_look_like_marks_are_silent() -> None:
    twins = rows_of(("a <s>struck</s> word, <|imend|>", "</s> in HTML"), ("[INST] in a text", "<tool_call>"))
    for name in ("chatml", "qwen3", "llama3", "gemma"):  # none of these is a special token there
        assert faults(seen(encoder(name), twins)) == set()
    assert seen(encoder("llama2"), twins).marks_in_input == (("r0", "<s>"),)


def test_a_token_that_was_added_for_the_task_is_no_mark() -> None:
    own = encoder("chatml")
    own.frame.tokenizer.add_special_tokens({"additional_special_tokens": ["<|city|>"]})
    assert faults(seen(own, [*PLAIN, row_of("own", email="<|city|> Lisbon", order="<|city|>")])) == set()


def test_a_mark_that_the_tokenizer_makes_of_other_letters_is_found() -> None:
    own = encoder("unigram")
    own.frame.tokenizer.add_special_tokens({"pad_token": AddedToken("[end]", normalized=True, special=True)})
    wide = "\uff3bend\uff3d"  # brackets as wide as Chinese letters, which NFKC makes plain ones
    rows = rows_of((f"Hello {wide} you", "3"), ("Hello end you", "3"))
    assert seen(own, rows).marks_in_input == (("r0", "[end]"),)


# --- text that does not survive ------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["5 m² of cloth", "① pen", "№ 5"])
def test_text_that_a_tokenizer_rewrites_is_named_before_and_after(text: str) -> None:
    evidence = seen(encoder("unigram"), [*PLAIN, row_of("sick", email=text, order="3")])
    ((row, change),) = evidence.changed_text or ()
    assert row == "sick"
    assert "became" in change
    for name in ("chatml", "qwen3", "llama3", "gemma", "llama2"):
        assert seen(encoder(name), rows_of((text, "3"))).changed_text == ()


def test_two_ways_to_write_an_accent_are_one_text() -> None:
    assert seen(encoder("qwen3"), rows_of(("cafe\u0301 an\u0303o", "3"))).changed_text == ()


def test_unknown_letters_are_told_as_such_and_not_twice() -> None:
    evidence = seen(encoder("unigram"), [*PLAIN, row_of("sick", email="Thank you 😀", order="3")])
    assert evidence.unknown_tokens == ("sick",)
    assert faults(evidence) == {"unknown_tokens"}
    assert faults(seen(encoder("gemma"), rows_of(("Thank you 😀", "3")))) == set()


def test_a_message_that_the_template_passes_over_is_named_with_its_words() -> None:
    def row(name: str, role: str) -> Row:
        return Row(name, name, "", {"said": [{"role": role, "content": "Be short."}, *CHAT]}, "")

    deaf = FAMILIES["zephyr"].template.replace(
        "{% for m in messages %}", "{% for m in messages if m.role != 'system' %}"
    )
    own = encoder("zephyr", template=deaf, task=Conversation())
    evidence = seen(own, [row("sick", "system"), Row("twin", "twin", "", {"said": CHAT}, "")])
    assert evidence.lost_words == (("sick", "system: 'Be short.'"),)
    assert faults(evidence) == {"lost_words"}
    assert faults(seen(encoder("zephyr", task=Conversation()), [row("twin", "system")])) == set()


def test_a_token_that_is_the_end_and_the_unknown_at_once_is_no_unknown() -> None:
    own = encoder("no-template")
    own.frame.tokenizer.unk_token = own.frame.tokenizer.eos_token  # as GPT-2 has it
    assert faults(seen(own, PLAIN)) == set()
    mark = own.frame.tokenizer.eos_token
    assert seen(own, rows_of((f"a {mark} b", "3"))).marks_in_input == (("r0", mark),)


# --- tokens that were never trained --------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["all zeros", "the same as the row of id"])
def test_a_token_whose_row_was_never_trained_is_named(how: str) -> None:  # C22
    own = encoder("chatml")
    words = own.frame.tokenizer
    torch.manual_seed(0)
    embedding = torch.randn(len(words) + 4, 8)
    new = words.convert_tokens_to_ids("Ġpens") if how == "all zeros" else words("3")["input_ids"][0]
    rows = [row_of("sick", email="How many pens?", order="3"), row_of("twin", email="Apples, please!", order="12")]
    twin = seen(own, rows, embedding=embedding)
    assert twin.untrained_tokens == ()
    embedding[new] = 0.0 if how == "all zeros" else embedding[len(words) + 1]
    found = seen(own, rows, embedding=embedding).untrained_tokens
    assert [row for row, _ in found or ()] == ["sick"]
    assert how in (found or ())[0][1]
    assert seen(own, rows, embedding=embedding, embedding_is_trained=True).untrained_tokens == ()
    assert seen(own, rows).untrained_tokens is None, "without a model nothing is known"


# --- cuts ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("n_left", "field"), [(1, "end_cut"), (3, "truncated_target"), (99, "target_gone"), (0, "")])
@pytest.mark.parametrize("name", ["chatml", "llama3", "gemma", "llama2", "phi3", "plain-marks", "no-template"])
def test_cuts_before_inside_and_behind_the_target_are_told_apart(name: str, n_left: int, field: str) -> None:  # C08
    own = encoder(name)
    encoded = own.encode(PLAIN[1])
    n = encoded.n_tokens - min(n_left, encoded.n_answer)
    cut = replace(own, maximum_length=n)

    def truncated(row: EncodedRow) -> EncodedRow:
        return replace(row, ids=row.ids[:n], n_prompt=min(row.n_prompt, n))

    rows = [PLAIN[1]]
    tensors = Tensors(
        cut, {"train": [truncated(encoded)], "validation": ()}, {"train": rows, "validation": ()}, {}, 9999, "packed", 0
    )
    assert faults(collect(tensors)) == ({field} if field else set())


def test_an_input_that_was_shortened_is_counted_with_its_row() -> None:
    own = encoder("chatml", maximum_length=48, longer="truncate", reserve=16)
    rows = [*PLAIN, row_of("long", email="pens, " * 40, order="3")]
    evidence = seen(own, rows)
    assert evidence.truncated_input == ("long",)
    assert faults(evidence) == {"truncated_input"}


# --- turns ---------------------------------------------------------------------------------------------------------

CHAT = [
    {"role": "user", "content": "How many pens?"},
    {"role": "assistant", "content": "I want 3 pens."},
    {"role": "user", "content": "Apples?"},
    {"role": "assistant", "content": "12 apples"},
]
TURNS = [name for name, family in FAMILIES.items() if family.turns]


@pytest.mark.parametrize("name", TURNS)
def test_conversations_of_several_turns_are_silent(name: str) -> None:
    own = encoder(name, task=Conversation())
    evidence = seen(own, [Row("chat", "chat", "", {"said": CHAT}, "")])
    assert faults(evidence) == set()
    (row,) = own.encode_all([Row("chat", "chat", "", {"said": CHAT}, "")])[0]
    assert len(row.supervised_spans) == 2


@pytest.mark.parametrize("name", ["chatml", "llama3", "gemma", "llama2"])
def test_a_turn_that_does_not_count_and_a_question_that_does_are_found(name: str) -> None:
    own, rows = encoder(name, task=Conversation()), [Row("chat", "chat", "", {"said": CHAT}, "")]

    def first_left_out(row: EncodedRow) -> EncodedRow:
        return replace(row, spans=row.supervised_spans[1:])

    def all_from_the_first(row: EncodedRow) -> EncodedRow:
        return replace(row, spans=None)

    def ends_left_out(row: EncodedRow) -> EncodedRow:
        return replace(row, spans=tuple((begin, end - 1) for begin, end in row.supervised_spans))

    assert faults(seen(own, rows, first_left_out)) == {"turn_end_unlearned"}
    assert "prompt_in_loss" in faults(seen(own, rows, all_from_the_first))
    assert faults(seen(own, rows, ends_left_out)) == {"turn_end_unlearned"}


def test_an_end_that_is_learned_too_often_is_counted() -> None:
    own = encoder("chatml")

    def twice(row: EncodedRow) -> EncodedRow:
        return replace(row, ids=(*row.ids, row.ids[-1]))

    evidence = seen(own, PLAIN[:1], twice)
    assert evidence.turn_ends_miscounted == (("r0", "2 ends in 1 turns"),)


def test_calls_of_tools_are_silent_and_marks_in_their_arguments_are_found() -> None:
    def row(name: str, city: str) -> Row:
        call = {"type": "function", "function": {"name": "get_weather", "arguments": {"city": city}}}
        said = [{"role": "user", "content": "Weather?"}, {"role": "assistant", "content": "", "tool_calls": [call]}]
        tool = {"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object"}}}
        return Row(name, name, "", {"said": said, "tools": [tool]}, "")

    for name in ("hermes", "mistral"):
        own = encoder(name, task=Conversation(), tools="template")
        assert faults(seen(own, [row("twin", "Lisbon")])) == set()
        mark = own.frame.tokenizer.eos_token
        assert seen(own, [row("sick", f"Lisbon{mark}")]).marks_in_target == (("sick", mark),)


# --- layout --------------------------------------------------------------------------------------------------------


def test_rows_that_see_each_other_in_a_pack_are_named(monkeypatch: pytest.MonkeyPatch) -> None:  # C20
    own = encoder("chatml")
    assert seen(own, PLAIN).segments_mixed == ()

    def leaking(until: torch.Tensor, n_before: int) -> torch.Tensor:
        return torch.ones(len(until), n_before + len(until)).tril(n_before).bool()[None, None]

    monkeypatch.setattr(import_module("testigo.encoding.pack"), "_seen", leaking)
    assert len(seen(own, PLAIN).segments_mixed or ()) == 1, "the first row of a pack has nobody before it"


def test_a_mask_that_was_made_from_the_paddings_id_is_found(monkeypatch: pytest.MonkeyPatch) -> None:  # C14
    from testigo.encoding import Pack

    own = encoder("chatml")
    assert own.frame.tokenizer.pad_token_id == own.frame.turn_end_id
    assert seen(own, PLAIN, layout="padded").attention_wrong == ()
    pad_id = own.frame.turn_end_id

    def by_id(batch: Pack) -> torch.Tensor:
        return (batch.input_ids != pad_id).long() if batch.is_padded else healthy(batch)

    healthy = Pack.attention_mask.fget
    monkeypatch.setattr(Pack, "attention_mask", property(by_id))
    assert seen(own, PLAIN, layout="padded").attention_wrong == ("r0", "r1")


# --- the day -------------------------------------------------------------------------------------------------------


def test_a_template_that_writes_the_day_is_found_and_a_declared_date_is_silent() -> None:
    assert seen(encoder("llama3", template=families.DATED), PLAIN).reads_clock is True
    declared = encoder("llama3", template=families.DATED, options={"date_string": "26 Jul 2024"})
    assert seen(declared, PLAIN).reads_clock is False
