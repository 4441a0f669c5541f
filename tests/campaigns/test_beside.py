"""What stands beside the registered comparison, in a whole campaign: noise floor, examples, forgetting, the balance."""

from __future__ import annotations

import html
import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from testigo.dossier import read_record, sums, verify_dossier
from testigo.dossier.files import sha256_of
from testigo.evaluation.beside import passages
from testigo.ledger import kinds

if TYPE_CHECKING:
    from whole import Place

QUESTIONS = {
    "name": "questions",
    "source": "questions.jsonl",
    "task": {"kind": "generation", "input": "question", "target": "answer"},
    "metric": "token_f1",
    "within": 0.1,
    "max_new_tokens": 8,
}


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """The variants of the example learning-rates, one diverging on purpose; a guard task, general text, examples."""
    import whole

    place = whole.make(tmp_path_factory.mktemp("beside"))
    rows = [json.dumps({"id": f"q{k}", "question": f"What is {k}?", "answer": "ok"}) for k in range(12)]
    (place.folder / "questions.jsonl").write_text("\n".join(rows) + "\n", encoding="utf-8")
    place.change({
        "training.updates": 12,
        "hypothesis.keep": [{"metric": "token_f1", "within": 0.5}, {"metric": "general_loss", "within": 0.05}],
        "guards": [QUESTIONS],
        "evaluation.prompted_baseline": 2,
        "evaluation.twice": 4,
        "training.learning_rate": 1e-4,
        "variants": [{"name": "half-rate", "set": {"training.learning_rate": 5e-5}, "because": "a smaller step"},
                     {"name": "double-rate", "set": {"training.learning_rate": 2e-4}, "because": "a larger step"},
                     {"name": "far-too-high", "set": {"model.adapter.alpha": 1e30},
                      "because": "it diverges on purpose"}],
    })  # fmt: skip
    ran = place.testigo("run", "--yes", "--json")
    assert ran.code == 0, ran.err
    return place


def document_of(place: Place) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((place.workspace / "comparison.json").read_text(encoding="utf-8"))
    return found


def test_the_base_is_answered_twice_in_other_batches(judged: Place) -> None:
    floor = document_of(judged)["noise_floor"]
    assert floor["n"] == 4
    assert floor["different"] == 0  # a CPU in fp32 gives the same text in any batch, unless two tokens tie
    assert 0.5 < floor["high"] < 0.7
    assert set(floor["metrics"]["exact_match"]) == {"changed", "difference"}


def test_the_base_with_examples_stands_beside_the_baseline(judged: Place) -> None:
    document = document_of(judged)
    beside = document["prompted_baseline"]
    assert beside["examples"] == 2
    assert set(beside["values"]) == set(document["baseline"])
    assert document["improvement"]["n"] == beside["metrics"]["exact_match"]["n"]
    (spec,) = judged.workspace.glob("baseline/*/predictions/validation.spec.json")
    own, prompted = (
        json.loads((spec.parent / f"validation{which}.jsonl").read_text(encoding="utf-8").splitlines()[0])
        for which in ("", ".prompted-2")
    )
    assert own["row"] == prompted["row"]
    assert own["prompt_sha256"] != prompted["prompt_sha256"]


def test_general_text_and_a_guard_task_are_guards(judged: Place) -> None:
    forgetting = document_of(judged)["forgetting"]
    general, questions = forgetting["guards"]
    assert (general["metric"], general["better"], general["within"]) == ("general_loss", "lower", 0.05)
    assert general["difference"] == pytest.approx(general["after"] - general["before"])
    assert (questions["task"], questions["metric"], questions["n"]) == ("questions", "token_f1", 12)
    assert {general["verdict"], questions["verdict"]} <= {"kept", "broken", "undecidable"}
    assert "general text" in forgetting["conclusion"]


def test_every_run_is_in_the_balance_the_diverged_one_with_its_cause(judged: Place) -> None:
    balance = document_of(judged)["balance"]
    assert [(one["variant"], one["seed"]) for one in balance] == [
        ("control", 0), ("half-rate", 0), ("double-rate", 0), ("far-too-high", 0)
    ]  # fmt: skip
    control, half, double, lost = balance
    assert half["changes"] == {"training.learning_rate": [1e-4, 5e-5]}
    assert {one["consequences"]["updates"] for one in (control, half, double)} == {12}
    assert (control["counted"], lost["state"]) == ("compared", "diverged")
    assert lost["cause"]
    assert lost["because"] == "it diverges on purpose"
    assert lost["changes"] == {"model.adapter.alpha": [8.0, 1e30]}
    assert lost["counted"] == "no result: it diverged"
    assert control["consequences"]["supervised_tokens"] > control["consequences"]["examples"] > 0


