"""What to do, in the settings of a Trainer: the rules' own remedies speak in those of a campaign file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from testigo.rules import Finding

REMEDIES: Mapping[str, str] = {
    "D101": "Give each row of the data set an id of its own.",
    "D102": "Split by group before the Trainer sees the rows: all rows of a customer or document in one data set.",
    "D103": "Take the named rows out of one of the two data sets; oversample only after splitting.",
    "D104": "Take the named rows out of one of the two data sets; split rows that are alike together.",
    "D105": "Decide which answer is right, or keep both on purpose; the model learns the mean of them.",
    "D106": "Give the Trainer rows: see what filters and `max_length` left out.",
    "D161": "Give `eval_dataset` more rows, or ask for a larger improvement.",
    "E101": "Use the tokenizer that belongs to the model; after adding tokens call `model.resize_token_embeddings`.",
    "E102": "Look at `labels` of the named rows: an answer that was cut away needs a larger `max_length`; a mask that "
    "is always -100 needs another collator or another response marker.",
    "E103": "Look at `labels` of a few batches: hardly any token is in the loss.",
    "E104": "Look at `labels` of the named rows: they begin before the assistant's turn; use `prompt` and `completion` "
    "columns, `assistant_only_loss=True`, or another response marker.",
    "E105": "Decode the labels of the named rows that are not -100 and hold them against the answer: a larger "
    "`max_length` when the end is lost; clean control characters when the tokenizer changes them.",
    "E106": "Usually nothing; let the prompt end with a line break, or tokenise prompt and answer together.",
    "E107": "Mask padding by its place, not by its id: use the attention mask, or a pad token that is not the EOS "
    "token. `DataCollatorForLanguageModeling(mlm=False)` masks by id.",
    "E108": "Set `model.generation_config.eos_token_id` (and the tokenizer's `eos_token`) to the token that ends the "
    "assistant's turn.",
    "E109": "Tokenise rendered chat text with `add_special_tokens=False`, or take the token out of the template.",
    "E110": "Render prompts for training and for generation with the same chat template and system message.",
    "E111": "In the collator, set labels to -100 where the attention mask is 0.",
    "E112": "Raise `max_length`, or leave long rows out yourself, and say so.",
    "E113": "Raise `max_length`, or shorten the prompts of the named rows.",
    "E114": "Raise `max_length`: the answers of these rows lay beyond it. Or drop them yourself, and say so.",
    "E115": "Raise `max_length`, or say in your report that only short rows are meant.",
    "E116": "Run the pilot again on a machine with enough memory, or lower `per_device_train_batch_size` with a higher "
    "`gradient_accumulation_steps`.",
    "E117": "Clean these characters, or use a model with a byte-level tokenizer.",
    "E120": "Take the marks out of the texts of the named rows, or write them in another way.",
    "E122": "Decode the named rows and compare; rewrite what the task needs in letters that survive, or use a base "
    "with a byte-level tokenizer.",
    "E123": "Train the embedding too (`modules_to_save=['embed_tokens']` in LoRA), or use the base's own tokens and "
    "chat template.",
    "E124": "Raise `max_length`, or shorten the prompts of the named rows so that room for the answer stays.",
    "E125": "Raise `max_length` by the length of the turn's end, usually one token.",
    "E126": "Where the chat template closes the turn, leave the end out of the text.",
    "E127": "Make the attention mask by length and not by id, or pass the one that the tokenizer made.",
    "E128": "Let packed rows carry `position_ids` of their own with an attention that keeps rows apart "
    "(`padding_free=True` with Flash Attention), or set `packing=False`.",
    "E129": "Render every prompt with the same date: give the chat template its own variable for it, such as "
    "`date_string`, through `chat_template_kwargs` in each row.",
    "E130": "Put the words into a message that the template writes (the system message into the first question), or "
    "use the template of a model that knows the role.",
    "F101": "Load the model again, in float32; its files may be damaged.",
    "F102": "See that every row has a label that is not -100; try float32.",
    "F103": "The model or its loss does not compute the mean cross-entropy of its labels: see its `forward`.",
    "F104": "Set `packing=False` and `padding_free=False`, or use an attention that keeps packed rows apart.",
    "F105": "Let the collator pass `attention_mask`, and `position_ids` where padding is on the left.",
    "F106": "Choose an attention implementation that keeps packed rows apart, or switch packing off.",
    "F107": "Use the tokenizer and chat template of this model; see that labels are not shifted.",
    "F108": "Begin with a new adapter (`get_peft_model`, initial values as they are), and render prompts with the "
    "model's own chat template.",
    "F109": "Look at `labels` of a batch beside its tokens: they do not belong together.",
    "F110": "Give the model labels that are not shifted, or compute the loss outside; never both.",
    "F111": "See that some label of each batch is not -100.",
    "F112": "Find what draws random numbers in evaluation mode: a dropout that ignores `self.training`, or a module "
    "whose `train()` was overridden.",
    "F113": "Load the model again; update the driver; choose another machine.",
    "F122": "Read these files; `trust_remote_code=True` let them run. Name an exact `revision` of the model.",
    "F121": "Compare `bf16` and `fp16` of the arguments with the `dtype` that the model was loaded in.",
    "B101": "Create the adapter with `get_peft_model`, or load it with `is_trainable=True`.",
    "B102": "Compare the lists with what sets `requires_grad` after the adapter was made; or declare what is meant: "
    "`testigo.pilot(trainer, trained=[...])`.",
    "B103": "With activation checkpointing use `use_reentrant=False`, or call `model.enable_input_require_grads()`.",
    "B104": "Look at `labels`: no token reaches the loss.",
    "B105": "Nothing where experts or added tokens were not used by this batch; else see `target_modules` of the "
    "adapter's settings.",
    "B106": "Set `requires_grad_(False)` on it, or list it in `modules_to_save` of the adapter's settings.",
    "B107": "Train in bf16 or float32 rather than fp16; see which rows the batch holds.",
    "B108": "Let the model's `forward` take `**kwargs` and pass `num_items_in_batch` to its loss, or give the Trainer "
    "a `compute_loss_func` that divides by it. Where the loss adds up with the accumulation steps, the model takes "
    "further keywords and does not use them: set `trainer.model_accepts_loss_kwargs = False`.",
    "B109": "As for B108: the sum of token losses must be divided by `num_items_in_batch`.",
    "B110": "Find what keeps gradients: an overridden `zero_grad`, or a hook that adds to them.",
    "B111": "Set `activation_checkpointing_kwargs={'use_reentrant': False}`, or switch activation checkpointing off.",
    "B112": "List the new tokens in the adapter's `trainable_token_indices`, or the embedding in `modules_to_save`.",
    "B125": "Leave `embed_tokens` and `lm_head` out of `modules_to_save`, or set `ensure_weight_tying=True` there.",
    "B150": "Set `packing=False`, and report it with the model's name.",
    "U101": "Build the optimizer after `get_peft_model`, from the parameters with `requires_grad`; or let the Trainer "
    "build it.",
    "U102": "Give the optimizer every parameter with `requires_grad`, or let the Trainer build it.",
    "U103": "Build the optimizer after the model was moved and wrapped.",
    "U104": "List tied weights once when you make parameter groups.",
    "U105": "See U101 and B103; then raise `learning_rate`. In pure bf16, small changes are rounded away.",
    "U106": "Nothing where these parts were not used by the batch; in pure bf16 keep float32 weights.",
    "U107": "Take the named tensors out of the optimizer, or give them `requires_grad`.",
    "U108": "Step the scheduler once an update, after the optimizer; hold it against `learning_rate`, "
    "`lr_scheduler_type` and `warmup_steps`.",
    "U109": "Compare `gradient_accumulation_steps` with the updates that were done; an incomplete last group of "
    "microbatches is an update too.",
    "U110": "Build the scheduler for the number of updates, not of microbatches: rows / (batch size × accumulation).",
    "U111": "Clip once an update, after accumulation: leave it to the Trainer's `max_grad_norm`.",
    "U112": "Train in bf16 instead of fp16.",
    "U113": "Wrap the model on every process and clip on every process or on none.",
    "U114": "Set every seed (`transformers.set_seed`) before `get_peft_model`, not after.",
    "U121": "Lower `learning_rate`, set `max_grad_norm=1.0`, or train in float32.",
    "U122": "See U101, B103 and the labels first; the loop cannot learn two rows by heart.",
    "U123": "Generate with the prompt that was trained; raise `max_new_tokens`; look at E108 and E110.",
    "U124": "Raise `learning_rate`, when it is no matter of time.",
    "U125": "Load the model in float32 and set `bf16=True`, which computes in bf16 and keeps the weights in float32.",
    "U126": "Look at the learning rate of each parameter group, and for hooks that change gradients or weights.",
    "V101": "See which module stays in training mode after `model.eval()`: its `train()` may be overridden.",
    "V103": "As for F112: something draws random numbers in evaluation mode.",
    "V104": "Something writes to the weights while evaluating: look for hooks, moving averages, or `prediction_step`.",
    "V105": "Something draws random numbers in evaluation: keep and restore the random state around it.",
    "V106": "Set `dataloader_drop_last=False`; with several processes drop the rows that fill the last batch up.",
    "V107": "Look at the end of the prompt: `apply_chat_template(..., add_generation_prompt=True)` opens the turn.",
    "V108": "Look at E107 and E108; raise `max_new_tokens`.",
    "V109": "Set `max_new_tokens` to the longest target's tokens or more.",
    "V110": "Give `max_new_tokens` to generation, and no `max_length` beside it.",
    "V111": "See which validation rows have no label; the Trainer leaves non-finite batches out of `eval_loss`.",
    "R102": "Nothing is left of this run: raise `max_steps` or `num_train_epochs` in a new one.",
    "R104": "Save and load the scheduler's state, or make it a function of the update's number.",
    "R107": "Give the checkpoint before this one to `resume_from_checkpoint`; see whether the run had diverged.",
    "X103": "Save in the precision that was trained in; look at X105 for renamed keys.",
    "X104": "Load the base at the exact revision that the adapter was trained on.",
    "X106": "Export the last checkpoint before the run diverged; lower `learning_rate` and train again.",
    "X109": "Free the disk, or set `save_total_limit`.",
    "M101": "Halve `per_device_train_batch_size` and double `gradient_accumulation_steps` (same examples per update); "
    "or set `activation_checkpointing=True`; in evaluation a smaller `per_device_eval_batch_size`.",
    "M102": "See what else runs on the machine and how hot it is; save less often.",
    "M103": "Keep no tensor of an update beyond it: log numbers, not tensors.",
    "M111": "See what else ran on the machine at that time; keep data and checkpoints on a local disk.",
    "T101": "Go back to the last checkpoint before this update; look at its rows; train in bf16 or float32; then lower "
    "`learning_rate` or `max_grad_norm`.",
    "T103": "Train in bf16 or float32, or lower `learning_rate`.",
    "T104": "Look at the rows of this update; when nothing is wrong with them, set `max_grad_norm=1.0` or lower "
    "`learning_rate`.",
    "T105": "Run `testigo.pilot(trainer)`: not tested, likeliest first: another template than the model's own; labels "
    "that do not meet their place; an adapter that is not new.",
    "T106": "Run `testigo.pilot(trainer)`; lower `learning_rate`; raise `warmup_steps`.",
    "T107": "Look at `labels`: every one is masked. Run `testigo.pilot(trainer)`.",
    "T108": "Set `max_grad_norm=1.0`; lower `learning_rate`; raise `warmup_steps`.",
    "T109": "Lower `learning_rate` to a third; raise `warmup_steps`; set `max_grad_norm=1.0`.",
    "T110": "Run `testigo.pilot(trainer)`: see which parameters have gradients.",
    "T111": "Run `testigo.pilot(trainer)`; raise `learning_rate` threefold; shorten warm-up.",
    "T112": "Set `load_best_model_at_end=True` with an `EarlyStoppingCallback`; fewer epochs; more rows; more dropout.",
    "T113": "Step the scheduler once an update; see which callback or scheduler changes the learning rate.",
    "T114": "Look whether the prompts hold the answers, or the rows are copies of each other.",
    "T115": "Halve `learning_rate`, or raise `gradient_accumulation_steps`.",
    "T116": "Lower `learning_rate`, or use `lr_scheduler_type='cosine'`; see that rows are shuffled.",
    "T117": "See which validation rows have no label; the Trainer leaves non-finite batches out of `eval_loss`.",
    "T120": "Raise `gradient_accumulation_steps`; lower `learning_rate`.",
    "T121": "See for how many updates the scheduler was made, and whether it is stepped once an update.",
    "T124": "Look at the rows of this update; set `max_grad_norm=1.0` where nothing clips.",
    "T122": "See that the data loader shuffles; halve `learning_rate`.",
}


def for_trainers(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """The same findings with remedies in a Trainer's own settings."""
    return tuple(replace(finding, remedy=REMEDIES.get(finding.code, finding.remedy)) for finding in findings)
