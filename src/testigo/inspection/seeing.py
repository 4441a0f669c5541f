"""Rows and packs as a person can read them, taken off the tensors that the loss is computed from."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import pairwise

import torch

from testigo.encoding import ClassEncoder, Frame, ImageEncoder, Labelled, LabelledRow, Pack
from testigo.encoding.template import Message
from testigo.inspection.choosing import Chosen
from testigo.inspection.images import SeenImage, see_image
from testigo.inspection.letters import token_text, visible
from testigo.inspection.material import Material
from testigo.inspection.seen import SeenPack, SeenRow, SeenToken, Segment, Turn


def see_row(material: Material, chosen: Chosen, losses: Sequence[float] = ()) -> SeenRow:
    """A row alone, as the tensors of the campaign's layout hold it."""
    row = chosen.row
    if isinstance(material.encoded(row), LabelledRow):
        return _before_a_head(material, chosen, losses)
    segments = see_pack(material, material.laid_out([material.encoded(row)])).segments
    tokens = [token for segment in segments for token in segment.tokens]
    return SeenRow(
        id=row.id,
        split=chosen.split,
        category=row.category,
        group=row.group,
        segments=segments,
        turns=_turns(material, chosen, tokens),
        state=state_of(material, chosen),
        losses=tuple(losses),
    )


def _before_a_head(material: Material, chosen: Chosen, losses: Sequence[float]) -> SeenRow:
    """A text's tokens, none of which counts, or an image; the class is learned, by its number in the tensors."""
    row, encoder, encoded = chosen.row, material.encoder, material.encoded(chosen.row)
    batch, labels = encoder.lay_out([encoded]), encoder.task.labels
    image: SeenImage | None = None
    segments: tuple[Segment, ...] = ()
    if isinstance(encoder, ImageEncoder):
        image = see_image(encoder, encoded, seed=material.campaign.seeds[0])
    else:
        segments = see_batch(encoder, batch).segments
    number = int(batch.targets[0])
    named = labels[number] if 0 <= number < len(labels) else f"class {number}, which the head does not have"
    return SeenRow(
        id=row.id,
        split=chosen.split,
        category=row.category,
        group=row.group,
        segments=segments,
        turns=(Turn(named, "", encoder.task.target(row.fields), "class"),),
        state=state_of(material, chosen),
        image=image,
        losses=tuple(losses),
    )


def see_batch(encoder: ClassEncoder, batch: Labelled) -> SeenPack:
    """A microbatch before a class head, off its tensors; positions are the model's own count."""
    frame, segments = Frame(encoder.tokenizer), []
    for line, row_id in enumerate(batch.row_ids):
        ids, mask = batch.inputs["input_ids"][line].tolist(), batch.inputs["attention_mask"][line].tolist()
        for first, last in _runs(mask):
            number = line + 1 if mask[first] else -1
            tokens = tuple(
                SeenToken(at, ids[at], _text(frame, ids[at]), False, ids[at] in frame.special_ids, number, at)
                for at in range(first, last + 1)
            )
            sees = tuple(_runs_of_true(mask)) if number > 0 else ()
            segments.append(Segment(number, row_id if number > 0 else "", tokens, sees, "whole"))
    return SeenPack(tuple(segments), batch.row_ids, 0, is_padded=True)


def _turns(material: Material, chosen: Chosen, tokens: Sequence[SeenToken]) -> tuple[Turn, ...]:
    """Each run of tokens that count, beside the words of the assistant that it should be."""
    messages, answer, _tools = material.encoder.conversation(chosen.row.fields)
    said = [message for message in messages if message["role"] == "assistant"]
    runs = [(first, last) for first, last in _runs([token.counts for token in tokens]) if tokens[first].counts]
    expected = [*said, answer][len(said) + 1 - len(runs) :] if len(runs) <= len(said) + 1 else []
    whose = expected if len(expected) == len(runs) else [answer] * len(runs)
    return tuple(
        _turn(material, chosen, [token.id for token in tokens[first : last + 1]], message, is_last=message is answer)
        for (first, last), message in zip(runs, whose, strict=True)
    )


def _turn(material: Material, chosen: Chosen, ids: list[int], message: Message, *, is_last: bool) -> Turn:
    encoder, frame = material.encoder, material.encoder.frame
    n_end = len(frame.turn_end_ids)
    ends = tuple(ids[-n_end:]) == tuple(frame.turn_end_ids)
    calls, content = message.get("tool_calls"), message.get("content")
    if calls or not isinstance(content, str):
        asked = json.dumps(calls or content, ensure_ascii=False, indent=1, default=str)
        return Turn(frame.text_of(ids[:-n_end] if ends else ids), _end_text(frame, ids, ends), asked, "call")
    learned = encoder.output_of(ids, chosen.row.fields) if is_last else frame.answer_of(ids)
    return Turn(learned, _end_text(frame, ids, ends), content)


