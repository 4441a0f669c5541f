"""Which characters of a rendered conversation are the assistant's, proved by rendering its beginnings too.

A turn counts when the template itself shows its bounds: the generation prompt before it is, character for character,
how the conversation begins (so the prompt in training is the prompt in evaluation), and what follows ends with the mark
that the template writes. No words are searched for, and no marks of the template's author are needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from testigo.encoding.template import Message, Template, Tools, excerpt
from testigo.errors import EncodingError

Which = Literal["all", "last"]
_WHERE = "the tokenizer's chat template"
_LAST_ALONE = "declare `encoding.turns: last`, or give each answer a row of its own"


@dataclass(frozen=True)
class Turns:
    """A conversation up to the end of its last answer.

    Attributes
    ----------
    text
        As the template writes it, with the white space of the last answer as the row has it.
    spans
        (begin, end) of each assistant's turn that counts, with its end mark [characters].
    is_closed
        Whether the text ends with a mark; where it does not, the end of text has to be added.
    """

    text: str
    spans: tuple[tuple[int, int], ...]
    is_closed: bool


def find_turns(
    template: Template, messages: Sequence[Message], answer: Message, tools: Tools = (), *, which: Which = "all"
) -> Turns:
    """The assistant's turns of a conversation: those among the messages, and the answer to them.

    Raises
    ------
    EncodingError
        When a turn's bounds cannot be proved; the rendered text is in the error.
    """
    asked = template.prompt(messages, tools)
    said = template.conversation([*messages, answer], tools)
    _offered(tools, asked)
    began = asked
    if not said.startswith(asked) and template.lead is not None:
        # The template writes the question in another way once it is answered (Mistral's leaves the system message out).
        # The prompt stays what evaluation asks with, and the answer what the template writes after its own history.
        began = template.history(messages, tools)
    rest = _rest(began, said, answer)
    text = asked + _with_own_space(rest, answer)
    end, is_closed = _end(template, asked, text)
    return Turns(
        text[:end], (*earlier_turns(template, messages, tools, text, which=which), (len(asked), end)), is_closed
    )


def _offered(tools: Tools, asked: str) -> None:
    """Every tool stands in the prompt, or the template does not know what a tool is."""
    names = [str(tool.get("function", tool).get("name")) for tool in tools]
    missing = [name for name in names if name not in asked]
    if missing:
        raise EncodingError(
            expected="a chat template that writes the tools into the prompt",
            found=f"a prompt without {', '.join(missing[:5])}: {excerpt(asked)}",
            where=_WHERE,
            action="set `encoding.tools: text`, or use a base whose template knows tools",
        )


def earlier_turns(
    template: Template, messages: Sequence[Message], tools: Tools, text: str, *, which: Which
) -> tuple[tuple[int, int], ...]:
    """(begin, end) of the assistant's turns among messages whose rendered text is given [characters].

    Raises
    ------
    EncodingError
        When the text does not begin with a turn as the template wrote it when it was the last.
    """
    spans: list[tuple[int, int]] = []
    places = [place for place, message in enumerate(messages) if message["role"] == "assistant"]
    if places and which == "all" and not template.is_there:
        raise EncodingError(
            expected="a chat template, which tells who says what, where earlier turns of the assistant are learned",
            found="a tokenizer without one",
            where="the tokenizer",
            action="use an instruct model with its template, or declare `encoding.turns: last`",
        )
    for place in places if which == "all" else ():
        said = _said_at(template, messages, place, tools, text)
        asked = template.prompt(messages[:place], tools)
        rest = _rest(asked, said, messages[place], action=_LAST_ALONE)
        end, is_closed = _end(template, asked, asked + rest)
        if not is_closed:
            raise EncodingError(
                expected="a chat template that ends each assistant's turn with a special token, which is learned",
                found=f"none after the assistant's words at message {place + 1}: {excerpt(said)}",
                where=_WHERE,
                action=f"{_LAST_ALONE}; or use a template whose turns end",
            )
        if not text.startswith(said[:end]):
            raise EncodingError(
                expected="a chat template that writes an earlier turn as it wrote it when it was the last",
                found=f"other words for message {place + 1} once the conversation went on (thoughts dropped, or a "
                f"system message moved): {excerpt(said)} became {excerpt(text)}",
                where=_WHERE,
                action=_LAST_ALONE,
            )
        spans.append((len(asked), end))
    return tuple(spans)


def _said_at(template: Template, messages: Sequence[Message], place: int, tools: Tools, text: str) -> str:
    """The conversation up to a turn; some templates ask for a user's message first, and refuse a beginning without."""
    try:
        template.prompt(messages[:place], tools)
        return template.conversation(messages[: place + 1], tools)
    except EncodingError as refused:
        raise EncodingError(
            expected="a chat template that can write what stood before each assistant's turn",
            found=f"{refused.problems[0].found}, at message {place + 1} of {excerpt(text)}",
            where=_WHERE,
            action=_LAST_ALONE,
        ) from refused


def _rest(asked: str, said: str, message: Message, *, action: str = "") -> str:
    """What the template writes after the generation prompt for a message."""
    if not said.startswith(asked):
        raise EncodingError(
            expected="a rendered conversation that begins with the generation prompt, so that training sees what "
            "evaluation asks with",
            found=f"the generation prompt ends with {asked[-60:]!r}, which does not stand before the answer in "
            f"{excerpt(said)}",
            where=_WHERE,
            action=action
            or "use a template whose generation prompt is how its assistant's turns begin, or set what it branches "
            "on with `encoding.template_options`",
        )
    rest = said[len(asked) :]
    squeezed = "".join(rest.split())
    lost = [words for words in _words(message) if "".join(words.split()) not in squeezed]
    if lost:
        raise EncodingError(
            expected="a chat template that writes the assistant's words as they are",
            found=f"{lost[0][:200]!r} is not in what the template writes: {excerpt(rest)}",
            where=_WHERE,
            action="use a template that keeps all that the model has to learn, thoughts and calls with it",
        )
    return rest


def _words(message: Message) -> list[str]:
    """What has to be found again in the rendered turn: its text, its thoughts, the names of the tools that it calls."""
    content = message.get("content")
    parts = content if isinstance(content, list) else [{"text": content}]
    texts = [part.get("text") for part in parts] + [message.get("reasoning_content"), message.get("thinking")]
    calls = [call.get("function", call).get("name") for call in message.get("tool_calls") or ()]
    return [words for words in (*texts, *calls) if isinstance(words, str) and words.strip()]


def _with_own_space(rest: str, answer: Message) -> str:
    """A template may strip an answer; what is learned keeps the white space that the row has."""
    content = answer.get("content")
    if not isinstance(content, str) or content in rest or content.strip() not in rest:
        return rest
    return rest.replace(content.strip(), content, 1)


def _end(template: Template, asked: str, said: str) -> tuple[int, bool]:
    """Where a turn ends [characters], and whether a mark ends it."""
    _, mark, trail = template.around
    rest = said[len(asked) :]
    if rest.endswith(mark + trail):
        return len(said) - len(trail), bool(mark)
    # A call of a tool may end with another mark than an answer.
    found = list(template.marks.finditer(rest)) if template.marks is not None else []
    if found:
        return len(asked) + found[-1].end(), True
    return len(said.rstrip()), False
