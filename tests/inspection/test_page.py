"""The page: what the tensors hold, nothing of the data as markup, nothing from the network, and not too large."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import tiny as tiny_support

from testigo.conductor import Lines
from testigo.corpus import build, open_sealed
from testigo.inspection.choosing import by_id, each_category
from testigo.inspection.material import Material, gather
from testigo.inspection.page import Sight, html
from testigo.inspection.seeing import see_row
from testigo.inspection.seen import Turn
from testigo.inspection.sights import sight
from testigo.tasks import task_for

if TYPE_CHECKING:
    from tiny import Tiny

HOSTILE = "</pre><script>alert(1)</script>{{ 7 * 7 }}<img src=http://evil.example/x onerror=alert(2)>\u202e'\"&"


@dataclass
class Box:
    """A token's box as a browser reads it."""

    text: str = ""
    id: str = ""
    position: str = ""
    counts: bool = False
    special: bool = False


@dataclass
class Reader(HTMLParser):
    """Boxes by the row that they stand in, and every tag with its attributes."""

    boxes: dict[str, list[Box]] = field(default_factory=dict)
    tags: list[tuple[str, dict[str, str | None]]] = field(default_factory=list)
    _row: str = ""
    _inside: str = ""

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        own = dict(attrs)
        self.tags.append((tag, own))
        if tag == "article":
            self._row = own["aria-label"] or ""
        elif tag == "li" and self._row and "data-n" not in own:
            classes = (own.get("class") or "").split()
            self.boxes.setdefault(self._row, []).append(Box(counts="c" in classes, special="k" in classes))
        self._inside = tag

    def handle_data(self, data: str) -> None:
        if self._row in self.boxes and self._inside in ("b", "i", "u"):
            box = self.boxes[self._row][-1]
            name = {"b": "text", "i": "id", "u": "position"}[self._inside]
            setattr(box, name, getattr(box, name) + data)

    def handle_endtag(self, tag: str) -> None:
        self._inside = ""
        if tag == "article":
            self._row = ""


def read(text: str) -> Reader:
    reader = Reader()
    reader.feed(text)
    return reader


def page_of(material: Material, folder: Path, **options: Any) -> str:
    return html(sight(material, each_category(material), folder=folder, reporter=Lines(), **options))


def test_a_box_a_token_says_what_the_tensors_hold(material: Material, tmp_path: Path) -> None:
    text = page_of(material, tmp_path)
    reader = read(text)
    for chosen in each_category(material):
        seen, boxes = see_row(material, chosen), reader.boxes[chosen.row.id]
        shown = [(box.text, box.id, box.position.removesuffix(" ✓"), box.counts, box.special) for box in boxes]
        kept = [(t.text, str(t.id), str(t.position), t.counts, t.special) for t in seen.tokens]
        assert shown[: len(kept)] == kept
        assert all(box.counts == box.position.endswith("✓") for box in boxes)


def test_every_category_both_splits_and_each_part_are_on_the_page(material: Material, tmp_path: Path) -> None:
    text = page_of(material, tmp_path, raw_seed=5)
    headings = re.findall(r'<h2 id="([a-z]+)">', text)
    assert headings == ["reading", "samples", "longest", "microbatch", "lengths", "raw"]
    for category in ("shop", "office"):
        assert f"{category} · train" in text
    assert text.count("<svg") >= 5  # two pictures of lengths in two widths, and the attention mask
    assert text.count('<pre class="raw"') == 10


def test_the_page_asks_nothing_from_the_network_and_runs_only_its_own_script(
    material: Material, tmp_path: Path
) -> None:
    text = page_of(material, tmp_path)
    script = text[text.index("<script>") + len("<script>") : text.index("</script>")]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    (policy,) = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]+)"', text)
    assert policy.startswith("default-src 'none'")
    assert f"script-src 'sha256-{digest}'" in policy
    assert "unsafe-inline" not in policy.replace("style-src 'unsafe-inline'", "")
    addresses = re.findall(r"https?://[^\s\"'<]+", text)
    assert set(addresses) <= {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}  # names, not addresses
    tags = read(text).tags
    assert sum(tag == "script" for tag, _ in tags) == 1
    assert not [tag for tag, _ in tags if tag in ("link", "iframe", "object", "base", "form", "img")]
    assert not [own for _, own in tags if any(name.startswith("on") or name in ("src", "srcset") for name in own)]


@pytest.fixture
def hostile(tiny: Tiny, tmp_path: Path) -> Material:
    """Rows whose every text tries to be markup."""
    rows = [
        {name: f"{value}{HOSTILE}" if isinstance(value, str) else value for name, value in row.items()}
        for row in tiny_support.rows(20)
    ]
    (tmp_path / "llama").symlink_to(tiny.folder / "llama")
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    (tmp_path / "orders.jsonl").write_text(text, encoding="utf-8")
    own = tiny_support.Tiny(tmp_path)
    campaign = own.campaign({"model.base": "path:llama"})
    task = task_for(campaign)
    corpus = build(campaign, lambda _: tmp_path / "corpus", lambda row: task.problems(row.fields))
    return gather(campaign, corpus, own.base())


def test_rows_never_become_markup(hostile: Material, material: Material, tmp_path: Path) -> None:
    known = {tag for tag, _ in read(page_of(material, tmp_path)).tags}
    text = page_of(hostile, tmp_path)
    reader = read(text)
    assert {tag for tag, _ in reader.tags} <= known | {"mark", "del"}
    assert sum(tag == "script" for tag, _ in reader.tags) == 1
    assert "alert(1)" in text  # it is shown
    assert "<script>alert" not in text
    assert "49" not in re.findall(r"&lt;/script&gt;(.{4})", text)
    assert "\u202e" not in text


def test_sealed_rows_are_not_on_the_page(material: Material, tiny: Tiny, tmp_path: Path) -> None:
    text = page_of(material, tmp_path)
    sealed = open_sealed(tiny.corpus)
    assert sealed
    for row in sealed:
        assert row.fields["email"] not in text
        assert not re.search(rf"\b{row.id}\b", text)


def test_a_page_of_many_rows_stays_small(material: Material, tmp_path: Path) -> None:
    one = each_category(material)[0]
    seen = see_row(material, one)
    long = type(seen)(**{**seen.__dict__, "segments": tuple(_longer(segment, 400) for segment in seen.segments)})
    many = Sight(campaign="many", facts=(), samples=(long,) * 200)
    assert len(html(many).encode()) < 6_000_000
    longer = type(seen)(**{**seen.__dict__, "segments": tuple(_longer(segment, 5_000) for segment in seen.segments)})
    text = html(Sight(campaign="many", facts=(), samples=(longer,) * 200))
    assert len(text.encode()) < 6_000_000
    assert "tokens left out" in text


def _longer(segment: Any, n: int) -> Any:
    more = tuple(segment.tokens[k % len(segment.tokens)] for k in range(n))
    return type(segment)(segment.number, segment.row_id, more, segment.sees, segment.looks)


def test_a_row_that_learns_something_else_is_marked(material: Material) -> None:
    seen = see_row(material, by_id(material, [material.rows("train")[0].id])[0])
    target = seen.turns[0].target
    false = type(seen)(**{**seen.__dict__, "turns": (Turn(f"{target} extra", "", target),)})
    text = html(Sight(campaign="one", facts=(), samples=(false,), are_chosen=True))
    assert "is not the target" in text
    assert "<mark> extra</mark>" in text
    assert "no token that ends the turn is learned" in text


def test_the_same_sight_gives_the_same_page(material: Material, tmp_path: Path) -> None:
    assert page_of(material, tmp_path) == page_of(material, tmp_path)