def _end_text(frame: Frame, ids: Sequence[int], ends: bool) -> str:
    return frame.text_of([frame.turn_end_id]) if ends or ids[-1] == frame.turn_end_id else ""


def state_of(material: Material, chosen: Chosen) -> str:
    """What the length policy does to a row."""
    encoder, encoded = material.encoder, material.encoded(chosen.row)
    room = encoder.maximum_length - (encoder.reserve if encoder.longer == "truncate" else 0)
    if encoded.n_tokens > encoder.maximum_length or encoded.n_before_answer > room:
        return "dropped" if encoder.longer == "drop" else "too long"
    fields = chosen.row.fields
    return "kept" if encoder.fitting(fields) is fields else "input shortened"


def see_pack(material: Material, laid: Pack) -> SeenPack:
    """A microbatch, place by place; nothing is taken from the rows, all from the tensors."""
    counting = _counting(laid)
    segments = []
    for line in range(laid.input_ids.shape[0]):  # 1 for packed rows, B for padded ones
        mask = _mask(laid, line)
        numbers = laid.segment[line].tolist()
        runs = _runs(numbers)
        for first, last in runs:
            number = numbers[first]
            places = range(first, last + 1)
            tokens = tuple(_token(material, laid, line, place, (line, place) in counting) for place in places)
            row_id = laid.row_ids[number - 1] if 0 < number <= len(laid.row_ids) else ""
            sees = tuple(_split_at(first, _runs_of_true(mask[last].tolist())))
            segments.append(
                Segment(number, row_id, tokens, sees, "back" if _is_causal(mask, places, sees) else "other")
            )
    return SeenPack(tuple(segments), laid.row_ids, laid.n_prefix, laid.is_padded)


def _token(material: Material, laid: Pack, line: int, place: int, counts: bool) -> SeenToken:
    token = int(laid.input_ids[line, place])
    return SeenToken(
        place=place,
        id=token,
        text=_text(material.encoder.frame, token),
        counts=counts,
        special=token in material.encoder.frame.special_ids,
        segment=int(laid.segment[line, place]),
        position=int(laid.position_ids[line, place]),
    )


def _text(frame: Frame, token: int) -> str:
    return token_text(frame, token) or visible(str(frame.tokenizer.convert_ids_to_tokens(token)))


def _counting(laid: Pack) -> frozenset[tuple[int, int]]:
    """(line, place) of each target: the place after the one that predicts it."""
    length = laid.input_ids.shape[1]
    return frozenset(divmod(place + 1, length) for place in laid.places.tolist())


def _mask(laid: Pack, line: int) -> torch.Tensor:
    """(T, T) bool: what each place of a line may see. To a padded batch the model adds that nobody sees the future."""
    if not laid.is_padded:
        return laid.attention_mask[0, 0]
    length = laid.input_ids.shape[1]
    earlier = torch.ones(length, length, dtype=torch.bool).tril()
    return earlier & laid.attention_mask[line].bool()[None, :]


def _is_causal(mask: torch.Tensor, places: range, sees: tuple[tuple[int, int], ...]) -> bool:
    """Whether each place sees of `sees` exactly what is not later than itself."""
    last = torch.zeros(mask.shape[1], dtype=torch.bool)
    for first, end in sees:
        last[first : end + 1] = True
    own = torch.arange(mask.shape[1])[None, :] <= torch.tensor(list(places))[:, None]  # (P, T)
    return bool((mask[list(places)] == (last[None, :] & own)).all())


def _runs(values: Sequence[int]) -> list[tuple[int, int]]:
    """First and last place of each run of equal values."""
    edges = [0, *(place for place in range(1, len(values)) if values[place] != values[place - 1]), len(values)]
    return [(a, b - 1) for a, b in pairwise(edges) if b > a]


def _split_at(place: int, runs: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """The same ranges, cut where a segment begins: what is its own is told apart from what lies before it."""
    for first, last in runs:
        if first < place <= last:
            yield first, place - 1
            first = place
        yield first, last


def _runs_of_true(values: Sequence[bool]) -> list[tuple[int, int]]:
    return [(first, last) for first, last in _runs([int(value) for value in values]) if values[first]]
