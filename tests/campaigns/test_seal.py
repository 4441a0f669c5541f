"""The sealed test rows are read by `open-test`, and by nothing else; each opening has its price."""

from __future__ import annotations

import json
import shutil
import stat
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from testigo.ledger import kinds

if TYPE_CHECKING:
    from whole import Finished, Place

OPENED = ("open-test", "--json", "--yes", "--because", "final")


@pytest.fixture
def seal_log(finished: Finished) -> Path:
    """What opened a sealed file so far, from the first command of the finished campaign on."""
    return finished.place.folder.parent / "seal.log"


def sealed(place: Place) -> Path:
    (path,) = place.workspace.glob("corpus/*/sealed/test.parquet")
    return path


def test_no_command_but_open_test_reads_the_sealed_rows(place: Place, tmp_path: Path, seal_log: Path) -> None:
    import whole
    from starlette.testclient import TestClient

    from testigo.page import application

    def unopened() -> list[str]:
        """Openings of the campaign that is finished, whose whole run was watched, and of those below."""
        return [line for line in seal_log.read_text().splitlines() if "open_test" not in line and "worker" not in line]

    for command in (
        "check",
        "show",
        "checklist",
        "size",
        "baseline",
        "pilot",
        "run",
        "status",
        "compare",
        "plan",
        "note list",
    ):
        place.testigo(command, "--json")
    place.testigo("show", "--json", "--split", "train")
    place.testigo("show", "--json", "--html", str(tmp_path / "rows.html"))
    place.testigo("export", "--json", "--out", str(tmp_path / "adapter"))
    place.testigo("dossier", "--json")
    place.testigo("ledger verify", "--json")
    whole.testigo("verify", str(place.workspace / "dossier"), "--no-control", "--json")
    with TestClient(application(place.workspace), base_url="http://localhost") as client:
        for address in ("/", "/ledger", "/rows", "/gates"):
            assert client.get(address).status_code == 200
    assert unopened() == []
    before = len(seal_log.read_text().splitlines())
    assert place.testigo(*OPENED).code == 0
    openings = seal_log.read_text().splitlines()[before:]
    assert openings, "the watch sees what it watches for"
    assert all("check_seal" in line or "open_sealed" in line for line in openings)


def test_the_watch_would_see_another_reader(place: Place, seal_log: Path) -> None:
    from testigo.corpus.row import file_digest

    before = len(seal_log.read_text().splitlines())
    file_digest(sealed(place))
    assert seal_log.read_text().splitlines()[before:] == ["row.py:file_digest"]
    log = seal_log.read_text().splitlines(keepends=True)
    seal_log.write_text("".join(log[:before]))


def test_test_rows_that_were_changed_are_found_before_the_opening_is_recorded(place: Place) -> None:
    path = sealed(place)
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
    path = sealed(place)
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
