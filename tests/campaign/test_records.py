"""Tables and charts for notebooks: what pandas, Altair and Jupyter make of a campaign's runs and comparison."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path

import nbclient
import nbformat
import pandas
import pytest

import testigo
from testigo.campaign import Campaign, Workspace, load
from testigo.campaign.records import comparison_of, forest, metrics_table, runs_of
from testigo.campaign.starting import new_campaign
from testigo.campaign.tables import Table
from testigo.errors import WorkspaceError
from testigo.judgement import compare

HOSTILE = "<script>alert(1)</script>"
EXAMPLE = Path(__file__).parents[2] / "examples" / "notebook.ipynb"


@pytest.fixture
def campaign(tmp_path: Path) -> Campaign:
    """A campaign with two runs and a comparison, as a workspace keeps them."""
    new_campaign(tmp_path / "shop")
    campaign = load(tmp_path / "shop" / "campaign.yaml")
    workspace = Workspace(tmp_path / "shop" / f"{campaign.name}.testigo").create(campaign)
    with workspace.open_ledger(create=True) as ledger:
        for seed, state in ((0, "completed"), (1, "diverged")):
            name = f"control-s{seed}"
            ledger.plan_run(name, variant="control", seed=seed, defines={})
            ledger.start_run(name, pid=1)
            ledger.end_run(name, state=state, cause=HOSTILE, updates=20, seconds=4.0)
            lines: list[dict[str, object]] = []
            for update in range(1, 21):
                loss = "nan" if seed and update == 20 else 3.0 / update
                lines.append({"update": update, "loss": loss, "learning_rate": 1e-3, "rows": ["r1"]})
                if update % 10 == 0:
                    lines.append({"update": update, "validation_loss": 2.0 + update / 100, "seconds": 0.1})
            folder = workspace.run(name)
            folder.mkdir(parents=True)
            (folder / "steps.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    answers = [{"row": f"r{k}", "output": "x", "scores": {"exact_match": 0.0, "valid_json": 1.0}} for k in range(30)]
    after = [{**line, "scores": {"exact_match": 1.0, "valid_json": 1.0}} for line in answers]
    metrics = {"exact_match": "binary", "valid_json": "binary"}
    compared = compare(answers, after, metrics=metrics, hypothesis=campaign.hypothesis)
    workspace.comparison_path.write_text(json.dumps(compared.to_json()), encoding="utf-8")
    return campaign


def test_runs_are_a_table_that_pandas_takes_and_steps_are_their_curves(
    campaign: Campaign, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(campaign.folder)
    runs = campaign.runs
    frame = pandas.DataFrame(runs)
    assert list(frame["id"]) == ["control-s0", "control-s1"]
    assert list(frame["state"]) == ["completed", "diverged"]
    assert frame["loss"][0] == pytest.approx(0.15)
    assert math.isnan(frame["loss"][1]), "a loss that was not finite is no number"
    assert list(frame["validation_loss"]) == [2.1, 2.1]
    steps = runs["control-s1"].steps
    assert list(pandas.DataFrame(steps)["update"]) == list(range(1, 21))
    assert math.isnan(steps[19]["loss"])
    assert "rows" not in steps.columns
    assert list(steps.to_pandas().columns) == list(steps.columns)
    assert runs["control-s0"].validations.column("validation_loss") == [2.1, 2.2]
    assert len(steps[:3]) == 3


def test_a_campaign_without_a_workspace_here_says_where_it_looked(
    campaign: Campaign, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(WorkspaceError, match=r"\.testigo"):
        _ = campaign.runs
    found = testigo.runs(campaign, tmp_path / "shop" / f"{campaign.name}.testigo")
    assert [run["seed"] for run in found] == [0, 1]


def test_charts_are_altairs_and_hold_every_run(campaign: Campaign, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(campaign.folder)
    drawn = campaign.runs.chart().to_dict()
    values = drawn["data"]["values"] if "values" in drawn["data"] else next(iter(drawn["datasets"].values()))
    assert {value["run"] for value in values} == {"control, seed 0", "control, seed 1"}
    assert {value["kind"] for value in values} == {"training", "validation"}
    assert len(values) == 20 + 19 + 4
    assert campaign.runs[0].chart("learning_rate").to_dict()["encoding"]["y"]["field"] == "learning_rate"
    with pytest.raises(KeyError, match="they have update"):
        campaign.runs.chart("rate")
    compared = campaign.comparison
    assert compared is not None
    assert len(compared.chart().to_dict()["layer"]) == 3


def test_a_chart_holds_no_sign_that_ends_the_drawing() -> None:
    table = metrics_table({"office\x0b": {"difference": 0.1, "low": 0.0, "high": 0.2}})
    assert "office␋" in forest(table).to_json(ensure_ascii=False)


def test_results_render_themselves_and_nothing_in_them_is_markup(campaign: Campaign) -> None:
    from IPython.core.formatters import DisplayFormatter

    workspace = Workspace(campaign.folder / f"{campaign.name}.testigo")
    runs, compared = runs_of(workspace), comparison_of(workspace)
    display = DisplayFormatter()
    for shown in (runs, runs[0], runs[0].steps, runs.table, compared):
        bundle, _ = display.format(shown)
        assert "<table>" in bundle["text/html"]
        assert "text/plain" in bundle
        assert "<script" not in bundle["text/html"]
    assert "&lt;script&gt;" in runs._repr_html_()
    assert "15 rows" not in Table(("a",), [(k,) for k in range(15)])._repr_html_()
    long = Table(("a",), [(k,) for k in range(100)])
    assert "100 rows" in long._repr_html_()
    assert "(100 rows)" in repr(long)


def test_the_comparison_of_two_files_of_lines_is_a_table_too(campaign: Campaign) -> None:
    before = [{"row": f"r{k}", "output": "x", "scores": {"exact_match": 0.0, "valid_json": 1.0}} for k in range(30)]
    metrics = {"exact_match": "binary", "valid_json": "binary"}
    compared = compare(before, before, metrics=metrics, hypothesis=campaign.hypothesis)
    assert compared.table.column("metric") == ["exact_match", "valid_json"]
    assert list(pandas.DataFrame(compared.table)["difference"]) == [0.0, 0.0]
    assert compared.conclusion.partition(":")[0] in compared._repr_html_()


def test_the_api_stays_light() -> None:
    code = (
        "import sys, testigo; testigo.load, testigo.runs, testigo.compare; "
        "assert not {'torch', 'pandas', 'altair'} & set(sys.modules), set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_example_notebook_runs(campaign: Campaign) -> None:
    book = nbformat.read(EXAMPLE, as_version=4)
    nbclient.NotebookClient(book, timeout=240, resources={"metadata": {"path": str(campaign.folder)}}).execute()
    outputs = [output for cell in book.cells if cell.cell_type == "code" for output in cell.outputs]
    kinds = {kind for output in outputs for kind in output.get("data", {})}
    assert {"text/html", "text/plain"} <= kinds
    assert "image/svg+xml" in kinds, "charts are drawn without the internet"
