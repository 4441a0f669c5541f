"""The sealed test rows are read by `open-test`, and by nothing else; each opening has its price."""

from __future__ import annotations

import json
import shutil
import stat
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from sealing import garble, notes_reading, sealed, was_read

from testigo.ledger import kinds

if TYPE_CHECKING:
    from whole import Finished, Place

OPENED = ("open-test", "--json", "--yes", "--because", "final")


LOOKING = (
    "check",
    "show",
    "show --split train",
    "show --raw 3",
    "show --lengths",
    "show --microbatch",
    "show --generations",
    "show --strangest --at-most 4",
    "checklist",
    "size",
    "baseline",
    "pilot",
    "run",
    "status",
    "compare",
    "plan",
    "note list",
    "dossier",
    "ledger verify",
)


def test_baseline_pilot_training_and_evaluation_do_not_read_the_sealed_rows(finished: Finished) -> None:
    """The rows were garbage meanwhile, to the commands and to every worker that they started."""
    assert {command: answer["read"] for command, answer in finished.answers.items()} == {
        "baseline": False,
        "pilot": False,
        "run": False,
    }


def test_no_command_but_open_test_reads_the_sealed_rows(place: Place, tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq
    import whole
    from starlette.testclient import TestClient

    from testigo.page import application

    seal = sealed(place.workspace)
    garble(seal)
    for command in LOOKING:
        answer = place.testigo(command, "--json")
        assert answer.code == 0, (command, answer)
        assert not was_read(seal), command
    for command, *options in (
        ("show", "--html", str(tmp_path / "rows.html")),
        ("export", "--out", str(tmp_path / "adapter")),
    ):
        assert place.testigo(command, "--json", *options).code == 0, command
    dossier = str(place.workspace / "dossier")
    assert whole.testigo("verify", dossier, "--no-control", "--json").code == 0
    assert whole.testigo("diagnose", str(place.only_run), "--json").code in (0, 1)
    with TestClient(application(place.workspace), base_url="http://localhost") as client:
        for address in ("/", "/ledger", "/rows", "/gates"):
            assert client.get(address).status_code == 200
    assert not was_read(seal)
    refused = place.testigo(*OPENED)
    assert (refused.code, refused.problem["found"]) == (2, "the file was changed")
    assert was_read(seal) == notes_reading(tmp_path), "the watch sees what it watches for"
    with pytest.raises(pa.ArrowInvalid):
        pq.read_table(seal)


def test_an_earlier_corpus_is_compared_without_its_sealed_rows(place: Place) -> None:
    seal = sealed(place.workspace)
    garble(seal)
    place.change({"data.split.seed": 2})
    compared = place.testigo("check", "--json", "--diff", seal.parents[1].name)
    assert compared.code == 0, compared
    assert compared.document["diff"]
    assert not was_read(seal)


def test_test_rows_that_were_changed_are_found_before_the_opening_is_recorded(place: Place) -> None:
    path = sealed(place.workspace)
    path.chmod(0o600)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    refused = place.testigo(*OPENED)
    assert refused.code == 2
    assert refused.problem["found"] == "the file was changed"
    assert "delete the folder" in refused.problem["action"]
    assert place.events(kinds.TEST_OPENED) == ()
    shutil.rmtree(path.parents[1])
    assert place.testigo("check", "--json").code == 0
    assert path.exists(), "the same rows are built again"


def test_a_seal_that_stands_open_is_closed_and_that_is_said(place: Place) -> None:
    path = sealed(place.workspace)
    path.chmod(0o644)
    said = place.testigo("check", "--json")
    assert stat.S_IMODE(path.stat().st_mode) == 0o400
    assert "the seal stood open (mode 644) and was closed" in " ".join(said.err.split())


def test_each_further_opening_has_its_price_in_the_terminal_and_in_the_report(place: Place) -> None:
    first = place.testigo(*OPENED).document
    assert (first["openings"], first["price"]["openings"]) == (1, 1)
    assert first["price"]["corrected_p_value"] == first["price"]["p_value"]
    second = place.testigo(*OPENED).document["price"]
    assert second["openings"] == 2
    assert second["corrected_p_value"] == pytest.approx(min(1.0, 2 * second["p_value"]))
    assert second["chance"] == pytest.approx(0.1)
    assert place.testigo("compare", "--json").document["test_openings"] == second
    told = " ".join((place.testigo("compare").out + place.testigo("compare").err).split())
    assert "the sealed test was opened 2 times: corrected for 2 openings (Holm)" in told
    page = " ".join((place.workspace / "dossier" / "index.html").read_text(encoding="utf-8").split())
    assert "The sealed test was opened 2 times" in page
    assert "Corrected for 2 openings of the test (Holm)" in page
    kept = json.loads((place.workspace / "comparison-test.json").read_text())
    assert kept["openings"] == second
    import whole

    assert whole.testigo("verify", str(place.workspace / "dossier"), "--no-control", "--json").code == 0
