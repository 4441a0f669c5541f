"""Secrets in the environment, in URLs and in a campaign file are repeated nowhere."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import planted
import pytest
import whole

from testigo.errors import TestigoError, exit_code_of
from testigo.redaction import HIDDEN, secret_in, without_secrets

if TYPE_CHECKING:
    from whole import Finished

REVISION = "0" * 40


def test_no_file_and_no_word_of_a_whole_campaign_holds_a_secret_of_the_environment(finished: Finished) -> None:
    assert planted.found_under(finished.shared / "finished") == []
    assert planted.found_under(finished.shared / "afterwards") == []
    spoken = [answer["err"] + json.dumps(answer["document"]) for answer in finished.answers.values()]
    assert planted.found_in([*finished.words, *spoken]) == []


@pytest.fixture(scope="module")
def unstarted(tmp_path_factory: pytest.TempPathFactory) -> whole.Place:
    return whole.make(tmp_path_factory.mktemp("unstarted") / "c")


@pytest.mark.parametrize(
    ("key", "value", "kind"),
    [
        ("data.source", f"https://user:{planted.PASSWORD}@example.org/rows.jsonl", "a password in a URL"),
        ("model.base", f"hub:https://user:{planted.PASSWORD}@example.org/model@{REVISION}", "a password in a URL"),
        ("data.source", f"hub:owner/name@{planted.ENVIRONMENT['HF_TOKEN']}", "a token of Hugging Face"),
        ("question", f"Does it help? {planted.ENVIRONMENT['GITHUB_TOKEN']}", "a token of GitHub"),
        ("machine", {"launcher": "slurm",
                     "slurm": {"slurm_setup": [f"export KEY={planted.ENVIRONMENT['AWS_ACCESS_KEY_ID']}"]}},
         "an access key of AWS"),
    ],
)  # fmt: skip
def test_a_secret_in_a_campaign_file_is_refused_without_being_repeated(
    unstarted: whole.Place, tmp_path: Path, key: str, value: object, kind: str
) -> None:
    place = unstarted.copy(tmp_path / "c")
    place.change({key: value})
    for options in ((), ("--json",)):
        refused = place.testigo("check", *options)
        assert refused.code == 2
        assert kind in refused.out + refused.err
        assert planted.found_in([refused.out, refused.err]) == []
    assert not place.workspace.exists()


def test_a_secret_in_a_variant_or_a_key_is_found_too_and_the_words_of_a_task_may_speak_of_urls(
    unstarted: whole.Place, tmp_path: Path
) -> None:
    place = unstarted.copy(tmp_path / "c")
    url = f"ftp://user:{planted.PASSWORD}@example.org"
    place.change({"task.system": f"Write links such as {url}."})
    assert place.testigo("check", "--json").code == 0
    place.change({"variants": [{"name": "other", "set": {"model.base": url}, "because": "another base"}]})
    refused = place.testigo("check", "--json")
    assert "a password in a URL" in refused.out
    assert planted.found_in([refused.out]) == []


@pytest.mark.parametrize("url", [
    f"mysql://user:{planted.PASSWORD}@127.0.0.1/db",
    f"postgresql://user:{planted.PASSWORD}@127.0.0.1:no/db",
    f"user:{planted.PASSWORD}@127.0.0.1",
])  # fmt: skip
def test_a_ledger_that_cannot_be_opened_is_told_without_its_password(
    unstarted: whole.Place, tmp_path: Path, url: str
) -> None:
    place = unstarted.copy(tmp_path / "c")
    refused = place.testigo("check", "--json", "--ledger", url)
    assert refused.code == 2
    assert planted.found_in([refused.out, refused.err]) == []
    assert planted.found_under(place.folder) == []


def test_errors_reports_and_tracebacks_hide_what_the_environment_holds(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in planted.ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    words = " and ".join(planted.ENVIRONMENT.values())
    error = TestigoError(expected=words, found=words, where=words, action=words)
    assert planted.found_in([str(error), repr(error.problems)]) == []

    def worker() -> None:
        raise RuntimeError(f"401 for {words}")

    assert exit_code_of(worker) == 1
    log = capsys.readouterr().err
    assert "RuntimeError: 401 for" in log
    assert planted.found_in([log]) == []


def test_what_is_no_secret_is_left_as_it_is() -> None:
    environment = {"API_KEY": "true", "TOKEN_FILE": "/home/me/.token", "PATH": "/usr/bin:/bin", "MONKEY": "bananas12"}
    for text in ("https://host:8080/a@b", "true /home/me/.token /usr/bin", "user@host:22", "bananas12", "risk-free"):
        assert without_secrets(text, environment) == text
        assert secret_in(text) is None
    assert without_secrets("u=https://a:b@c/d", {}) == f"u=https://a:{HIDDEN}@c/d"
