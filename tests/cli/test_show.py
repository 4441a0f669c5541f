"""`testigo show` as a user runs it, and the question that `testigo run` asks."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import whole
from whole import Place


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    return whole.make(tmp_path_factory.mktemp("show"))


def test_without_options_every_category_is_shown_with_marks_that_need_no_colour(place: Place) -> None:
    answer = place.testigo("show")
    assert answer.code == 0
    assert "· shop" in answer.out
    assert "· office" in answer.out
    assert answer.out.count("▶") == answer.out.count("◀") == 2 + 1  # the rows, and the line that explains the marks
    assert "\x1b[" not in answer.out
    assert all(len(line) <= 80 for line in answer.out.splitlines())
    assert "What is learned, decoded, is the target letter for letter." in answer.out
    assert "testigo show" in answer.err
    assert "--longest" in answer.err


def test_colours_stay_when_they_are_asked_for(place: Place) -> None:
    assert "\x1b[" in place.testigo("show", "--color").out


def test_a_row_as_json_has_each_token(place: Place) -> None:
    (row,) = place.testigo("show", "--longest", "-n", "1", "--json").document["rows"]
    assert row["n_tokens"] == len(row["tokens"])
    assert row["n_supervised"] == sum(token["counts"] for token in row["tokens"])
    assert set(row["tokens"][0]) == {"place", "id", "text", "counts", "special", "segment", "position"}
    assert row["attention"] == [{"segment": 1, "sees": [[0, row["n_tokens"] - 1]], "looks": "back"}]
    again = place.testigo("show", "--row", row["id"], "--json").document["rows"]
    assert again == [row]
    every = place.testigo("show", "--row", row["id"], "--tokens").out
    assert all(re.search(rf"^.*\b{token['position']} +{token['id']} ", every, re.M) for token in row["tokens"])


def test_raw_rows_are_drawn_by_a_seed(place: Place) -> None:
    drawn = [place.testigo("show", "--raw", "10", "--seed", seed, "--json").document["rows"] for seed in "001"]
    assert drawn[0] == drawn[1] != drawn[2]
    assert len(drawn[0]) == 10
    assert all(set(row["fields"]) >= {"email", "order"} for row in drawn[0])
    out = place.testigo("show", "--raw", "2").out
    assert '"email"' in out


def test_lengths_and_what_a_maximum_would_cut(place: Place) -> None:
    out = place.testigo("show", "--lengths").out
    assert "maximum length" in out
    assert "Every row is kept whole." in out
    document = place.testigo("show", "--lengths", "--json").document
    assert document["cuts"][-1]["rows"] == {"train": 0, "validation": 0}


def test_the_first_microbatch_is_shown_by_segment(place: Place) -> None:
    out = place.testigo("show", "--microbatch").out
    assert "segment 0 · shared prefix" in out
    document = place.testigo("show", "--microbatch", "--json").document
    assert [segment["segment"] for segment in document["segments"]] == [0, 1, 2]
    assert [segment["row"] for segment in document["segments"]][1:] == document["rows"]


def test_a_page_is_written_and_its_folder_must_exist(place: Place, tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    document = place.testigo("show", "--html", str(file), "--json").document
    assert document["page"] == str(file)
    assert document["bytes"] == file.stat().st_size
    refused = place.testigo("show", "--html", str(tmp_path / "no" / "page.html"), "--json")
    assert refused.code == 2
    assert refused.problem["found"] == "no such folder"


@pytest.mark.parametrize(
    ("options", "where"),
    [
        (("--split", "test"), "--split"),
        (("--row", "nobody"), "--row"),
        (("--category", "moon"), "--category"),
        (("--confirm", " "), "--confirm"),
        (("--confirm", "Ada", "--longest"), "--confirm"),
    ],
)
def test_what_cannot_be_shown_is_refused_in_four_parts(place: Place, options: tuple[str, ...], where: str) -> None:
    refused = place.testigo("show", *options, "--json")
    assert refused.code == 2
    assert where in refused.err + str(refused.out)


def test_who_looks_at_the_samples_can_confirm_them(place: Place) -> None:
    answer = place.testigo("show", "--confirm", "Ada Lovelace")
    assert answer.code == 0
    assert "testigo run" in answer.err
    body = place.events("samples-confirmed")[-1].body
    assert (body["by"], body["how"], body["looked"]) == ("Ada Lovelace", "show", True)


def test_the_checklist_counts_who_looked_at_the_encoding_of_today_alone(place: Place, tmp_path: Path) -> None:
    own = place.copy(tmp_path / "own")
    assert own.testigo("show", "--confirm", "Ada Lovelace").code == 0
    assert tokens_of(own)["done"] is True

    own.change({"evaluation.max_new_tokens": 23})  # room that is kept for the answer: another encoding
    now = tokens_of(own)
    assert now["done"] is False
    assert "another encoding" in now["there"]
    assert now["command"].endswith("--confirm NAME")


def tokens_of(place: Place) -> dict[str, Any]:
    items = place.testigo("checklist", "--json").document["items"]
    return next(item for item in items if item["name"] == "tokens")


def test_rows_can_be_looked_at_while_a_run_goes_on(place: Place) -> None:
    with (place.workspace / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert place.testigo("show").code == 0
        assert place.testigo("check", "--json").code == 2


def test_run_asks_a_person_once_and_takes_no_for_an_answer(place: Place, tmp_path: Path) -> None:
    own = place.copy(tmp_path / "own")
    for name in ("ledger.sqlite", "ledger.head", "ledger.anchor"):
        (own.workspace / name).unlink(missing_ok=True)
    for rest in own.workspace.glob("ledger*"):
        rest.unlink()
    no = _Terminal(own)
    no.answer("[y/N]", "n")
    assert no.end() == 2
    assert own.events("samples-confirmed") == ()

    yes = _Terminal(own)
    said = yes.answer("[y/N]", "y") + yes.answer("for the ledger", "Ada") + yes.read_until("campaign tiny")
    yes.interrupt()
    assert "▶" in said
    assert "samples.html" in said
    (event,) = own.events("samples-confirmed")
    assert (event.body["by"], event.body["how"]) == ("Ada", "run")
    assert len(event.body["rows"]) == 2
    assert list((own.workspace / "inspection").glob("*/samples.html"))


class _Terminal:
    """`testigo run` on a terminal of its own."""

    def __init__(self, place: Place) -> None:
        self._own, other = pty.openpty()
        named = ("run", str(place.file), "--workspace", str(place.workspace))
        self._process = subprocess.Popen(
            [sys.executable, "-m", "testigo", *named], stdin=other, stdout=other, stderr=other,
            env={**os.environ, "OMP_NUM_THREADS": "1", "TERM": "xterm", "COLUMNS": "80"}, start_new_session=True,
        )  # fmt: skip
        os.close(other)

    def read_until(self, words: str) -> str:
        said, until = "", time.monotonic() + 120
        while words not in said and time.monotonic() < until:
            if select.select([self._own], [], [], 1)[0]:
                try:
                    said += os.read(self._own, 65536).decode("utf-8", "replace")
                except OSError:  # the other side is closed
                    break
        assert words in said, said
        return said

    def answer(self, question: str, words: str) -> str:
        said = self.read_until(question)
        os.write(self._own, f"{words}\n".encode())
        return said

    def interrupt(self) -> None:
        self._process.send_signal(signal.SIGINT)
        self.end()

    def end(self) -> int:
        while self._process.poll() is None:  # what it still writes must be read, or it waits
            if select.select([self._own], [], [], 0.2)[0]:
                try:
                    os.read(self._own, 65536)
                except OSError:
                    break
        os.close(self._own)
        return self._process.wait(60)
