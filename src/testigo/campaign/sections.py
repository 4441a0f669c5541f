"""The sections of a campaign file: types, bounds and defaults, each field with its documentation."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

Text = Annotated[str, StringConstraints(pattern=r"\S")]
Steps = Annotated[int, Field(ge=1, le=10_000_000)]
"""Updates, and what is counted in them: ten times the 1,000,000 of BERT's pretraining (Devlin et al. 2019, A.2)."""
MOST_ROWS = 65_536
Rows = Annotated[int, Field(ge=1, le=MOST_ROWS)]
"""Rows at once: the largest batches with which large models were trained had 64K (You et al. 2020, LAMB, 4.1)."""
Tokens = Annotated[int, Field(ge=1, le=10_000_000)]
"""Tokens of a row or an answer: the longest context that a model of open weights claims (Meta 2025, Llama 4 Scout)."""
Width = Annotated[int, Field(ge=1, le=65_536)]
"""Inner size of a matrix: the widest layer of Llama 3 405B has 53,248 (Dubey et al. 2024, table 3)."""
Processes = Annotated[int, Field(ge=1, le=16_384)]
"""Processes at once: Llama 3 405B was trained on up to 16K GPUs (Dubey et al. 2024, 3.3.1)."""
Share = Annotated[float, Field(gt=0, lt=1)]


def _without_default(schema: dict[str, Any]) -> None:
    schema.pop("default", None)


def _of_a_text(schema: dict[str, Any]) -> None:
    schema.pop("default", None)
    schema["minimum"] = 1


class Section(BaseModel):
    """Strict, closed and frozen: an unknown key or a wrong type is an error, and nothing is converted."""

    model_config = ConfigDict(
        strict=True, frozen=True, extra="forbid", allow_inf_nan=False, use_attribute_docstrings=True
    )

    @classmethod
    def filled(cls, data: Any) -> Any:
        """The data with what follows from the rest of it."""
        return data

    @model_validator(mode="before")
    @classmethod
    def _fill(cls, data: Any) -> Any:
        return cls.filled(data)


class Task(Section):
    """What the model has to do with a row."""

    kind: Literal["extraction", "generation", "classification", "image-classification", "chat", "tool-calling"]
    """`extraction`: a text becomes one JSON object. `generation`: a text becomes a text. `classification`: a text gets
    one of a few classes. `image-classification`: an image does. `chat`: a conversation is continued. `tool-calling`: a
    request becomes calls of the tools that its row offers."""
    input: Text
    """The row's field that the model reads. Chat: the messages, whose last one is the answer."""
    target: Text = Field(default="", json_schema_extra=_without_default)
    """The row's field that it has to write, that names the class, or that holds the expected calls. Chat has none."""
    tools: Text | None = None
    """Tool calling: the row's field with the definitions of the tools that it offers."""
    order: Literal["any", "kept"] = "any"
    """Tool calling: whether several calls have to come in the expected order (`kept`)."""
    labels: Annotated[tuple[Text, ...], Field(strict=False, min_length=2)] | None = None
    """The names of the classes, in the order of the head. `null`: the targets of the training and validation rows, in
    order (numbers by value, names by letter)."""
    answer: Literal["head", "text"] = "head"
    """Classification: `head` trains a layer that chooses the class, `text` lets a language model write its name."""
    category: Text | None = None
    """The row's field by whose values the results are also given, one by one. Splits are balanced over it."""
    schema_file: Text | None = Field(default=None, alias="schema")
    """A JSON Schema of the target, for extraction. Needed by the metrics `schema_valid` and `required_fields`."""
    system: Text | None = None
    """The system message of every prompt. In it `{schema}` is replaced by the schema and `{tools}` by the row's tools,
    written compactly. Tool calling without one has its own; a conversation that begins with its own keeps it."""

    @classmethod
    def filled(cls, data: Any) -> Any:
        """The answer of a chat is in its messages."""
        if isinstance(data, dict) and data.get("kind") == "chat" and "target" not in data and "input" in data:
            return {**data, "target": data["input"]}
        return data


