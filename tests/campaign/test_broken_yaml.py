"""Text that is no YAML, or not the YAML of a campaign."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from testigo.campaign import load, new_campaign
from testigo.errors import CampaignError


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("", 1, "an empty file"),
        ("# only a comment\n", 1, "an empty file"),
        ("campaign: a\n\tquestion: b\n", 2, "a tab"),
        ("campaign: a\nquestion: 'never closed\ntask: 1\n", 2, "never closed"),
        ("campaign: a\nquestion: 'open\ntask: it's here\n", 2, "closes only in line 3"),
        ("campaign: a\nseeds: [1, 2\ntask: 3\n", 3, "expected"),
        ("- campaign\n- list\n", 1, "a list"),
        ("just words\n", 1, "a single value"),
        ("campaign: a\nquestion: Is it so: yes?\n", 2, "mapping values are not allowed"),
        ("campaign: a\n---\ncampaign: b\n", 2, "a second document"),
        ("campaign: a\n  question: b\n", 2, "mapping values"),
        ("campaign: a\ncampaign: b\n", 2, "first set in line 1"),
        ("campaign: &x [*x]\n", 1, "repeats itself without end"),
        ("campaign: *nowhere\n", 1, "undefined alias"),
        ("campaign: !!python/name:os.system x\n", 1, "the tag"),
        ("campaign: !!binary aGk=\n", 1, "the tag"),
        ("campaign: a\n<<: {question: b}\n", 2, "the merge sign"),
        ("campaign: a\n? [x, y]\n: b\n", 2, "a word as key"),
        ("campaign: {{ name }}\n", 1, "a word as key"),
        ("campaign: a\n\x00\n", 2, "a sign that YAML does not allow"),
        ("%YAML 1.1\n---\ncampaign: a\n", 1, "`%YAML 1.1`"),
        ("campaign: " + "[" * 600 + "\n", 1, "nested without end"),
        ("campaign: 1" + "0" * 5000 + "\n", 1, "a number"),
    ],
)
def test_broken_text_is_named_with_its_line(tmp_path: Path, text: str, line: int, words: str) -> None:
    path = tmp_path / "campaign.yaml"
    path.write_bytes(text.encode())
    with pytest.raises(CampaignError) as caught:
        load(path)
    about = [str(problem) for problem in caught.value.problems if words in str(problem)]
    assert about, str(caught.value)
    assert about[0].startswith(f"{path}:{line}:")


def test_text_that_is_not_utf_8_is_named_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "campaign.yaml"
    path.write_bytes("campaign: a\nquestion: größer?\n".encode("latin-1"))
    with pytest.raises(CampaignError, match=r"campaign\.yaml:2:13\n.*UTF-8"):
        load(path)


def test_a_missing_file_a_folder_and_an_unreadable_name_are_user_errors(tmp_path: Path) -> None:
    with pytest.raises(CampaignError, match="no such file"):
        load(tmp_path / "campaign.yaml")
    new_campaign(tmp_path)
    with pytest.raises(CampaignError, match=r"did you mean .*campaign\.yaml"):
        load(tmp_path)


def test_a_byte_order_mark_and_windows_line_ends_do_no_harm(tmp_path: Path) -> None:
    path = new_campaign(tmp_path)
    plain = load(path).identity()
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().replace(b"\n", b"\r\n"))
    assert load(path).identity() == plain


def test_aliases_that_end_are_taken(tmp_path: Path) -> None:
    path = new_campaign(tmp_path)
    path.write_text(
        path.read_text().replace("seeds: [0]", "seeds: &s [0]\nbudget: {days: [3, 7]}").replace("40 ", "&u 40 ")
    )
    assert load(path).training.updates == 40


def test_a_tower_of_aliases_is_refused_and_not_built(tmp_path: Path) -> None:
    path = tmp_path / "campaign.yaml"
    tower = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
    tower += "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 30))
    path.write_text(tower)
    with pytest.raises(CampaignError, match="without end"):
        load(path)


_PIECES = ["\t", "'", '"', "{", "}", "[", "]", ":", ": ", "- ", "#", "&a ", "*a", "!!x ", "|", ">", "%", "@", "?"]
_PIECES += ["\n", "\r", "  ", "null", "~", "true", ".inf", "-1", "1e400", "0x", "é", "\x07", "\u2028", "---\n", "..."]
_PIECES += [
    "<<: ",
    ",",
    "variants:\n  - ",
    "rules: [",
    "waive: ",
    "999999999999999999999",
    "'':",
    "set: ",
    "\\",
    "\ud7ff",
]


@st.composite
def mutations(draw: st.DrawFn, text: str) -> str:
    for _ in range(draw(st.integers(1, 4))):
        how = draw(st.sampled_from(["insert", "cut", "swap", "line", "value"]))
        place = draw(st.integers(0, len(text)))
        if how == "insert":
            text = text[:place] + draw(st.sampled_from(_PIECES)) + text[place:]
        elif how == "cut":
            text = text[:place] + text[place + draw(st.integers(1, 30)) :]
        elif how == "swap":
            other = draw(st.integers(0, len(text)))
            text = text[:place] + text[other : other + 12] + text[place:]
        else:
            lines = text.split("\n")
            n = draw(st.integers(0, len(lines) - 1))
            key, colon, _ = lines[n].partition(": ")
            value = draw(
                st.sampled_from(["", "3", "-1", "x", "[]", "{}", "[1, [2]]", "{a: {b: c}}", "null", "1.5", "''"])
            )
            lines[n] = f"{key}{colon}{value}" if how == "value" else lines[draw(st.integers(0, len(lines) - 1))]
            text = "\n".join(lines)
    return text


@settings(max_examples=250, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_no_mangled_file_raises_anything_but_a_campaign_error(tmp_path: Path, data: st.DataObject) -> None:
    if not (tmp_path / "campaign.yaml").exists():
        new_campaign(tmp_path)
    start = (tmp_path / "campaign.yaml").read_text().replace("seeds: [0]", _MORE)
    path = tmp_path / "mangled.yaml"
    path.write_bytes(data.draw(mutations(start)).encode("utf-8", "surrogatepass"))
    try:
        campaign = load(path)
    except CampaignError as error:
        problems = error.problems
    else:
        problems = ()
        assert len(campaign.identity()) == 64
    assert all(p.expected and p.found and p.where and p.action for p in problems)


_MORE = """seeds: [0, 1]
rules: [{T104: {spreads: 6}}]
waive: {D104: the rows are few on purpose}
budget: {days: [3, 7], price_per_hour: 2, currency: EUR}
variants:
  - {name: half, set: {training.learning_rate: 5e-4, model.adapter.targets: [q_proj]}, because: slower may be steadier}
  - {name: stop, set: {training.stop: {patience: 2}}, because: it may be done sooner}
"""
