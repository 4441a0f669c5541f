"""The model card: front matter that the Hugging Face hub reads, and what a user of the adapter must know."""

from __future__ import annotations

from io import StringIO
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from ruamel.yaml import YAML

from testigo.dossier import conclusion, language, units
from testigo.dossier.classes import classes_in, clean_in
from testigo.dossier.language import speaking
from testigo.dossier.record import Record
from testigo.dossier.retelling import told


def model_card(record: Record) -> str:
    """MODEL_CARD.md of a record, in the campaign's language; its front matter is for machines and in English."""
    with speaking(record.plan.language):
        return _card(record)


def _card(record: Record) -> str:
    templates = Environment(
        loader=PackageLoader("testigo.dossier", "templates"),
        autoescape=False,  # Markdown, not HTML; every value is brought to one plain line by `line`
        undefined=StrictUndefined,
        trim_blocks=True,
        keep_trailing_newline=True,
        lstrip_blocks=True,
        extensions=["jinja2.ext.i18n"],
    )
    templates.install_gettext_callables(language.plain, language.plural, newstyle=True)  # type: ignore[attr-defined]
    templates.filters.update(
        line=line,
        plain=plain,
        told=told,
        share=units.share,
        points=units.points,
        count=units.count,
        short=units.short,
    )
    templates.globals.update(interval=units.interval)
    badge, sentence = conclusion.badge(record), conclusion.sentence(record)
    kind, name, revision = base_of(record.plan.base)
    return templates.get_template("card.md").render(
        front_matter=_yaml(front_matter(record)),
        record=record,
        badge=badge,
        sentence=conclusion.after_badge(sentence, badge),
        limits=conclusion.limits(record),
        improvement=conclusion.improvement(record),
        guards=conclusion.guards(record),
        before_after={metric: conclusion.values(record, metric) for metric in record.plan.metrics},
        classes=classes_in(record.comparison, drawn=False),
        clean=clean_in(record.comparison),
        model_class=_LOADERS[pipeline_of(record)],
        preparer="AutoImageProcessor" if record.plan.task == "image-classification" else "AutoTokenizer",
        base_kind=kind,
        base_name=name,
        base_revision=revision,
        method=method_of(record),
        own_code=", trust_remote_code=True" if record.adapter and record.adapter.base_code_sha256 else "",
    )


def base_of(reference: str) -> tuple[str, str, str]:
    """Kind, name and revision of `hub:NAME@REVISION`, `path:FOLDER` or `package:NAME`."""
    kind, _, rest = reference.partition(":")
    name, _, revision = rest.partition("@") if kind == "hub" else (rest, "", "")
    return kind, name, revision


def method_of(record: Record) -> str:
    """`lora` or `full`."""
    model = record.plan.settings.get("model")
    adapter = model.get("adapter") if isinstance(model, dict) else None
    return str(adapter.get("method", "lora")) if isinstance(adapter, dict) else "lora"


_OVER = {"corpus": "all rows together"}
_PIPELINES = {"classification": "text-classification", "image-classification": "image-classification"}
_LOADERS = {
    "text-generation": "AutoModelForCausalLM",
    "text-classification": "AutoModelForSequenceClassification",
    "image-classification": "AutoModelForImageClassification",
}


def pipeline_of(record: Record) -> str:
    """What the model does, in the hub's words: a class that is written as a text is generated."""
    task = record.plan.settings.get("task")
    by_text = isinstance(task, dict) and task.get("answer") == "text"
    return "text-generation" if by_text else _PIPELINES.get(record.plan.task, "text-generation")


def front_matter(record: Record) -> dict[str, Any]:
    """The metadata, with the measured metrics as a `model-index` (huggingface.co/docs/hub/model-cards)."""
    kind, name, _ = base_of(record.plan.base)
    lora = method_of(record) == "lora"
    matter: dict[str, Any] = {}
    if kind == "hub":
        matter["base_model"] = name
        matter["base_model_relation"] = "adapter" if lora else "finetune"
    matter["library_name"] = "peft" if lora else "transformers"
    matter["pipeline_tag"] = pipeline_of(record)
    matter["tags"] = ["testigo", *(["lora"] if lora else [])]
    if record.comparison:
        split = record.comparison.split
        metrics = [
            {
                "type": metric,
                "name": f"{metric}, {_OVER.get(kind, 'mean over the rows')}",
                "value": round(after, 6),
                "verified": False,
            }
            for metric, kind in record.plan.metrics.items()
            if (after := conclusion.values(record, metric)[1]) is not None
        ]
        dataset: dict[str, Any] = {"name": f"{record.plan.name}, {split} split", "type": "private", "split": split}
        if record.data:
            dataset["revision"] = record.data.fingerprint
        result = {
            "task": {"type": pipeline_of(record), "name": record.plan.task},
            "dataset": dataset,
            "metrics": metrics,
        }
        matter["model-index"] = [{"name": record.plan.name, "results": [result]}]
    return matter


def line(value: object) -> str:
    """A value as one line of Markdown that cannot become markup."""
    text = " ".join(str(value).split())
    for sign in "\\`*_[]<>|#":
        text = text.replace(sign, f"\\{sign}")
    return text


def plain(value: object) -> str:
    """A value as one line inside of a code block."""
    return " ".join(str(value).replace("`", "'").split())


def _yaml(value: dict[str, Any]) -> str:
    yaml = YAML()
    yaml.default_flow_style = False
    yaml.width = 4096
    out = StringIO()
    yaml.dump(value, out)
    return out.getvalue()