class Improvement(Section):
    """The behaviour that must get better."""

    metric: Text
    """A metric of the task: see the table of metrics below."""
    by: float = Field(gt=0, le=1)
    """The smallest improvement that matters, as a difference of the metric's mean: 0.10 is ten points."""


class Guard(Section):
    """Something that must not get worse."""

    metric: Text
    """A metric of the task; or `general_loss`, the loss of the general text that comes with Testigo (nats per token),
    which must not rise."""
    within: float = Field(ge=0, lt=1)
    """The largest loss that is still acceptable: the comparison must show that the loss is smaller than this."""


class Hypothesis(Section):
    """What is claimed, before any compute. It is frozen when the campaign is registered."""

    improve: Improvement
    """The behaviour to improve, and by how much."""
    keep: tuple[Guard, ...] = Field(default=(), strict=False)
    """What must not get worse, each with its margin."""
    alpha: float = Field(default=0.05, gt=0, le=0.5)
    """The risk of calling an improvement shown when there is none."""
    divergence: Literal["failure", "bounds"] = "failure"
    """What a seed of the control counts that diverged: `failure`, as if every row were wrong; or `bounds`, between that
    and every row right. An improvement is *shown* only where it holds either way."""


class GuardTask(Section):
    """Another task that must not get worse: rows of its own, which base and tuned model answer alike."""

    name: Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9._-]{0,39}$")]
    """Small letters, digits, `-`, `_`, `.`."""
    source: Text
    """Its rows: a file, a folder, or `hub:OWNER/NAME@REVISION`. None is trained on."""
    task: Task
    """What the model has to do with a row, as in the campaign's own `task`; the answer is a text."""
    metric: Text
    """A metric of that task."""
    within: float = Field(ge=0, lt=1)
    """The largest fall that is still acceptable."""
    id: Text = "id"
    """The row's field with its name."""
    group: Text | None = None
    """The row's field by which rows belong together: groups are the units of the test."""
    max_new_tokens: Tokens
    """The most tokens of an answer."""


class Duplicates(Section):
    """What happens to rows that say the same, or nearly. Text that many rows share does not count."""

    exact: Literal["drop", "refuse", "report"] = "drop"
    """Rows that are equal after normalisation: `drop` all but the first, `refuse` the data, or only `report` them."""
    near: float | None = Field(default=0.8, gt=0, le=1)
    """From this similarity of their texts on, rows are near-duplicates and stay in one split. `null`: do not look."""
    near_policy: Literal["drop", "refuse", "report"] = "drop"
    """Training rows that are near-duplicates of rows of a given validation or test file: `drop` them from training,
    `refuse` the data, or only `report` them."""
    overlap: float | None = Field(default=0.5, gt=0, le=1)
    """From this share of a row's 8-grams on that stand in another row, the rows overlap and stay in one split. `null`:
    do not look."""
    overlap_policy: Literal["drop", "refuse", "report"] = "drop"
    """The same for training rows that overlap with rows of a given validation or test file."""
    contained: Literal["drop", "refuse", "report"] = "drop"
    """The same for rows of which the one holds all words of the other, in order: copies with words added."""
    conflicts: Literal["drop", "refuse", "report"] = "report"
    """Rows with the same input and another target: `drop` them from training, `refuse` the data, or `report` them."""


class Time(Section):
    """A split by time: the newest rows are test, those before them validation, the older ones train."""

    field: Text
    """The row's field with its time: an ISO date, with or without the time of day, or a number such as the year."""
    embargo: float = Field(default=0.0, ge=0, le=1e15)
    """The gap before validation and before test, in days (of a number in its own unit): its rows are left out and
    counted, since they are too near to what comes after."""


BEGIN = "from "
"""How a boundary in time begins: `from 2025-03-01`."""


