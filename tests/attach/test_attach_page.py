"""The page's example runs as it stands, and names only rules that there are."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from testigo.gates import all_rules

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "attach.md").read_text(encoding="utf-8")


@pytest.mark.filterwarnings("ignore:.*pin_memory")
def test_the_complete_example_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    example = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)[-1]

    exec(compile(example, "docs/attach.md", "exec"), {"__name__": "example"})

    said = capsys.readouterr().out
    assert "E107 turn-end-not-learned (stop)" in said
    assert said.rstrip().endswith("[]")


def test_codes_on_the_page_are_rules() -> None:
    named = set(re.findall(r"\b[A-Z]\d{3}\b", PAGE))

    assert named <= {rule.code for rule in all_rules()}
