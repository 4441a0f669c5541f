"""One box a token, as HTML: written by hand for its size, each text escaped, nothing of the data ever markup."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from markupsafe import Markup, escape

from testigo.counting import counted
from testigo.inspection import wording
from testigo.inspection.letters import LINE_END, shown_lines
from testigo.inspection.seen import SeenToken, Segment


def boxes(
    segments: Sequence[Segment],
    *,
    name: str,
    at_most: int,
    losses: Sequence[float] = (),
    with_heads: bool = False,
    is_padded: bool = False,
    same: tuple[int, str] = (0, ""),
) -> Markup:
    """The tokens of a row or a microbatch, a list a segment; of many tokens the middle is left out and counted.

    Parameters
    ----------
    name
        What the tokens are of, for those who hear the page.
    losses
        One for each token that counts [nats]; none when they were not measured.
    with_heads
        Whether each segment gets a line that says what it is.
    is_padded
        Whether rows lie one below the other, each with places of its own.
    same
        How many leading tokens are those of another row on the page, and its name: they are folded away.
    """
    left = iter(losses)
    lists = []
    share = max(at_most // max(len(segments), 1), 40)
    for segment in segments:
        by_place = {token.place: next(left, None) for token in segment.tokens if token.counts}
        head = Markup('<p class="segment">{}</p>').format(_head(segment)) if with_heads else Markup("")
        lists.append(head + _lists(segment, by_place, share, same))
    opening = Markup('<div class="tokens" role="group" tabindex="0" data-padded="{}" aria-label="{}">')
    label = opening.format(int(is_padded), f"Tokens of {name}: text, id, position, ✓ where it counts")
    return label + Markup("").join(lists) + Markup("</div>")


def _head(segment: Segment) -> str:
    if segment.number == -1:
        return f"padding, segment −1: {counted(len(segment.tokens), 'place')}"
    first, last = segment.tokens[0], segment.tokens[-1]
    of = "shared prefix" if segment.number == 0 else f"row {shown_lines(segment.row_id)}"
    return (
        f"segment {segment.number}, {of}: places {first.place}–{last.place}, positions {first.position}–"
        f"{last.position}; sees {wording.attention(segment)}"
    )


def _lists(segment: Segment, losses: dict[int, float | None], at_most: int, same: tuple[int, str]) -> Markup:
    n, other = same
    if not n:
        return _list(segment, segment.tokens, losses, at_most)
    folded = Markup("<details><summary>{}</summary>").format(f"the first {n} tokens, the same as in {other}")
    folded += _list(segment, segment.tokens[:n], losses, at_most) + Markup("</details>")
    return folded + _list(segment, segment.tokens[n:], losses, at_most)


def _list(segment: Segment, tokens: Sequence[SeenToken], losses: dict[int, float | None], at_most: int) -> Markup:
    sees = " ".join(f"{a}-{b}" for a, b in segment.sees)
    opening = Markup('<ol data-s="{}" data-sees="{}" data-causal="{}">').format(
        segment.number, sees, int(segment.looks == "back")
    )
    return opening + Markup("\n").join(_items(tokens, losses, at_most)) + Markup("</ol>")


def _items(tokens: Sequence[SeenToken], losses: dict[int, float | None], at_most: int) -> Iterator[Markup]:
    head, tail = (len(tokens), 0) if len(tokens) <= at_most else (at_most // 4, at_most - at_most // 4)
    for token in tokens[:head]:
        yield _box(token, losses.get(token.place))
    if tail:
        gap = tokens[head : len(tokens) - tail]
        counting = sum(token.counts for token in gap)
        what = f"… {counted(len(gap), 'token')} left out, {counting} of them count …"
        yield Markup('<li class="gap" data-n="{}">{}').format(len(gap), what)
        for token in tokens[len(tokens) - tail :]:
            yield _box(token, losses.get(token.place))


def _box(token: SeenToken, loss: float | None) -> Markup:
    """`<li class=cn><p><b>text</b><i>id</i><u>position ✓</u>`: the closing tags that HTML lets one leave out are."""
    kinds = ("c" if token.counts else "") + ("k" if token.special else "")
    classes = " ".join([*kinds, *(["n"] if token.text.endswith(LINE_END) else [])])
    opening = f'<li class="{classes}">' if classes else "<li>"
    told = "" if loss is None else f"<s>{loss:.2f}</s>"
    mark = " ✓" if token.counts else ""
    return (
        Markup(f"{opening}<p><b>")
        + escape(token.text)
        + Markup(f"</b><i>{token.id}</i> <u>{token.position}{mark}</u>{told}")
    )


def attention_picture(segments: Sequence[Segment], *, alternative: str) -> Markup:
    """The attention mask of a microbatch as SVG: a line a place, what it may see filled, from the mask's own ranges."""
    length = max((token.place for segment in segments for token in segment.tokens), default=0) + 1
    shapes = []
    for segment in segments:
        if segment.number == -1 or segment.looks != "back":
            continue
        top, bottom = segment.tokens[0].place, segment.tokens[-1].place + 1
        for first, last in segment.sees:
            if last < top:
                shapes.append(
                    f'<rect class="a" x="{first}" y="{top}" width="{last + 1 - first}" height="{bottom - top}"/>'
                )
            else:
                shapes.append(f'<path class="o" d="M{first} {max(first, top)}L{last + 1} {bottom}L{first} {bottom}Z"/>')
    head = Markup('<svg class="mask" role="img" viewBox="-1 -1 {} {}" preserveAspectRatio="xMinYMin" aria-label="{}">')
    return head.format(length + 2, length + 2, alternative) + Markup(
        f'<rect class="f" x="0" y="0" width="{length}" height="{length}"/>' + "".join(shapes) + "</svg>"
    )