class Split(Section):
    """Which rows train, which guide and which decide. Groups and near-duplicates are never torn apart."""

    train: float = Field(default=1.0, gt=0, le=1, json_schema_extra=_without_default)
    """The share of `source` that is trained on. Left out: what validation and test leave over."""
    validation: Share | Text
    """A share of `source`, or a source of its own; beside `time` a share, or a boundary: `from 2025-03-01`."""
    test: Share | Text
    """The same. It is sealed until `testigo open-test`."""
    seed: int = Field(default=0, ge=0, le=2**32 - 1)
    """Another seed is another split."""
    cuts: Literal["auto", "fixed", "fitted"] = "auto"
    """`fixed`: each group's split follows from its name alone, so rows added later move none; shares hold by chance.
    `fitted`: shares hold within three points in each category; rows added later may move a few groups. `auto`: fixed
    where validation and test can expect ten groups each, else fitted."""
    time: Time | None = None
    """Split by time instead. `null`: by groups, whatever their time."""

    def begin(self, name: str) -> str | None:
        """The boundary in time at which a split begins, as it is written; None when it is no boundary."""
        value = getattr(self, name)
        return value.removeprefix(BEGIN).strip() if isinstance(value, str) and value.startswith(BEGIN) else None

    def file(self, name: str) -> str | None:
        """The source of its own that a split has; None when it is a share or a boundary."""
        value = getattr(self, name)
        return value if isinstance(value, str) and self.begin(name) is None else None

    @classmethod
    def filled(cls, data: Any) -> Any:
        """`train` takes what validation and test leave over."""
        if not isinstance(data, dict) or "train" in data:
            return data
        given = (data.get("validation"), data.get("test"))
        rest = round(1 - sum(share for share in given if isinstance(share, float)), 12)
        return {**data, "train": rest} if rest > 0 else data


class Data(Section):
    """Where the rows are and how they are prepared."""

    source: Text
    """The rows: a file (`.jsonl`, `.csv`, `.parquet`), a folder of such files or of images, or `hub:NAME@REVISION`.
    Workspaces of Testigo that lie in the folder are passed over."""
    id: Text = "id"
    """The field that names a row. Ids are unique."""
    group: Text | None = None
    """The field (customer, patient, document) whose rows all stay in one split."""
    unit: Text | None = None
    """What a group is, in a word: conversation, patient, document. Messages and the report use it; it changes nothing
    else. `null`: the name of the group's field."""
    clean: tuple[Literal["unicode", "strip", "spaces", "drop-empty"], ...] = Field(default=(), strict=False)
    """In order: `unicode` (NFC), `strip` (no white space at the ends), `spaces` (each run of white space becomes one
    space), `drop-empty` (rows without input or target are left out and counted)."""
    duplicates: Duplicates = Duplicates()
    """Copies and near-copies."""
    engine: Literal["local", "ray"] = "local"
    """Where near-duplicates are searched for: on this machine, or on the Ray cluster that the environment variable
    `RAY_ADDRESS` names (without it: a cluster that runs here, or one that is started). The result is the same."""
    split: Split
    """Train, validation and test."""


class Adapter(Section):
    """How the base is changed."""

    method: Literal["lora", "full"] = "lora"
    """`lora` trains small matrices beside frozen weights; `full` trains every weight."""
    rank: Width = 16
    """LoRA: the inner size of each pair of matrices."""
    alpha: float = Field(default=32.0, gt=0)
    """LoRA: the update is scaled by alpha / rank."""
    dropout: float = Field(default=0.0, ge=0, lt=1)
    """LoRA: share of the adapter's inputs that is set to zero in training."""
    targets: Literal["all-linear"] | Annotated[tuple[Text, ...], Field(strict=False, min_length=1)] = "all-linear"
    """LoRA: `all-linear`, or the names of the modules that get a pair of matrices."""
    save_modules: tuple[Text, ...] = Field(default=(), strict=False)
    """LoRA: modules that are trained and saved whole, such as a resized embedding."""


