"""Tool calling by the chat template's own means: what is asked, learned and scored."""

from __future__ import annotations

from typing import Any

import families
import pytest
from families import tokenizer

from testigo.corpus import Row
from testigo.encoding import Encoder, Frame
from testigo.errors import EncodingError
from testigo.tasks.tool_calling import ToolCalling

# Definitions in the form of the Berkeley Function Calling Leaderboard: `parameters` of type `dict`, allowed values.
TOOLS = [
    {
        "name": "get_weather",
        "description": "The weather of a city.",
        "parameters": {
            "type": "dict",
            "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
            "required": ["city"],
        },
    }
]
ROW = Row(
    "r",
    "r",
    "",
    {
        "question": "How is the weather in Lisbon today?",
        "calls": [{"get_weather": {"city": ["Lisbon", "Lisboa"], "days": [1, ""]}}],
        "tools": TOOLS,
    },
    "",
)
# Calls as an object with `parameters` and no tags, as Llama's templates write them.
BARE = (
    "{{ bos_token }}{% for m in messages %}{{ '<|start|>' + m.role + '<|stop|>\n\n' }}"
    "{% if m.role == 'user' and tools %}{% for tool in tools %}{{ tool | tojson + '\n' }}{% endfor %}{% endif %}"
    "{% if m.tool_calls %}{% set call = m.tool_calls[0].function %}"
    "{{ '{\"name\": \"' + call.name + '\", \"parameters\": ' }}{{ call.arguments | tojson }}{{ '}' }}"
    "{% else %}{{ m.content }}{% endif %}{{ '<|eot|>' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|start|>assistant<|stop|>\n\n' }}{% endif %}"
)


def encoder(name: str, *, template: str | None = None, system: str | None = None, **settings: Any) -> Encoder:
    task = ToolCalling("question", "calls", "tools", system)
    words = Frame(tokenizer(name, template=template))
    return Encoder(words, task, 2048, input_field="question", **{"tools": "template", **settings})


@pytest.mark.parametrize(
    ("name", "template", "written"),
    [
        (
            "hermes",
            None,
            '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Lisbon"}}\n</tool_call><|im_end|>',
        ),
        ("mistral", None, '[TOOL_CALLS]  [{"name": "get_weather", "arguments": {"city": "Lisbon"}}]</s>'),
        ("llama3", BARE, '{"name": "get_weather", "parameters": {"city": "Lisbon"}}<|eot|>'),
    ],
)
@pytest.mark.parametrize("system", [None, "Be short."])
def test_what_is_learned_is_the_templates_call_and_scores_as_right(
    name: str, template: str | None, written: str, system: str | None
) -> None:
    own = encoder(name, template=template, system=system)
    row = own.encode(ROW)
    learned = row.ids[row.n_prompt :]
    prompt = own.frame.text_of(row.ids[: row.n_prompt])
    assert own.frame.text_of(learned) == written
    assert own.prompt_ids(ROW.fields) == row.ids[: row.n_prompt]
    assert "The weather of a city." in prompt
    assert ("Be short." in prompt) == (system is not None)
    assert "JSON list of the calls" not in prompt
    output = own.output_of(learned[:-1], ROW.fields)
    assert set(own.task.score(ROW.fields, output).values()) == {1.0}


def test_as_text_any_template_will_do() -> None:
    own = encoder("zephyr", tools="text")
    row = own.encode(ROW)
    assert own.output_of(row.ids[row.n_prompt : -1], ROW.fields) == own.task.target(ROW.fields)
    assert "The weather of a city." in own.frame.text_of(row.ids[: row.n_prompt])


def test_a_template_without_tools_is_refused_by_name() -> None:
    with pytest.raises(EncodingError) as refused:
        encoder("chatml").encode_all([ROW])
    (problem,) = refused.value.problems
    assert "1 rows (r): a prompt without get_weather" in problem.found
    assert "encoding.tools: text" in problem.action


def test_the_two_ways_never_share_a_fingerprint() -> None:
    words = tokenizer("hermes", template=families.HERMES)
    task = ToolCalling("question", "calls", "tools")
    both = {Encoder(Frame(words), task, 2048, tools=way).fingerprint() for way in ("text", "template")}
    assert len(both) == 2
