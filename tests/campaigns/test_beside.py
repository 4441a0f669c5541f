"""What stands beside the registered comparison, in a whole campaign: noise floor, examples, forgetting, the balance."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

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
    """A campaign with a variant that diverges, a guard task, general text, and examples in the prompt."""
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
        "variants": [{"name": "far-too-high", "set": {"model.adapter.alpha": 1e30},
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
    assert [(one["variant"], one["seed"]) for one in balance] == [("control", 0), ("far-too-high", 0)]
    control, lost = balance
    assert (control["counted"], lost["state"]) == ("compared", "diverged")
    assert lost["cause"]
    assert lost["because"] == "it diverges on purpose"
    assert lost["changes"] == {"model.adapter.alpha": [8.0, 1e30]}
    assert lost["counted"] == "no result: it diverged"
    assert control["consequences"]["updates"] == 12
    assert control["consequences"]["supervised_tokens"] > control["consequences"]["examples"] > 0


def test_the_comparison_on_the_terminal_tells_all_of_it(judged: Place) -> None:
    told = judged.testigo("compare").out
    for words in ("noise floor", "2 examples", "general_loss", "questions", "far-too-high", "diverged"):
        assert words in told, words


def test_a_run_that_is_declared_invalid_is_left_out_and_stays_in_the_balance(judged: Place) -> None:
    import whole

    run = document_of(judged)["balance"][1]["run"]
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