def test_the_dossier_holds_all_four_the_diverged_one_with_its_cause(judged: Place) -> None:
    record = read_record(judged.workspace / "dossier")
    states = {run.variant: run.state for run in record.runs}
    assert states == {
        "control": "completed", "half-rate": "completed", "double-rate": "completed", "far-too-high": "diverged"
    }  # fmt: skip
    lost = next(run for run in record.runs if run.state == "diverged")
    page = (judged.workspace / "dossier" / "index.html").read_text(encoding="utf-8")
    assert lost.cause
    assert all(name in page for name in states)
    assert html.escape(lost.cause.split(":")[0]) in page


def test_the_comparison_on_the_terminal_tells_all_of_it(judged: Place) -> None:
    told = judged.testigo("compare").out
    for words in ("noise floor", "2 examples", "general_loss", "questions", "far-too-high", "diverged"):
        assert words in told, words


def test_the_dossier_holds_the_files_behind_them_and_finds_the_numbers_again(judged: Place) -> None:
    dossier = judged.workspace / "dossier"
    record = read_record(dossier)
    runs = {run.variant: run.id for run in record.runs}
    evaluated = [runs[name] for name in ("control", "half-rate", "double-rate")]
    kept = {(one.of, one.what, one.task): one.rows for one in record.beside_files}
    assert kept == {
        ("baseline", "twice", ""): 4, ("baseline", "prompted", ""): record.n_baseline,
        ("baseline", "guard", "questions"): 12, ("baseline", "general", ""): len(passages()),
        **{(run, "guard", "questions"): 12 for run in evaluated},
        **{(run, "general", ""): len(passages()) for run in evaluated},
    }  # fmt: skip
    assert all(sha256_of(dossier / one.file) == one.sha256 for one in record.beside_files)
    result = verify_dossier(dossier)
    assert result.ok, result.faults
    assert not [line for line in result.not_checked if "outputs are not in the dossier" in line]


@pytest.mark.parametrize(
    ("what", "of", "number"),
    [
        ("twice", "baseline", "noise_floor"),
        ("prompted", "baseline", "prompted_baseline"),
        ("guard", "baseline", "forgetting"),
        ("general", "control", "forgetting"),
    ],
)
def test_other_outputs_beside_the_result_are_named(
    judged: Place, tmp_path: Path, what: str, of: str, number: str
) -> None:
    """Whoever changes a file and makes every digest fit again still has the ledger and the statistics against him."""
    dossier = tmp_path / "dossier"
    shutil.copytree(judged.workspace / "dossier", dossier)
    record = read_record(dossier)
    run = next(run.id for run in record.runs if run.variant == "control")
    one = next(one for one in record.beside_files if (one.what, one.of) == (what, run if of == "control" else of))
    path = dossier / one.file
    text = path.read_text(encoding="utf-8")
    if what == "general":
        losses = json.loads(text)
        losses["general"] = {name: loss + 1 for name, loss in losses["general"].items()}
        path.write_text(json.dumps(losses), encoding="utf-8")
    else:
        lines = [json.loads(line) for line in text.splitlines()]
        lines[0] |= {"output": "another", "scores": {name: 1 - score for name, score in lines[0]["scores"].items()}}
        path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    twin = (dossier / "dossier.json").read_text(encoding="utf-8").replace(one.sha256, sha256_of(path))
    (dossier / "dossier.json").write_text(twin, encoding="utf-8")
    sums.write_sums(dossier)
    faults = verify_dossier(dossier).faults
    assert f"{one.file}: is not the file that the ledger recorded" in faults
    assert any("do not follow from the predictions" in fault and number in fault for fault in faults), faults


def test_a_run_that_is_declared_invalid_is_left_out_and_stays_in_the_balance(judged: Place) -> None:
    import whole

    run = document_of(judged)["balance"][-1]["run"]
    said = whole.testigo("ledger", "invalid", str(judged.file), run, "--because", "it read the rows of May",
                         "--workspace", str(judged.workspace))  # fmt: skip
    assert said.code == 0, said.err
    document = judged.testigo("compare", "--json").document
    left_out = next(one for one in document["balance"] if one["run"] == run)
    assert left_out["state"] == "invalid"
    assert left_out["cause"] == "it read the rows of May"
    assert left_out["counted"] == "left out: declared invalid"
    (event,) = judged.events(kinds.RUN_INVALIDATED)
    assert event.body["state_before"] == "diverged"
    assert Path(judged.workspace / "runs" / run).is_dir()