class Base(Section):
    """The model to start from, and what is trained of it."""

    base: Text
    """`hub:NAME@REVISION` (40 hex digits), `path:FOLDER` beside this file, or `package:NAME` (a Python package)."""
    trust_remote_code: bool = False
    """Run the Python files that the base brings (`auto_map`), after you have read them. They are hashed into the base's
    digest. Without it such a base is refused, or loaded without them where transformers knows its architecture."""
    adapter: Adapter = Adapter()
    """What is trained."""
    head: Literal["auto", "new"] = "auto"
    """Class heads: `auto` keeps a head that the base has for these classes and makes a new one where it has none; `new`
    makes a new one, whatever the base has. A new head is trained whole, from values drawn by the run's seed."""
    precision: Literal["fp32", "bf16", "fp16"] = "fp32"
    """The number format of the forward and backward pass."""
    quantise: Literal["4bit", "8bit"] | None = None
    """LoRA: hold the frozen base in 4 bits a weight (NF4, Dettmers et al. 2023) or in 8, by bitsandbytes, for baseline,
    runs and evaluation alike; `pip install 'testigo[quantised]'`. `null`: in full."""


class Encoding(Section):
    """How rows become tokens."""

    maximum_length: int | None = Field(default=None, ge=2, le=10_000_000)
    """The most tokens of a row, prompt and target together. `null`: what the model can take."""
    longer: Literal["refuse", "drop", "truncate"] = "refuse"
    """Rows that are longer: `refuse` to start, `drop` them with a count, or `truncate` (another experiment)."""
    layout: Literal["packed", "padded"] = "packed"
    """`packed`: rows lie in one sequence without padding, and what they begin with alike is computed once. `padded`:
    one row beside the other, as rows before a class head always lie."""
    turns: Literal["all", "last"] = "all"
    """The assistant's turns that are learned: `all` of a conversation, or the `last` one alone."""
    tools: Literal["text", "template"] = "text"
    """Tool calling: tools and calls as the task's own `text`, or as the chat `template` of the base writes them."""
    template_options: dict[str, bool | int | str] = {}
    """What the chat template asks for besides the messages, in training and evaluation: `{enable_thinking: false}`."""


class Schedule(Section):
    """How the learning rate changes over the run."""

    kind: Literal["cosine", "linear", "constant"] = "cosine"
    """The shape after the warm-up; `cosine` and `linear` end at zero."""
    warmup: float = Field(default=0.05, ge=0, le=1)
    """The share of the updates in which the learning rate rises from zero."""


class Checkpoint(Section):
    """When the state is saved, and how many are kept."""

    every: Literal["auto"] | Steps = "auto"
    """Updates between two checkpoints. `auto`: 50 in runs under 500 updates, 200 in runs over 2,000, 100 between."""
    keep: Steps = 3
    """How many are kept beside the best and the last."""


class Stop(Section):
    """When a run may end early."""

    metric: Literal["validation_loss"] = "validation_loss"
    """What is watched."""
    patience: Steps
    """How many validations in a row may pass without a new best."""


class Augment(Section):
    """How training images are varied. Evaluation and validation never are. Each is drawn from seed, epoch and row."""

    flip: float = Field(default=0.0, ge=0, le=1)
    """The share of images that is mirrored, left to right."""
    rotate: float = Field(default=0.0, ge=0, le=180)
    """The largest turn to either side [degrees]."""
    shift: float = Field(default=0.0, ge=0, lt=1)
    """The largest move to each side, as a share of the image's width and height."""
    brightness: float = Field(default=0.0, ge=0, lt=1)
    """The largest change of brightness: 0.2 multiplies it by 0.8 to 1.2."""


class Training(Section):
    """The updates. Examples per update = microbatch × accumulation × processes."""

    updates: Steps | None = None
    """How many updates. Give either this or `epochs`."""
    epochs: float | None = Field(default=None, ge=1e-6, le=1e6)
    """How many times over the training rows. Give either this or `updates`."""
    microbatch: Rows
    """Rows that go through the model at once in each process: a pack holds as many tokens as that many of the longest
    rows take together, so short rows share it with more of their kind. It changes memory and time, and no gradient."""
    accumulation: Rows = 1
    """Microbatches that are summed into one update."""
    learning_rate: float = Field(gt=0, le=1)
    """The highest learning rate of the run, such as 1e-4."""
    schedule: Schedule = Schedule()
    """How the learning rate changes."""
    weight_decay: float = Field(default=0.0, ge=0, le=1e6)
    """AdamW's decoupled weight decay."""
    clip: float | None = Field(default=1.0, gt=0, le=1e9)
    """The largest norm of the gradient of an update. `null`: no clipping."""
    activation_checkpointing: bool = False
    """Compute activations twice and keep fewer: less memory, more time, the same gradients."""
    augment: Augment | None = None
    """Image classification: how training images are varied. `null`: they are not."""
    validate_every: Steps | None = None
    """Updates between two validations. `null`: only at the end."""
    checkpoint: Checkpoint = Checkpoint()
    """When the state is saved."""
    stop: Stop | None = None
    """When a run may end early. `null`: never."""


class Evaluation(Section):
    """How outputs are made, greedily, for the baseline and for every run alike."""

    max_new_tokens: int = Field(default=0, ge=0, le=10_000_000, json_schema_extra=_of_a_text)
    """The most tokens of an output. Needed where a text is written; a class head writes none."""
    batch_size: Rows = 16
    """Rows that are read or classified at once. More are written at once where that takes no more memory."""
    samples: int = Field(default=8, ge=0, le=65_536)
    """Validation prompts that are also answered before the first update and at each validation, always the same ones.
    Their outputs are kept (`samples.jsonl`) and compared over the run; a guard needs six at least. 0: none."""
    twice: int = Field(default=32, ge=0, le=65_536)
    """Rows that the base answers a second time, in other batches and another order: how often the two answers differ is
    the noise floor, which stands beside each result. 0: none."""
    prompted_baseline: int = Field(default=0, ge=0, le=64)
    """Examples from the training rows, one of each category first, that the base is also tried with in its prompt. That
    result stands beside the baseline; what was registered is compared with the baseline without examples. 0: none."""


class Variant(Section):
    """One explained change against the control, which is the file as written."""

    name: Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9._-]{0,39}$")]
    """Small letters, digits, `-`, `_`, `.`: it becomes a part of the run's name."""
    set: dict[str, Any] = Field(min_length=1)
    """Dotted key -> value, such as `training.learning_rate: 5e-5`, in `model`, `encoding`, `training` or `machine`."""
    because: Text
    """Why it is worth a run. The report prints it."""


class Machine(Section):
    """What the campaign runs on."""

    processes: Processes = 1
    """Data replicas: each takes its own rows of every update."""
    strategy: Literal["ddp", "fsdp"] = "ddp"
    """`ddp`: every process holds all of the state. `fsdp`: the state is sharded over the processes."""
    launcher: Literal["local", "ray", "slurm"] = "local"
    """Who starts the workers: this machine; the Ray cluster that `RAY_ADDRESS` names (without it: one that runs here,
    or one that is started); or Slurm. A cluster's nodes see workspace, campaign and base at the same paths."""
    memory_gib: float | None = Field(default=None, gt=0, le=1e6)
    """What a run asks a cluster for, in GiB of main memory."""
    slurm: dict[str, Any] = Field(default_factory=dict)
    """Parameters of Slurm jobs by the names that submitit gives them, such as `slurm_partition` and `timeout_min`."""
    parallel: Literal["auto"] | Processes = "auto"
    """How many runs go on side by side, each on a device of its own. `auto`: as many as there are GPUs, or one."""


class Budget(Section):
    """What may be spent."""

    days: tuple[Annotated[float, Field(gt=0, le=36_525)], ...] = Field(strict=False, min_length=1)
    """The rental packages to plan for, in days."""
    price_per_hour: float | None = Field(default=None, ge=0, le=1e9)
    """What an hour of the machine costs."""
    currency: Annotated[str, StringConstraints(pattern=r"^[A-Z]{3}$")] | None = None
    """The price's currency, three capital letters."""


class Rules(Section):
    """Changes to the rules that judge the campaign."""

    files: tuple[Text, ...] = Field(default=(), strict=False)
    """Python files with rules of your own."""
    limits: dict[str, dict[str, Any]] = Field(default_factory=dict)
    """Code of a rule -> limit -> value, such as `T104: {spreads: 6}`. `testigo explain T104` lists its limits."""
